"""The update-chain reward: right nodes do not imply right UPDATE edges between them (Eq. 17)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data.memory.records import Record
from rewards.matching import THRESHOLD, Matcher, align, soft_f1

W_OLD = 0.50
W_NEW = 0.50

Edge = tuple[Record, Record]
"""An UPDATE: the old node and the new one. Both have the same coordinates."""


def chain_reward(predicted: Sequence[Edge], reference: Sequence[Edge], matcher: Matcher | None = None) -> float:
    """R_chain: soft F1 of the one-to-one alignment of all edges so far, `State.edges()` of both states.

    Edges of equal owner and layer match by 0.5 old + 0.5 new where that reaches 0.50. Without edges on both sides 1,
    without on one side 0.
    """
    if not predicted and not reference:
        return 1.0
    if not predicted or not reference:
        return 0.0
    matcher = matcher or Matcher()
    kappa = np.zeros((len(predicted), len(reference)))
    for i, ours in enumerate(predicted):
        for j, theirs in enumerate(reference):
            if (ours[1].owner, ours[1].layer) == (theirs[1].owner, theirs[1].layer):
                kappa[i, j] = _edge_kappa(ours, theirs, matcher)
    return soft_f1(sum(float(kappa[i, j]) for i, j in align(kappa)), len(predicted), len(reference))


def _edge_kappa(ours: Edge, theirs: Edge, matcher: Matcher) -> float:
    """Half of either end; an end below 0.50 still counts, only their sum is held to the threshold."""
    ends = [(old.content, new.content) for old, new in zip(ours, theirs, strict=True)]
    if W_OLD * matcher.ceiling(*ends[0]) + W_NEW * matcher.ceiling(*ends[1]) < THRESHOLD:
        return 0.0
    value = W_OLD * matcher.bar(*ends[0]) + W_NEW * matcher.bar(*ends[1])
    return value if value >= THRESHOLD else 0.0
