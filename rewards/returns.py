"""Returns: what each position of a trajectory is worth (Eq. 9)."""

from __future__ import annotations

from collections.abc import Sequence

from rewards.weights import RewardWeights


def discounts(positions: int, gamma: float = 0.95) -> tuple[float, ...]:
    """gamma ** (T-1-t) for t = 0..T-1: the terminal gain reaches early positions weaker. Shape [T]."""
    return tuple(gamma ** (positions - 1 - t) for t in range(positions))


def qa_terms(positions: int, qa_gain: float | None, weights: RewardWeights) -> tuple[float, ...]:
    """0.35 * 0.95 ** (T-1-t) * R_QA; all 0 where the gain is missing (no questions, or none judged). Shape [T]."""
    gain = 0.0 if qa_gain is None else qa_gain
    return tuple(weights.w_qa * discount * gain for discount in discounts(positions, weights.gamma))


def returns(
    valid: Sequence[float],
    mem: Sequence[float],
    penalty: Sequence[float],
    qa_gain: float | None,
    weights: RewardWeights | None = None,
) -> tuple[float, ...]:
    """r_t = 0.20 valid + 0.45 mem + P + 0.35 * 0.95 ** (T-1-t) * R_QA, unclipped (Eq. 9). Shapes [T] -> [T]."""
    weights = weights or RewardWeights()
    parts = zip(valid, mem, penalty, qa_terms(len(valid), qa_gain, weights), strict=True)
    return tuple(weights.w_valid * v + weights.w_mem * m + p + q for v, m, p, q in parts)
