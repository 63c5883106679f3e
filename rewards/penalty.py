"""Structural penalties of one Writer output (Eq. 21)."""

from __future__ import annotations

from dataclasses import dataclass

from data.memory.executor import Report
from rewards.weights import RewardWeights


@dataclass(frozen=True, slots=True)
class Penalty:
    """P <= 0 and its four indicators z."""

    total: float
    json: bool
    act: bool
    count: bool
    length: bool


def penalty(json_valid: bool, report: Report, cut_off: bool, weights: RewardWeights | None = None) -> Penalty:
    """-0.25 invalid JSON, -0.15 any invalid action, -0.10 over budget, -0.10 output reached the length limit (Eq. 21).

    `json_valid` is the strict parse's verdict, `cut_off` the engine's finish reason `length`. Invalid JSON does not
    count as an invalid action too.
    """
    weights = weights or RewardWeights()
    invalid = json_valid and any(not outcome.valid for outcome in report.outcomes)
    total = -(
        weights.eta_json * (not json_valid)
        + weights.eta_act * invalid
        + weights.eta_count * report.over_budget
        + weights.eta_length * cut_off
    )
    return Penalty(total + 0.0, not json_valid, invalid, report.over_budget, cut_off)  # + 0.0: never minus zero
