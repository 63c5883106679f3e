"""How the cost of a GRPO round grows with positions (T), trajectories (G) and networks (N): CPU seconds by phase.

    OMP_NUM_THREADS=1 python -m benchmarks.scaling

Gym networks; the teacher's own actions come from the engine, so that memories grow as a good Writer's do and nothing is
spent on generating tokens, whose cost is the engine's and goes with their number. Rollout (prompts, parsing, executor),
scoring (questions, rewards) and update (a tiny random Qwen2) are real. Writes docs/results/scaling.json and .md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.results import write_result
from data import gym
from data.gym import GymConfig
from rewards.matching import Matcher
from rewards.weights import RewardWeights
from rollout.engines.base import SamplingParams
from rollout.query.qa import qa_gains
from rollout.query.view import MemoryView
from rollout.writer.prompt import WriterPrompt
from rollout.writer.sampler import Episode, sample
from rollout.writer.trajectory import Trajectory
from writer_rl.advantages import Sample
from writer_rl.base.tokenizer import build
from writer_rl.cases import Case, make_case
from writer_rl.evaluation.writers import teacher_writer
from writer_rl.optimizer import build_optimizer, build_scheduler
from writer_rl.policy import Policy, reference_of
from writer_rl.recipe import load
from writer_rl.runtime import Runtime
from writer_rl.scoring import score_trajectory
from writer_rl.update import UpdateConfig, update

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.scaling"
PHASES = ("rollout", "scoring", "update")
AXES = {"positions": (4, 8, 16, 32), "trajectories": (2, 4, 8, 16), "networks": (1, 2, 4, 8)}
REPEATS = 3
WHOLE = 16_384  # tokens: more than any memory here
CAPPED = 256
AT_MOST = f"positions, at most {CAPPED} tokens of memory"

Made = TypeVar("Made")


@dataclass(frozen=True)
class Size:
    """What a round is made of."""

    positions: int = 4
    trajectories: int = 2
    networks: int = 1


class Bench:
    """The surroundings of a round, made once: pipeline, prompt with at most `head_tokens` of memory, policy, reference,
    optimizer."""

    def __init__(self, head_tokens: int = WHOLE) -> None:
        self.head_tokens = head_tokens
        self.runtime = Runtime.of(load("recipes/tiny.yaml"))
        self.prompt = WriterPrompt("compact", build([]))
        self.policy = Policy(tiny_model(len(self.prompt.tokenizer)), self.prompt.tokenizer)
        self.reference = reference_of(self.policy)
        self.optimizer = build_optimizer(self.policy.model, 1e-6)
        self.scheduler = build_scheduler(self.optimizer)

    def round(self, size: Size) -> dict[str, float]:
        """CPU seconds of every phase, and what was worked on: `writes`, and `tokens` of prompts and completions."""
        cases = make_cases(size)
        clock = PhaseClock()
        groups = clock("rollout", lambda: self.rollout(cases, size.trajectories))
        clock("scoring", lambda: [self.score(case, group) for case, group in zip(cases, groups, strict=True)])
        samples = [one for group in groups for trajectory in group for one in samples_of(trajectory)]
        clock("update", lambda: self.update(samples))
        tokens = sum(len(one.prompt_ids) + len(one.completion_ids) for one in samples)
        return {**clock.seconds, "writes": len(samples), "tokens": tokens}

    def rollout(self, cases: Sequence[Case], size: int) -> list[list[Trajectory]]:
        """G trajectories of every network: [N][G]."""
        made = asyncio.run(
            sample(
                teacher_writer(cases, self.prompt).engine,
                [Episode(case.segments, g=g) for case in cases for g in range(size)],
                self.prompt,
                SamplingParams(),
                0,
                support=self.runtime.support,
                embedder=self.runtime.embedder,
                prompt_limit=16_384,
                head_token_budget=self.head_tokens,
            )
        )
        return [made[start : start + size] for start in range(0, len(made), size)]

    def score(self, case: Case, group: Sequence[Trajectory]) -> None:
        view = MemoryView.of(case.network).prepared(self.runtime.embedder)
        finals = [one.final_state for one in group]
        qa = asyncio.run(qa_gains(self.runtime.pipeline, view, case.network.questions, finals))
        matcher = Matcher()
        for g, trajectory in enumerate(group):
            score_trajectory(case, trajectory, qa, g, matcher, RewardWeights())

    def update(self, samples: Sequence[Sample]) -> None:
        steppers = (self.optimizer, self.scheduler, self.runtime.accelerator)
        config = UpdateConfig(kl_gate=float("inf"), micro_batch_tokens=4096)
        update(self.policy, self.reference, samples, {one.key: one.ret for one in samples}, *steppers, config)


class PhaseClock:
    """CPU seconds of each phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, phase: str, work: Callable[[], Made]) -> Made:
        begun = time.process_time()
        made = work()
        self.seconds[phase] = time.process_time() - begun
        return made


def make_cases(size: Size) -> list[Case]:
    """Networks of exactly `positions` segments; everything else as the gym has it."""
    config = GymConfig(segments=(size.positions, size.positions))
    return [make_case(*gym.generate(config, "train", 0, index), None) for index in range(size.networks)]


def tiny_model(vocab_size: int) -> Any:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16_384,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(config).eval()


def samples_of(trajectory: Trajectory) -> list[Sample]:
    """Returns are made up, 1 and -1 by turns: whoever writes as the teacher does has no advantage over himself."""
    made = []
    for t, write in enumerate(trajectory.writes):
        said, key = write.completion, trajectory.key(t)
        made.append(Sample(key, write.prompt_ids, said.token_ids, 1.0 - 2 * (key.g % 2), said.logprobs))
    return made


def fit(units: Sequence[float], seconds: Sequence[float]) -> dict[str, float]:
    """Least squares of seconds = fixed + slope * units, its R^2, the exponent of the best power law, and the cost of a unit
    at the largest size over that at the smallest (below 1 where a fixed cost is shared)."""
    x, y = np.array(units, dtype=float), np.array(seconds, dtype=float)
    slope, fixed = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    r2 = 1 - float(((y - fixed - slope * x) ** 2).sum()) / spread if spread else 1.0
    power = float(np.polyfit(np.log(x), np.log(y), 1)[0])
    return {
        "seconds_per_unit": float(slope),
        "fixed_seconds": float(fixed),
        "r2": round(r2, 4),
        "exponent": round(power, 3),
        "unit_cost_ratio": round(float(y[-1] / x[-1] / (y[0] / x[0])), 3),
    }


def measure_axis(bench: Bench, axis: str, values: Sequence[int], repeats: int) -> dict[str, Any]:
    """One axis, the other two at their small standard size. Sizes alternate; a size counts with its median."""
    found: dict[int, list[dict[str, float]]] = {value: [] for value in values}
    for _ in range(repeats):
        for value in values:
            found[value].append(bench.round(Size(**{axis: value})))
    rows = [{"size": value, **{key: median(one[key] for one in found[value]) for key in found[value][0]}} for value in values]
    for row in rows:
        row["total"] = sum(row[phase] for phase in PHASES)
    fits = {phase: fit(values, [row[phase] for row in rows]) for phase in (*PHASES, "total")}
    return {"rows": rows, "fits": fits, "tokens": fit(values, [row["tokens"] for row in rows])}


def measure(axes: Mapping[str, Sequence[int]] = AXES, repeats: int = REPEATS) -> dict[str, Any]:
    bench, capped = Bench(), Bench(CAPPED)
    for one in (bench, capped):
        one.round(Size())  # warm-up: imports, optimizer state
    by_axis = {}
    for axis, values in axes.items():
        by_axis[axis] = measure_axis(bench, axis, values, repeats)
        if axis == "positions":
            by_axis[AT_MOST] = measure_axis(capped, axis, values, repeats)
    return {
        "r2": {axis: one["fits"]["total"]["r2"] for axis, one in by_axis.items()},
        "unit_cost_ratio": {axis: one["fits"]["total"]["unit_cost_ratio"] for axis, one in by_axis.items()},
        "repeats": repeats,
        "by_axis": by_axis,
    }


def page(result: Mapping[str, Any]) -> str:
    parts = [
        "CPU seconds of the phases of a GRPO round on gym networks, one thread, against one size at a time "
        f"(else {Size().positions} positions, {Size().trajectories} trajectories, {Size().networks} network); medians of "
        f"{result['repeats']} alternating repeats. The engine says what the teacher wrote, so memories grow as they should and "
        "no time goes into generating tokens, which is the engine's and goes with their number. `unit` is the cost of one more "
        "by the linear fit; `unit cost` compares the cost a unit at the largest size with that at the smallest.",
        "A position more costs more than the one before it while the memory in its prompt grows, by its tokens and by "
        "attention over them. From `writer.head_tokens` on prompts grow no more, and positions cost alike: the second table.",
    ]
    for axis, one in result["by_axis"].items():
        rows = "\n".join(
            f"| {row['size']} | {row['writes']:.0f} | {row['tokens']:.0f} | "
            + " | ".join(f"{row[phase]:.3f}" for phase in (*PHASES, "total"))
            + " |"
            for row in one["rows"]
        )
        fits = "\n".join(
            f"| {phase} | {1e3 * line['seconds_per_unit']:.2f} ms | "
            + " | ".join(str(line[key]) for key in ("r2", "exponent", "unit_cost_ratio"))
            + " |"
            for phase, line in one["fits"].items()
        )
        parts.append(
            f"## {axis.capitalize()}\n\n| {axis.split(',')[0]} | writes | tokens | "
            "rollout s | scoring s | update s | total s |\n"
            f"|---|---|---|---|---|---|---|\n{rows}\n\n"
            f"| phase | unit | R² | exponent | unit cost, largest / smallest |\n|---|---|---|---|---|\n{fits}\n\n"
            f"Tokens: R² {one['tokens']['r2']}, exponent {one['tokens']['exponent']}."
        )
    return "\n\n".join(parts)


def main() -> None:
    torch.set_num_threads(1)
    result = measure()
    write_result("scaling", "Cost against positions, trajectories and networks", result, page(result), COMMAND)
    print(page(result))


if __name__ == "__main__":
    main()
