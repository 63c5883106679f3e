"""Position-wise advantages: a trajectory's return at position t against the other trajectories at the same t."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from data.network import DataError
from rollout.engines.base import RequestKey

SIGMA_MIN = 0.02  # Eq. 24: below it a position carries no signal
ADVANTAGE_MAX = 3.0  # Eq. 24
ADVANTAGE_MIN = 1e-8  # an advantage this small leaves its sample out of both loss terms


class GroupError(DataError):
    """The returns of a position do not form one complete group."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the Writer read and wrote at one position, token by token as the engine had it. `ret` is r of Eq. 9; `logprobs`
    [K] are the engine's, for diagnostics alone."""

    key: RequestKey
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]  # the turn-end token included where it was sampled
    ret: float
    logprobs: tuple[float, ...]


class PositionKey(NamedTuple):
    """What a group shares: (round, network, visit, position)."""

    round: int
    network: str
    visit: int
    t: int


def position_of(key: RequestKey) -> PositionKey:
    return PositionKey(key.round, key.network, key.visit, key.t)


@dataclass(frozen=True)
class Advantages:
    """`values` holds the samples that train, and only those: a key that is missing was left out. `mu` and `sigma`
    are those of every position, `dropped` the positions with sigma below SIGMA_MIN; all in position order."""

    values: dict[RequestKey, float]
    mu: dict[PositionKey, float]
    sigma: dict[PositionKey, float]
    dropped: tuple[PositionKey, ...]

    @property
    def frac_positions_dropped(self) -> float:
        return len(self.dropped) / len(self.sigma) if self.sigma else 0.0


def advantages(returns: Mapping[RequestKey, float], group_size: int) -> Advantages:
    """clip((r - mu) / sigma, -3, 3) inside each group, in float64 (Eq. 23 and 24).

    sigma is the population one and nothing is added to it; a position with sigma < 0.02 is dropped, a sample with
    |A| <= 1e-8 left out. The order of `returns` does not matter. Raises GroupError where a position does not hold
    exactly the trajectories g = 0..G-1, or where a return is not finite.
    """
    if group_size < 2:
        raise GroupError(f"the group size is {group_size}; advantages compare trajectories, so use 2 or more")
    groups: dict[PositionKey, dict[int, RequestKey]] = {}
    for key in sorted(returns):
        groups.setdefault(position_of(key), {})[key.g] = key
    values: dict[RequestKey, float] = {}
    mu: dict[PositionKey, float] = {}
    sigma: dict[PositionKey, float] = {}
    dropped: list[PositionKey] = []
    for position, members in sorted(groups.items()):
        if sorted(members) != list(range(group_size)):
            raise GroupError(
                f"round {position.round}, network {position.network!r}, visit {position.visit}, position {position.t}: the "
                f"group holds the trajectories {sorted(members)}, not 0..{group_size - 1}; every trajectory of a round "
                "must be scored at every position, and group_size must be the number that was sampled"
            )
        group = [float(returns[members[g]]) for g in range(group_size)]
        if not all(map(math.isfinite, group)):
            raise GroupError(f"{position}: a return is not finite ({group}); missing verdicts must be left out before scoring")
        mu[position], sigma[position] = _moments(group)
        if sigma[position] < SIGMA_MIN:
            dropped.append(position)
            continue
        for g, ret in enumerate(group):
            value = (ret - mu[position]) / sigma[position]
            value = max(-ADVANTAGE_MAX, min(ADVANTAGE_MAX, value))
            if abs(value) > ADVANTAGE_MIN:
                values[members[g]] = value
    return Advantages(values, mu, sigma, tuple(dropped))


def _moments(group: list[float]) -> tuple[float, float]:
    """Mean and population deviation (Eq. 23), summed exactly so that they do not depend on the order."""
    mean = math.fsum(group) / len(group)
    return mean, math.sqrt(math.fsum((ret - mean) ** 2 for ret in group) / len(group))
