"""The policy update on one round: what epoch 1 and 2 compute, when they step, and where N comes from.

Loss = sum over ranks, micro-batches, samples i and tokens k of (1 / (N n_i)) * [clipped surrogate and beta * k3], with N
the number of kept samples of the round over all ranks: `_kept_total` counts it before anything is computed, and
`token_weights` folds it in, so that gradients add up and nothing divides again.

Under several processes each passes its own share of the round's samples and the *same* plain model (not one wrapped by
`Accelerator.prepare`): gradients are summed over ranks here, after the last micro-batch, so ranks may hold different numbers
of micro-batches, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rollout.engines.base import RequestKey
from writer_rl.advantages import ADVANTAGE_MIN, Sample
from writer_rl.batches import Batch, micro_batches
from writer_rl.logprobs import completion_logprobs
from writer_rl.lora import AdapterReference
from writer_rl.loss import grpo_token_loss, token_weights
from writer_rl.policy import Policy
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
    """A micro-batch with all that stays fixed over the epochs. `old` is epoch 1's forward, so epoch 1 has none yet."""

    batch: Batch
    advantages: Tensor  # [S]
    weights: Tensor  # [S], 1 / (N n_i)
    reference: Tensor  # [S, K]
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
    parts = _prepare(policy, reference, kept, advantages, total, config)
    for _ in range(config.epochs):
        parts, epoch = _epoch(policy.model, parts, total, optimizer, scheduler, accelerator, config)
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
    config: UpdateConfig,
) -> list[_MicroBatch]:
    """Micro-batches with their weights and the reference's log-probabilities, which are computed once a round."""
    parts = []
    for cpu_batch in micro_batches(kept, config.micro_batch_tokens):
        batch = cpu_batch.to(policy.device)
        values = torch.tensor([advantages[kept[i].key] for i in batch.indices], dtype=torch.float32, device=policy.device)
        beside = reference.in_place() if isinstance(reference, AdapterReference) else nullcontext()
        with torch.no_grad(), _precision(policy.device, config), beside:
            logps = completion_logprobs(reference, batch)
        parts.append(_MicroBatch(batch, values, token_weights(batch.completion_lengths, total), logps))
    return parts


def _epoch(
    model: nn.Module,
    parts: list[_MicroBatch],
    total: int,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    accelerator: Accelerator,
    config: UpdateConfig,
) -> tuple[list[_MicroBatch], EpochStats]:
    """One forward and backward over the round, and one step or none; the parts come back with `old` filled in."""
    optimizer.zero_grad(set_to_none=True)
    tally = Tally(accelerator.device, config.clip)
    frozen = []
    for part in parts:
        with _precision(part.weights.device, config):
            logps = completion_logprobs(model, part.batch)  # [S, K]
        old = logps.detach() if part.old is None else part.old
        losses = grpo_token_loss(logps, old, part.reference, part.advantages, part.batch.mask, config.clip, config.beta)
        loss = (losses * part.weights[:, None]).sum()
        loss.backward()
        tally.add(loss, logps.detach(), old, part.reference, part.advantages, part.batch.mask)
        frozen.append(replace(part, old=old))
    epoch = tally.total(accelerator, total)
    if epoch.finite and epoch.kl > config.kl_gate:
        epoch = replace(epoch, outcome=Outcome.GATED)
    else:
        grad_norm = summed_gradient_norm(model, accelerator, config.max_grad_norm)
        epoch = replace(epoch, grad_norm=grad_norm)
        epoch = replace(epoch, outcome=Outcome.STEPPED if epoch.finite else Outcome.NONFINITE)
    if epoch.outcome is Outcome.STEPPED:
        optimizer.step()
        scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    return frozen, epoch


def summed_gradient_norm(model: nn.Module, accelerator: Accelerator, cap: float) -> float:
    """Sum gradients over ranks, scale them down to norm `cap`, and return the norm before scaling."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if accelerator.num_processes > 1:
        for parameter in trained:
            if parameter.grad is None:  # this rank kept no sample
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)
    return float(nn.utils.clip_grad_norm_(trained, cap))


def _precision(device: torch.device, config: UpdateConfig) -> AbstractContextManager[object]:
    if config.autocast_dtype is None:
        return nullcontext()
    return torch.autocast(device.type, config.autocast_dtype)
