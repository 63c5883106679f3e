"""Arms: the ways in which one memory is asked. Each has its own label in the tables and its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from data.network import DataError
from rollout.query.pipeline import Pipeline
from writer_rl.evaluation.variants import VARIANTS, WHOLE, Variant
from writer_rl.runtime import Runtime

Ask = Literal["off", "on", "both"]
GRID_TOP_K = (5, 10, 20)
GRID_K = (2, 4, 6)


@dataclass(frozen=True)
class Arm:
    """`suffix` follows the Writer's name in its rows' label."""

    pipeline: Pipeline
    suffix: str = ""
    variant: Variant = WHOLE

    def label(self, writer: str) -> str:
        return f"{writer} {self.suffix}" if self.suffix else writer


def ask_mode(text: str) -> Ask:
    """`off`, `on` or `both`; DataError for anything else."""
    for mode in get_args(Ask):
        if mode == text:
            return mode
    raise DataError(f"ASK {text!r}: use off, on or both")


def ask_arms(runtime: Runtime, mode: Ask) -> list[Arm]:
    """ASK off, on, or both. Where the ask role is offline it never asks for more, so both would be the same: one arm."""
    off = Arm(with_ask(runtime.pipeline, False))
    if mode == "off" or runtime.pipeline.config.roles.ask == "offline":
        return [off]
    on = Arm(with_ask(runtime.pipeline, True), "+ASK")
    return [on] if mode == "on" else [off, on]


def with_ask(pipeline: Pipeline, ask: bool) -> Pipeline:
    """The same pipeline with ASK switched."""
    if pipeline.config.ask == ask:
        return pipeline
    return Pipeline(replace(pipeline.config, ask=ask), pipeline.embedder, pipeline.roles)


def ablation_arms(pipeline: Pipeline, names: Sequence[str]) -> list[Arm]:
    """An arm for each ablation named. Errors: a name that is none."""
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise DataError(f"ablation {unknown[0]!r}: use {', '.join(VARIANTS)}")
    return [Arm(pipeline, VARIANTS[name].label, VARIANTS[name]) for name in names]


def grid_arms(pipeline: Pipeline) -> list[Arm]:
    """The top-k grid of Appendix H: recall-n equals top-k there, and only there; ASK off."""
    base = with_ask(pipeline, False)
    arms = []
    for top_k in GRID_TOP_K:
        for k in GRID_K:
            budgets = replace(base.config.budgets, recall=top_k, top_k=top_k, k=k)
            made = Pipeline(replace(base.config, budgets=budgets), base.embedder, base.roles)
            arms.append(Arm(made, grid_suffix(top_k, k)))
    return arms


def grid_suffix(top_k: int, k: int) -> str:
    """A cell of the grid as it stands in a label."""
    return f"top-k {top_k} k {k}"
