"""Three ways to do one round's update: this project's, the same passes written bare, and TRL's GRPOTrainer.

All do the same mathematics on the same samples: log-probabilities under a frozen reference, then twice a forward and backward
of the clipped objective with the k3 penalty, a gradient norm cap and an AdamW step. `Done` holds what shows it: the
gradient norms of both steps.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from writer_rl.advantages import Sample
from writer_rl.optimizer import build_optimizer, build_scheduler
from writer_rl.policy import Policy, reference_of
from writer_rl.update import UpdateConfig, update

LR, EPOCHS, CLIP, BETA, CAP = 1e-6, 2, 0.2, 0.1, 1.0
MICRO_BATCH_TOKENS = 4096  # as in recipes/social_cpu.yaml
TRL_CONFIG = Path(__file__).with_name("trl_update.json")


@dataclass(frozen=True)
class Done:
    """One update: seconds of CPU and of wall time, and the gradient norms before the cap, one an epoch."""

    cpu: float
    wall: float
    grad_norms: tuple[float, ...]


Arm = Callable[[], Done]


def load_model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


class Clock:
    """CPU and wall seconds since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def done(self, grad_norms: Sequence[float]) -> Done:
        return Done(time.process_time() - self._cpu, time.perf_counter() - self._wall, tuple(grad_norms))


def own_arm(
    folder: Path, samples: Sequence[Sample], *, tokens: int = MICRO_BATCH_TOKENS, gradient_checkpointing: bool = False
) -> Arm:
    """`writer_rl.update.update`. The KL gate is open: both epochs step, as in the other arms."""
    policy = Policy(load_model(folder), tokenizer=None)
    if gradient_checkpointing:
        policy.model.gradient_checkpointing_enable()
        policy.model.train()
    reference = reference_of(policy)
    optimizer = build_optimizer(policy.model, LR)
    steppers = (optimizer, build_scheduler(optimizer), Accelerator(cpu=True))
    config = UpdateConfig(EPOCHS, CLIP, BETA, math.inf, CAP, tokens)
    advantages = {sample.key: sample.ret for sample in samples}

    def run() -> Done:
        clock = Clock()
        stats = update(policy, reference, samples, advantages, *steppers, config)
        return clock.done([epoch.grad_norm for epoch in stats.epochs])

    return run


def bare_arm(folder: Path, samples: Sequence[Sample]) -> Arm:
    """The shortest form: one sample at a time, so no padding, all logits of its completion at once, nothing measured."""
    model, reference = load_model(folder), load_model(folder).requires_grad_(False)
    optimizer = build_optimizer(model, LR)

    def run() -> Done:
        clock, norms = Clock(), []
        with torch.no_grad():
            fixed = [bare_logprobs(reference, sample) for sample in samples]
        old: list[Tensor] = []
        for epoch in range(EPOCHS):
            for i, sample in enumerate(samples):
                logps = bare_logprobs(model, sample)
                if epoch == 0:
                    old.append(logps.detach())
                rho, delta = torch.exp(logps - old[i]), fixed[i] - logps
                gain = torch.minimum(rho * sample.ret, rho.clamp(1 - CLIP, 1 + CLIP) * sample.ret)
                ((BETA * (delta.exp() - delta - 1) - gain).mean() / len(samples)).backward()
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), CAP)))
            optimizer.step()
            optimizer.zero_grad()
        return clock.done(norms)

    return run


def bare_logprobs(model: Any, sample: Sample) -> Tensor:
    """[K]"""
    ids = torch.tensor([[*sample.prompt_ids, *sample.completion_ids]])
    start = len(sample.prompt_ids)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[0, start - 1 : -1]
    return -functional.cross_entropy(model.lm_head(hidden), ids[0, start:], reduction="none")


class _TrlClock(TrainerCallback):
    """From the first step's begin, ahead of generation and the reference's forward, to the last step's end."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.done: Done | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 0:
            self.norms, self.clock = [], Clock()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == EPOCHS:
            self.done = self.clock.done([])

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "grad_norm" in logs:
            self.norms.append(float(logs["grad_norm"]))


def trl_arm(folder: Path, samples: Sequence[Sample], *, rows: int, gradient_checkpointing: bool = False) -> Arm:
    """GRPOTrainer with the settings of trl_update.json, `rows` samples a forward. Rollout and rewards are handed to it:
    its own sampling costs nothing here."""
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    returns = [sample.ret for sample in samples]

    def rollout(prompts: list[str], trainer: Any) -> dict[str, list[list[Any]]]:
        return {
            "prompt_ids": [list(sample.prompt_ids) for sample in samples],
            "completion_ids": [list(sample.completion_ids) for sample in samples],
            "logprobs": [[0.0] * len(sample.completion_ids) for sample in samples],  # not used without vLLM
        }

    def reward(**kwargs: Any) -> list[float]:
        return returns

    scratch = tempfile.TemporaryDirectory()
    config = GRPOConfig(
        output_dir=scratch.name,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=len(samples) // rows,
        max_completion_length=max(len(sample.completion_ids) for sample in samples),
        gradient_checkpointing=gradient_checkpointing,
        **json.loads(TRL_CONFIG.read_text("utf-8")),
    )
    clock = _TrlClock()
    trainer = GRPOTrainer(
        model=str(folder),
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": [str(i) for i in range(len(samples) // 2)]}),
        processing_class=AutoTokenizer.from_pretrained(folder),
        rollout_func=rollout,
        callbacks=[clock],
    )
    trainer.remove_callback(PrinterCallback)

    def run() -> Done:
        assert Path(scratch.name).is_dir()
        trainer.train()
        assert clock.done is not None, "the trainer took fewer steps than the update has"
        return Done(clock.done.cpu, clock.done.wall, tuple(clock.norms))

    return run
