"""The policy update on one round: what epoch 1 and 2 compute, when they step, and where N comes from.

Loss = sum over ranks, micro-batches, samples i and tokens k of (1 / (N n_i)) * [clipped surrogate and beta * k3], with N
the number of kept samples of the round over all ranks: `_kept_total` counts it before anything is computed, and
`token_weights` folds it in, so that gradients add up and nothing divides again.

Under several processes each passes its own share of the round's samples, which may be none; ranks run equal numbers of
micro-batches, the missing ones being dummies of weight 0. How gradients become a step is the stepper's affair, and the one
thing that differs between launchers (`writer_rl.stepper`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rollout.engines.base import RequestKey
from writer_rl.advantages import ADVANTAGE_MIN, Sample
from writer_rl.batches import Batch, micro_batches
from writer_rl.dealing import level
from writer_rl.logprobs import completion_logprobs
from writer_rl.lora import in_place
from writer_rl.loss import grpo_token_loss, token_weights
from writer_rl.policy import Policy
from writer_rl.stepper import Stepper, precision, stepper_of
from writer_rl.update_stats import EpochStats, Outcome, Tally, UpdateStats


@dataclass(frozen=True)
class UpdateConfig:
    """Eq. 26 and Table 9's values. `micro_batch_tokens` counts padding; `autocast_dtype` None computes in fp32."""

    epochs: int = 2
    clip: float = 0.2
    beta: float = 0.1
    kl_gate: float = 0.02
    max_grad_norm: float = 1.0
    micro_batch_tokens: int = 8192
    autocast_dtype: torch.dtype | None = None


@dataclass(frozen=True)
class _MicroBatch:
    """A micro-batch with all that stays fixed over the epochs. `old` is epoch 1's forward, so epoch 1 has none yet. A dummy
    has no samples in its batch's indices, and only zeros."""

    batch: Batch
    advantages: Tensor  # [S]
    weights: Tensor  # [S], 1 / (N n_i); 0 in a dummy
    reference: Tensor  # [S, K]
    engine: Tensor  # [S, K], the sampling engine's, for diagnostics alone
    old: Tensor | None = None  # [S, K]


def update(
    policy: Policy,
    reference: nn.Module,
    samples: Sequence[Sample],
    advantages: Mapping[RequestKey, float],
    optimizer: Optimizer,
    scheduler: LRScheduler,
    accelerator: Accelerator,
    config: UpdateConfig,
) -> UpdateStats:
    """Up to `config.epochs` optimizer steps on this rank's samples of a round (design section 7).

    Samples without an entry in `advantages` are in neither loss term and are never forwarded. Before each epoch's step the
    mean over all kept samples of their token mean of k3 to the reference is compared with `kl_gate`: above it, this epoch
    and the following ones take no optimizer or scheduler step, and weights, moments and the next gradient are as if nothing
    had been computed. A loss or gradient that is not finite is skipped likewise; later epochs would only repeat it. No kept
    sample anywhere: no step. All outcomes are counted in the result, which is the same on every rank.
    """
    kept = [sample for sample in samples if abs(advantages.get(sample.key, 0.0)) > ADVANTAGE_MIN]
    total = _kept_total(len(kept), accelerator)
    stats = UpdateStats(kept=total, dropped=_kept_total(len(samples) - len(kept), accelerator))
    if not total:
        return stats
    parts = _prepare(policy, reference, kept, advantages, total, accelerator, config)
    stepper = stepper_of(policy, optimizer, config.max_grad_norm, config.autocast_dtype, accelerator)
    for _ in range(config.epochs):
        parts, epoch = _epoch(stepper, parts, total, accelerator, config)
        if epoch.outcome is Outcome.STEPPED:
            scheduler.step()
        stats = replace(stats, epochs=(*stats.epochs, epoch))
        if epoch.outcome is not Outcome.STEPPED:
            break
    return stats


def _kept_total(count: int, accelerator: Accelerator) -> int:
    """The sum of a count over ranks."""
    return int(accelerator.reduce(torch.tensor(count, device=accelerator.device), "sum"))


def _prepare(
    policy: Policy,
    reference: nn.Module,
    kept: Sequence[Sample],
    advantages: Mapping[RequestKey, float],
    total: int,
    accelerator: Accelerator,
    config: UpdateConfig,
) -> list[_MicroBatch]:
    """Micro-batches with their weights and the reference's log-probabilities, which are computed once a round."""
    parts = []
    for cpu_batch in level(micro_batches(kept, config.micro_batch_tokens), accelerator):
        batch = cpu_batch.to(policy.device)
        if not batch.indices:
            nothing = torch.zeros(batch.targets.shape, device=policy.device)
            parts.append(_MicroBatch(batch, nothing[:, 0], nothing[:, 0], nothing, nothing))
            continue
        values = torch.tensor([advantages[kept[i].key] for i in batch.indices], dtype=torch.float32, device=policy.device)
        with torch.no_grad(), precision(policy.device, config.autocast_dtype), in_place(reference):
            logps = completion_logprobs(reference, batch)
        engine = _padded([kept[i].logprobs for i in batch.indices], batch.mask)
        parts.append(_MicroBatch(batch, values, token_weights(batch.completion_lengths, total), logps, engine))
    return parts


def _padded(rows: Sequence[Sequence[float]], mask: Tensor) -> Tensor:
    """One number a completion token -> [S, K], 0 at padding."""
    made = torch.zeros(mask.shape, device=mask.device)
    made[mask] = torch.tensor([value for row in rows for value in row], device=mask.device)
    return made


def _epoch(
    stepper: Stepper, parts: list[_MicroBatch], total: int, accelerator: Accelerator, config: UpdateConfig
) -> tuple[list[_MicroBatch], EpochStats]:
    """One forward and backward over the round, and one step or none; the parts come back with `old` filled in.

    The gate is decided between the last forward and the last backward, when every log-probability is known and nothing
    has been summed over ranks yet.
    """
    tally = Tally(accelerator.device, config.clip)
    frozen = []
    for number, part in enumerate(parts, 1):
        logps = stepper.logprobs(part.batch)  # [S, K]
        old = logps.detach() if part.old is None else part.old
        losses = grpo_token_loss(logps, old, part.reference, part.advantages, part.batch.mask, config.clip, config.beta)
        loss = (losses * part.weights[:, None]).sum() if part.batch.indices else logps.sum() * 0.0
        if part.batch.indices:
            tally.add(loss, logps.detach(), old, part.reference, part.advantages, part.batch.mask)
            tally.compare(old, part.engine, part.batch.mask)
        frozen.append(replace(part, old=old))
        if number < len(parts):
            stepper.backward(loss, last=False)
    epoch = tally.total(accelerator, total)
    if not epoch.finite or epoch.kl > config.kl_gate:
        stepper.discard(loss)
        return frozen, replace(epoch, outcome=Outcome.GATED if epoch.finite else Outcome.NONFINITE)
    stepper.backward(loss, last=True)
    epoch = replace(epoch, grad_norm=stepper.step())
    return frozen, replace(epoch, outcome=Outcome.STEPPED if epoch.finite else Outcome.NONFINITE)
