"""The program that the launchers start: every case of the update once, on as many processes as there are.

    python -m tests.writer_rl.launched.cases FOLDER [RECIPE_OVERRIDE ...]

Rank 0 leaves `<case>.json` (what the epochs measured), `<case>.safetensors` (the weights after it) and, of cases that compare
two courses bit for bit, the names of what differs. With overrides SFT and GRPO of the tiny recipe run too.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from tests.writer_rl.builders import key, make_policy, make_samples
from writer_rl import checkpoint, entry, launch, recipe
from writer_rl.advantages import Sample
from writer_rl.dealing import share_by_tokens
from writer_rl.lora import AdapterReference
from writer_rl.moments import gathered_moments
from writer_rl.optimizer import build_scheduler
from writer_rl.policy import Policy, load_policy, reference_of, with_adapter
from writer_rl.stepper import prepare
from writer_rl.update import UpdateConfig, update
from writer_rl.update_stats import UpdateStats

LENGTHS = [(9, 5), (3, 11), (20, 2), (4, 7), (6, 6), (12, 3), (5, 9), (8, 4), (7, 8), (10, 6)]
ADVANTAGES = {key(g): value for g, value in enumerate([1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, -1.5, 0.8, -0.8])}
CONFIG = UpdateConfig(micro_batch_tokens=40, kl_gate=1e9)
DECAY = 0.01
LR = 3e-4
EPS = 1e-6  # Adam's own 1e-8 turns the rounding of gradients that are nothing but rounding into steps, up to the rate


@dataclass
class Course:
    """A policy in training on this rank, from the same start in every course."""

    accelerator: Accelerator
    policy: Policy
    reference: torch.nn.Module
    optimizer: AdamW
    scheduler: LambdaLR

    @classmethod
    def new(cls, policy: Policy | None = None, start: Path | None = None, checkpointing: bool = False) -> Course:
        accelerator = launch.start()
        if accelerator.state.deepspeed_plugin is not None:  # else ZeRO-3 leaves weights as small as these whole
            zero = accelerator.state.deepspeed_plugin.deepspeed_config["zero_optimization"]
            zero["stage3_param_persistence_threshold"] = 0
        policy = policy or make_policy()
        if checkpointing:
            policy.model.gradient_checkpointing_enable()
            policy.model.train()
        reference = reference_of(make_policy()) if start is None else AdapterReference(policy, start)
        optimizer = prepare(policy, LR, DECAY, 1.0, None, accelerator)
        for group in optimizer.param_groups:
            group["eps"] = EPS
        return cls(accelerator, policy, reference, optimizer, build_scheduler(optimizer, "linear", steps=50))

    def round(self, samples: Sequence[Sample], advantages=ADVANTAGES, config: UpdateConfig = CONFIG) -> UpdateStats:
        """One round, its samples dealt as in training."""
        mine = share_by_tokens(samples, [one.key in advantages for one in samples], self.accelerator)
        return self.share(mine, advantages, config)

    def share(self, mine: Sequence[Sample], advantages=ADVANTAGES, config: UpdateConfig = CONFIG) -> UpdateStats:
        """One round on samples that were dealt already."""
        parts = (self.optimizer, self.scheduler, self.accelerator)
        return update(self.policy, self.reference, mine, advantages, *parts, config)

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: one.detach().clone() for name, one in self.policy.model.named_parameters()}

    def moments(self) -> dict[str, torch.Tensor]:
        return gathered_moments(self.optimizer, self.accelerator).tensors


def differing(left: Course, right: Course) -> list[str]:
    """Names of weights and moments that are not equal bit for bit, and whatever else of the state is not."""
    found = []
    for ours, theirs in ((left.weights(), right.weights()), (left.moments(), right.moments())):
        found += sorted(ours.keys() ^ theirs.keys())
        found += [name for name in ours.keys() & theirs.keys() if not torch.equal(ours[name], theirs[name])]
    if left.scheduler.state_dict() != right.scheduler.state_dict():
        found.append("scheduler")
    return found


class Report:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, course: Course, rounds: Sequence[UpdateStats], unequal: Sequence[str] = ()) -> None:
        course.accelerator.wait_for_everyone()
        if course.accelerator.is_main_process:
            told = {
                "processes": course.accelerator.num_processes,
                "kind": course.accelerator.distributed_type.value,
                "rounds": [asdict(one) for one in rounds],
                "unequal": list(unequal),
            }
            (self.folder / f"{name}.json").write_text(json.dumps(told))
            save_file({name: one.contiguous() for name, one in course.weights().items()}, self.folder / f"{name}.safetensors")


def cut(report: Report) -> None:
    """Two rounds in 1, some and 8 micro-batches in all; two of ten samples are dropped."""
    some = {one: value for one, value in ADVANTAGES.items() if one.g not in (1, 6)}
    for budget in (10_000, 40, 1):
        course = Course.new()
        config = replace(CONFIG, micro_batch_tokens=budget)
        report.write(f"cut{budget}", course, [course.round(make_samples(LENGTHS, seed), some, config) for seed in (1, 2)])


def lonely(report: Report) -> None:
    """All samples lie with rank 0; then one sample is kept of all; then none."""
    course = Course.new()
    samples = [make_samples(LENGTHS, seed) for seed in (1, 2, 3)]
    first = course.accelerator.is_main_process
    rounds = [course.share(samples[0] if first else [])]
    rounds.append(course.round(samples[1], {key(3): 1.0}))
    rounds.append(course.round(samples[2], {}))
    report.write("lonely", course, rounds)


def uneven(report: Report) -> None:
    """A completion of more than one chunk of the head on one rank, a short one on the next."""
    course = Course.new()
    report.write("uneven", course, [course.round(make_samples([(5, 300), (4, 3)]), {key(0): 1.0, key(1): -1.0})])


def gated(report: Report) -> None:
    """A gated round, and one that is not finite, leave no trace in weights, moments, schedule and the next round."""
    rounds = [make_samples(LENGTHS, seed) for seed in (1, 2, 3)]
    for name, changed in (("gated", {}), ("nonfinite", {key(3): float("inf")})):
        course, plain = Course.new(), Course.new()
        config = replace(CONFIG, kl_gate=-1.0) if name == "gated" else CONFIG
        made = [course.round(rounds[0])]
        plain.round(rounds[0])
        made.append(course.round(rounds[1], ADVANTAGES | changed, config))
        unequal = differing(course, plain)
        made.append(course.round(rounds[2]))
        other = plain.round(rounds[2])
        unequal += [] if other == made[-1] else ["what the next round measured"]
        report.write(name, course, made, unequal + differing(course, plain))


def shut(report: Report) -> None:
    """The gate shuts after epoch 1."""
    course = Course.new()
    report.write("shut", course, [course.round(make_samples(LENGTHS), config=replace(CONFIG, epochs=3, kl_gate=1e-12))])


def recomputed(report: Report) -> None:
    """Activations are computed again in the backward pass."""
    course = Course.new(checkpointing=True)
    report.write("recomputed", course, [course.round(make_samples(LENGTHS, seed)) for seed in (1, 2)])


def resumed(report: Report) -> None:
    """Two rounds, saved, loaded, one more: as three without a stop. Moments of another launch are refused."""
    straight, first = Course.new(), Course.new()
    made = [straight.round(make_samples(LENGTHS, seed)) for seed in (1, 2, 3)]
    for seed in (1, 2):
        first.round(make_samples(LENGTHS, seed))
    folder = report.folder / "round-2"
    checkpoint.save(folder, first.policy, first.optimizer, first.scheduler, {"round": 2}, first.accelerator)
    second = Course.new(checkpoint.load(folder).policy)
    checkpoint.restore_trainer(folder, second.optimizer, second.scheduler, second.accelerator)
    last = second.round(make_samples(LENGTHS, 3))
    report.write("resumed", second, made, differing(straight, second) + ([] if last == made[-1] else ["last round"]))


def adapted(report: Report) -> None:
    """A LoRA adapter; its reference is the adapter of the start; saved and resumed."""
    base = report.folder / "base"
    checkpoint.save(base, make_policy(), accelerator=launch.start())
    course = Course.new(with_adapter(load_policy(base), base, 4, 8, "all-linear", 0), base)
    made = [course.round(make_samples(LENGTHS, seed)) for seed in (1, 2)]
    folder = report.folder / "adapter-2"
    checkpoint.save(folder, course.policy, course.optimizer, course.scheduler, {}, course.accelerator)
    again = Course.new(checkpoint.load(folder).policy, base)
    checkpoint.restore_trainer(folder, again.optimizer, again.scheduler, again.accelerator)
    made.append(course.round(make_samples(LENGTHS, 3)))
    other = again.round(make_samples(LENGTHS, 3))
    report.write("adapted", again, made, differing(course, again) + ([] if other == made[-1] else ["last round"]))


def trained(report: Report, overrides: Sequence[str]) -> None:
    """SFT and GRPO of the tiny recipe, GRPO stopped after a round and gone on with."""
    own = [f"checkpoints={report.folder}", *overrides]
    entry.run("sft", recipe.load("tiny", [*own, "grpo.max_new_tokens=400"]))
    for rounds in (1, 2):
        entry.run("grpo", recipe.load("tiny", [*own, "grpo.max_new_tokens=16", f"grpo.rounds={rounds}"]))


CASES: tuple[Callable[[Report], None], ...] = (cut, lonely, uneven, gated, shut, recomputed, resumed, adapted)


def main(folder: Path, overrides: Sequence[str]) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    report = Report(folder)
    for case in CASES:
        case(report)
    if overrides:
        trained(report, overrides)
    launch.start().wait_for_everyone()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
