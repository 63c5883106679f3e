"""SpeakerLevenshtein: how well a state holds what the reference holds, owner by owner (Eq. 7, 14, 16)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from data.memory.records import Record
from rewards.matching import Matcher, align, soft_f1

W_MEAN = 0.80
W_WORST = 0.20


@dataclass(frozen=True, slots=True)
class Pair:
    """A predicted record and the reference record it was aligned to, kappa in [0.5, 1]."""

    predicted: Record
    reference: Record
    kappa: float


@dataclass(frozen=True, slots=True)
class SpeakerLevenshtein:
    """Phi in [0, 1], with its parts: F_p of every owner in either state, sorted by owner, and the aligned pairs."""

    phi: float
    owners: tuple[tuple[str, float], ...]
    pairs: tuple[Pair, ...]

    @property
    def worst_owner(self) -> str | None:
        """The owner with the lowest F (the first by name among equals); None where both states are empty."""
        return min(self.owners, key=lambda owner: owner[1])[0] if self.owners else None

    @property
    def worst(self) -> float:
        """F of the worst owner; 1 where both states are empty."""
        return min((f for _, f in self.owners), default=1.0)


def phi(predicted: Iterable[Record], reference: Iterable[Record], matcher: Matcher | None = None) -> SpeakerLevenshtein:
    """Phi = 0.80 * mean_p F_p + 0.20 * min_p F_p over the owners of M or M* (Eq. 7); 1 where both are empty.

    Takes states or any records; superseded nodes count like heads. Names are compared as they stand: the executor
    and the teacher's replay have written the roster's spelling.
    """
    matcher = matcher or Matcher()
    buckets: dict[str, tuple[list[Record], list[Record]]] = {}
    for side, records in enumerate((predicted, reference)):
        for record in records:
            buckets.setdefault(record.owner, ([], []))[side].append(record)
    if not buckets:
        return SpeakerLevenshtein(1.0, (), ())
    owners: list[tuple[str, float]] = []
    pairs: list[Pair] = []
    for owner in sorted(buckets):
        ours, theirs = buckets[owner]
        matched = _align(ours, theirs, matcher)
        owners.append((owner, soft_f1(sum(pair.kappa for pair in matched), len(ours), len(theirs))))
        pairs += matched
    scores = [f for _, f in owners]
    value = W_MEAN * (sum(scores) / len(scores)) + W_WORST * min(scores)
    return SpeakerLevenshtein(value, tuple(owners), tuple(pairs))


def _align(ours: list[Record], theirs: list[Record], matcher: Matcher) -> list[Pair]:
    """One-to-one pairs inside one owner's bucket, of equal source and layer (Eq. 14): the gate comes before any text."""
    columns: dict[tuple[str, str], list[int]] = {}
    for j, record in enumerate(theirs):
        columns.setdefault((record.source, record.layer), []).append(j)
    kappa = np.zeros((len(ours), len(theirs)))
    for i, record in enumerate(ours):
        for j in columns.get((record.source, record.layer), ()):
            kappa[i, j] = matcher.kappa(record.content, theirs[j].content)
    return [Pair(ours[i], theirs[j], float(kappa[i, j])) for i, j in align(kappa)] if kappa.any() else []
