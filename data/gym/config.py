"""How hard a gym is: sizes and shares, set in a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from data.network import DataError

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")


@dataclass(frozen=True)
class GymConfig:
    """Sizes are inclusive (least, most) pairs; weights are relative; shares are in 0..1.

    `update`: events that revise a known slot, once there is one. `elliptic`: facts and reports told over two messages, so
    that the second is understood only with the first. `quiet`: segments without any event (gold NOOP). `distractors`:
    messages that deserve no record, drawn for each message. `lures`: distractors that mention attributes and values,
    or repeat what is known; the others are small talk. `conflict`: reports that contradict another person's report.
    """

    members: tuple[int, int] = (3, 5)
    segments: tuple[int, int] = (4, 6)
    messages: tuple[int, int] = (4, 7)
    questions: tuple[int, int] = (4, 8)
    fact: float = 3.0
    report: float = 2.0
    stance: float = 1.5
    vote: float = 1.0
    decision: float = 1.2
    habit: float = 1.2
    norm: float = 0.6
    relation: float = 0.8
    update: float = 0.35
    elliptic: float = 0.25
    quiet: float = 0.05
    distractors: float = 0.5
    lures: float = 0.7
    conflict: float = 0.35

    def __post_init__(self) -> None:
        for name, least in (("members", 2), ("segments", 1), ("messages", 2), ("questions", 1)):
            pair = getattr(self, name)
            if len(pair) != 2 or not least <= pair[0] <= pair[1]:
                raise DataError(f"gym: {name} is {pair!r}; give (least, most) with {least} <= least <= most")
            object.__setattr__(self, name, tuple(pair))  # a recipe gives lists
        if self.members[1] > 6:
            raise DataError(f"gym: members is {self.members!r}; at most 6 fit a roster")
        for name in ("update", "elliptic", "quiet", "distractors", "lures", "conflict"):
            if not 0 <= getattr(self, name) <= 1:
                raise DataError(f"gym: {name} is {getattr(self, name)!r}; it is a share, give 0..1")
        weights = self.weights
        if min(weights.values()) < 0 or sum(weights.values()) <= 0:
            raise DataError(f"gym: event weights are {weights!r}; give weights >= 0, at least one of them above 0")

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each event kind, by the kind's value."""
        return {name: getattr(self, name) for name in EVENTS}


EVENTS = ("fact", "report", "stance", "vote", "decision", "habit", "norm", "relation")
