"""What turns losses into an optimizer step: in one process, in many that hold the same model, or under DeepSpeed ZeRO.

A loss that comes here is this rank's part of a plain sum over ranks and micro-batches: nothing is divided by ranks or by
micro-batches. Every rank makes the same calls, with the same number of micro-batches.
"""

from __future__ import annotations

import copy
import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from writer_rl.batches import Batch
from writer_rl.logprobs import completion_logprobs
from writer_rl.optimizer import build_optimizer
from writer_rl.policy import Policy


class Stepper(Protocol):
    """One optimizer step: forward and backward for every micro-batch, then `step` or, instead of the last backward,
    `discard`."""

    def logprobs(self, batch: Batch) -> Tensor:
        """Log-probabilities of the trained model, with a graph: [S, K]."""
        ...

    def backward(self, loss: Tensor, last: bool) -> None: ...

    def step(self) -> float:
        """Sum the gradients over ranks, cap their norm and step; returns the norm before the cap. Where that is not finite,
        it is not a step, and nothing is left of it."""
        ...

    def discard(self, loss: Tensor) -> None:
        """Leave weights, moments and the next gradient as if nothing had been computed. `loss` is the last
        micro-batch's."""
        ...


def prepare(
    policy: Policy, lr: float, weight_decay: float, cap: float, autocast: torch.dtype | None, accelerator: Accelerator
) -> AdamW:
    """The optimizer of a policy, and under DeepSpeed the engine around both, which `stepper_of` finds again.

    Under ZeRO-3 the trained weights lie in shards, and the policy's model is a whole copy on every rank that follows them:
    generation, proofs and checkpoints see the same plain model under every launcher.
    """
    if accelerator.distributed_type is not DistributedType.DEEPSPEED:
        return build_optimizer(policy.model, lr, weight_decay)
    config = accelerator.state.deepspeed_plugin.deepspeed_config
    config["train_micro_batch_size_per_gpu"] = 1  # a number it wants; batches are cut by tokens
    config["gradient_clipping"] = cap
    model = copy.deepcopy(policy.model) if config["zero_optimization"]["stage"] == 3 else policy.model
    optimizer = build_optimizer(model, lr, weight_decay)
    accelerator.prepare(Scorer(model, autocast), optimizer)
    return optimizer


def stepper_of(
    policy: Policy, optimizer: Optimizer, cap: float, autocast: torch.dtype | None, accelerator: Accelerator
) -> Stepper:
    """The way to step that fits the launcher."""
    if accelerator.distributed_type is DistributedType.DEEPSPEED:
        return ZeroStepper(policy.model, deepspeed_engine(accelerator))
    return PlainStepper(policy.model, optimizer, cap, autocast, accelerator)


def deepspeed_engine(accelerator: Accelerator) -> Any:
    """The engine that `prepare` made."""
    return accelerator.deepspeed_engine_wrapped.engine


class PlainStepper:
    """One process, or many with the same plain model: gradients are summed once, behind the last micro-batch."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, cap: float, autocast: torch.dtype | None, accelerator: Accelerator
    ) -> None:
        self._scorer = Scorer(model, autocast)
        self._optimizer, self._cap, self._ranks = optimizer, cap, accelerator.num_processes
        optimizer.zero_grad(set_to_none=True)

    def logprobs(self, batch: Batch) -> Tensor:
        return self._scorer.forward(batch)

    def backward(self, loss: Tensor, last: bool) -> None:
        loss.backward()

    def step(self) -> float:
        trained = [parameter for parameter in self._scorer.parameters() if parameter.requires_grad]
        if self._ranks > 1:
            for parameter in trained:
                torch.distributed.all_reduce(parameter.grad)
        norm = float(nn.utils.clip_grad_norm_(trained, self._cap))
        if math.isfinite(norm):
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    def discard(self, loss: Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)


class ZeroStepper:
    """DeepSpeed ZeRO 1, 2 or 3, its accumulation boundary driven by hand (accelerate's wrapper would step inside backward).

    DeepSpeed averages gradients over ranks, so losses are scaled by their number: the sum stays a sum. It has no call that
    forgets a gradient, and zero_grad leaves the sums of ZeRO-2 and 3 where they are; but a gradient that is not finite it
    skips and clears itself, so one that is to be discarded is made so.
    """

    def __init__(self, whole: nn.Module, engine: Any) -> None:
        self._whole, self._engine = whole, engine

    def logprobs(self, batch: Batch) -> Tensor:
        made: Tensor = self._engine(batch)
        return made

    def backward(self, loss: Tensor, last: bool) -> None:
        self._engine.set_gradient_accumulation_boundary(last)
        self._engine.backward(loss * self._engine.world_size)

    def step(self) -> float:
        self._engine.step()
        norm = math.nan if self._engine.optimizer.overflow else float(self._engine.get_global_grad_norm())
        if math.isfinite(norm):
            self._follow()
        return norm

    def discard(self, loss: Tensor) -> None:
        self.backward(loss * math.nan, last=True)
        if math.isfinite(self.step()):
            raise RuntimeError("DeepSpeed stepped on a gradient that is not finite; this version cannot discard one")

    def _follow(self) -> None:
        """Under ZeRO-3: copy the trained shards into the whole model."""
        trained = self._engine.module.model
        if trained is self._whole:
            return
        from deepspeed.runtime.zero import GatheredParameters

        for mine, shard in zip(self._whole.parameters(), trained.parameters(), strict=True):
            if shard.requires_grad:
                with GatheredParameters([shard]):
                    mine.data.copy_(shard.data)


class Scorer(nn.Module):
    """A model whose forward gives the log-probabilities of a batch's completions, so that a wrapper around it sees one
    forward. Under autocast matrix products are in the lower precision."""

    def __init__(self, model: nn.Module, autocast: torch.dtype | None) -> None:
        super().__init__()
        self.model = model
        self._autocast = autocast

    def forward(self, batch: Batch) -> Tensor:
        with precision(batch.input_ids.device, self._autocast):
            return completion_logprobs(self.model, batch)


def precision(device: torch.device, autocast: torch.dtype | None) -> AbstractContextManager[object]:
    """Autocast, or nothing in fp32."""
    return nullcontext() if autocast is None else torch.autocast(device.type, autocast)
