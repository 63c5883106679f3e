"""Which networks a round works on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Visit:
    """A network's turn; `visit` counts how often it came before."""

    network: str
    visit: int


def visits(networks: Sequence[str], seed: int, round_index: int, per_round: int) -> list[Visit]:
    """The networks of a round: all of them in a fresh order, again and again, `per_round` at a time.

    A pure function of its arguments. Where one order ends inside a round and the next begins, a network may come twice in
    the round, as two visits: their groups stay apart.
    """
    made: list[Visit] = []
    for turn in range(round_index * per_round, (round_index + 1) * per_round):
        visit, place = divmod(turn, len(networks))
        order = sorted(networks)
        random.Random(f"{seed}/visit/{visit}").shuffle(order)
        made.append(Visit(order[place], visit))
    return made
