"""The weights by which reward parts add up. Ablations are recipe overrides of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """Weights of Eq. 9, 18, 19 and 21 with the paper's values. A weight of 0 removes a part from the return; the part
    is still computed and logged. `eta_*` are positive and taken off."""

    w_valid: float = 0.20  # Eq. 9
    w_mem: float = 0.45
    w_qa: float = 0.35
    gamma: float = 0.95
    w_phi: float = 0.80  # Eq. 18
    w_chain: float = 0.20
    w_json: float = 0.25  # Eq. 19
    w_schema: float = 0.35
    w_dup: float = 0.25
    w_stop: float = 0.15
    eta_json: float = 0.25  # Eq. 21
    eta_act: float = 0.15
    eta_count: float = 0.10
    eta_length: float = 0.10
