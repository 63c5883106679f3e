"""What an update measured, per epoch and per round, under the names that TRL's users look for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import torch
from accelerate import Accelerator
from torch import Tensor

from writer_rl.loss import k3, sample_means


class Outcome(StrEnum):
    """What became of an epoch."""

    STEPPED = "stepped"
    GATED = "gated"  # mean KL above the gate: no step
    NONFINITE = "nonfinite"  # loss or gradient: no step


@dataclass(frozen=True)
class EpochStats:
    """Sums over all ranks. `loss` and `kl` are means over kept samples of token means; the clip ratios are shares of
    tokens. `max_delta` is the largest |log pi_ref - log pi| of a single token, `max_delta_share` that token's part of `kl`
    (one token can trip the gate). `nll` is the mean of -log pi over the sampled tokens. `engine_diff` and `engine_max` are
    mean and largest |log pi_engine - log pi_old| of a sampled token: how far the engine is from the trainer. `grad_norm` is
    that before the cap, and 0 in a gated epoch, which reduces no gradient."""

    loss: float
    kl: float
    clip_low: float  # tokens with A < 0 and rho < 1 - eps
    clip_high: float  # tokens with A > 0 and rho > 1 + eps
    nll: float
    max_delta: float
    max_delta_share: float
    grad_norm: float = 0.0
    outcome: Outcome = Outcome.STEPPED
    engine_diff: float = 0.0
    engine_max: float = 0.0

    @property
    def finite(self) -> bool:
        return all(map(math.isfinite, (self.loss, self.kl, self.grad_norm)))


@dataclass(frozen=True)
class UpdateStats:
    """A round's update. `epochs` holds those that were computed: fewer than configured after a gated or non-finite one,
    none where no sample was kept."""

    kept: int
    dropped: int
    epochs: tuple[EpochStats, ...] = ()

    def count(self, outcome: Outcome) -> int:
        return sum(epoch.outcome is outcome for epoch in self.epochs)

    @property
    def steps(self) -> int:
        return self.count(Outcome.STEPPED)

    @property
    def gated(self) -> bool:
        return self.count(Outcome.GATED) > 0

    @property
    def nonfinite(self) -> bool:
        return self.count(Outcome.NONFINITE) > 0

    def metrics(self) -> dict[str, float]:
        """Flat, for TensorBoard: TRL's names from the last epoch computed, `epoch/<e>/...` for each (e from 1)."""
        counts = {"kept_samples": self.kept, "dropped_samples": self.dropped, "steps": self.steps}
        flat = {f"update/{name}": float(value) for name, value in counts.items()}
        flat |= {"update/nonfinite": float(self.nonfinite), "kl_gate/gated": float(self.gated)}
        for number, epoch in enumerate(self.epochs, 1):
            named = _named(epoch)
            flat |= {f"epoch/{number}/{name}": value for name, value in named.items()} | named
        return flat


def _named(epoch: EpochStats) -> dict[str, float]:
    return {
        "loss": epoch.loss,
        "kl": epoch.kl,
        "clip_ratio/low_mean": epoch.clip_low,
        "clip_ratio/high_mean": epoch.clip_high,
        "clip_ratio/region_mean": epoch.clip_low + epoch.clip_high,
        "grad_norm": epoch.grad_norm,
        "sampled_nll": epoch.nll,
        "kl_gate/max_delta": epoch.max_delta,
        "kl_gate/max_delta_share": epoch.max_delta_share,
        "engine/logprob_diff_mean": epoch.engine_diff,
        "engine/logprob_diff_max": epoch.engine_max,
    }


class Tally:
    """Adds up an epoch's statistics over micro-batches, in float64, and over ranks."""

    def __init__(self, device: torch.device, clip: float) -> None:
        self._clip = clip
        # loss, KL (sum over samples), clipped low, clipped high, -log pi, tokens
        self._sums = torch.zeros(6, dtype=torch.float64, device=device)
        self._worst = torch.zeros(2, dtype=torch.float64, device=device)  # |delta|, its token's part of the KL sum
        self._engine = torch.zeros(2, dtype=torch.float64, device=device)  # |log pi_engine - log pi_old|: sum, largest

    def add(self, loss: Tensor, policy: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor) -> None:
        """One micro-batch: log-probabilities [S, K], detached; `advantages` [S]; `loss` as weighted, a scalar."""
        policy, old, reference = (torch.where(mask, logp, 0.0).double() for logp in (policy, old, reference))
        divergence = k3(policy, reference)  # [S, K]
        rho, sign = torch.exp(policy - old), advantages[:, None].sign()
        low = (rho < 1 - self._clip) & (sign < 0) & mask
        high = (rho > 1 + self._clip) & (sign > 0) & mask
        kl = sample_means(divergence, mask).sum()
        self._sums += torch.stack([loss.detach().double(), kl, low.sum(), high.sum(), -policy.sum(), mask.sum()])
        delta = (reference - policy).abs()
        at = delta.argmax()
        if delta.flatten()[at] > self._worst[0]:
            share = (divergence / mask.sum(-1, keepdim=True)).flatten()[at]
            self._worst = torch.stack([delta.flatten()[at], share])

    def compare(self, old: Tensor, engine: Tensor, mask: Tensor) -> None:
        """Log-probabilities [S, K] of the sampled tokens, by the trainer before its first step and by the engine."""
        off = torch.where(mask, old - engine, 0.0).double().abs()
        self._engine = torch.stack([self._engine[0] + off.sum(), torch.maximum(self._engine[1], off.max())])

    def total(self, accelerator: Accelerator, kept: int) -> EpochStats:
        """The sums over all ranks as means; `kept` is N."""
        loss, kl, low, high, nll, tokens = accelerator.reduce(self._sums, "sum").tolist()
        worst = max(accelerator.gather(self._worst[None]).tolist())
        engine = accelerator.gather(self._engine[None])  # [ranks, 2]
        return EpochStats(
            loss=loss,
            kl=kl / kept,
            clip_low=low / tokens,
            clip_high=high / tokens,
            nll=nll / tokens,
            max_delta=worst[0],
            max_delta_share=worst[1] / kl if kl > 0 else 0.0,
            engine_diff=float(engine[:, 0].sum()) / tokens,
            engine_max=float(engine[:, 1].max()),
        )
