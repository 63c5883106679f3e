"""A tiny random model and a recipe on it, for GRPO through vLLM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.rollout.engines.contract import make_model
from tests.tiny import make_tokenizer
from writer_rl import entry, parity
from writer_rl.logbook import read_lines
from writer_rl.policy import Policy
from writer_rl.recipe import Recipe, load
from writer_rl.runtime import Runtime

ROUNDS = 3
SMALL = [
    "data.gym.train=2",
    "data.gym.config={segments:[2,2],messages:[2,3],members:[2,3]}",
    "sft.epochs=1",
    "grpo.group_size=3",
    "grpo.max_new_tokens=160",
    f"grpo.rounds={ROUNDS}",
    "grpo.lr=1e-3",
    "grpo.kl_gate=1.0",
]


def save_model(folder: Path) -> Path:
    make_model().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def tiny_recipe(model: Path, runs: Path, *overrides: str) -> Recipe:
    return load("tiny", [*SMALL, f"model.path={model}", f"checkpoints={runs}", *overrides])


def move(policy: Policy) -> None:
    """Change what every token's keys and values are made of."""
    with torch.no_grad():
        policy.model.model.layers[0].self_attn.k_proj.weight += 1.0
        policy.model.model.embed_tokens.weight[5:200] += 0.5


def three_rounds(recipe: Recipe) -> None:
    """SFT, then GRPO; every sync was proved, and the tokens that were trained on have the engine's log-probabilities."""
    entry.run("sft", recipe)
    entry.run("grpo", recipe)
    rows = read_lines(recipe.folder / "metrics-grpo.jsonl")
    assert len(rows) == ROUNDS and all(row["engine/parity_max"] < parity.BOUNDS[torch.float32] for row in rows)
    assert sum(row["update/steps"] for row in rows) >= 2
    compared = [row for row in rows if row["update/kept_samples"]]
    assert compared and all(row["engine/logprob_diff_max"] < 2e-3 for row in compared)
    traced = [read_lines(recipe.folder / "trace" / "grpo" / f"round-{index:04d}.jsonl") for index in range(ROUNDS)]
    versions = [{one["weights_version"] for one in rows} for rows in traced]
    assert all(len(one) == 1 for one in versions) and versions[0] == {0} and max(versions[-1]) >= 1


def opened(recipe: Recipe) -> tuple[Runtime, Policy, Any]:
    runtime = Runtime.of(recipe)
    policy = runtime.policy()
    return runtime, policy, runtime.prompt(policy)


def async_true(calls: list[str], name: str) -> Callable[..., Any]:
    """A coroutine function that claims success and does nothing."""

    async def claim(*args: Any, **kwargs: Any) -> bool:
        calls.append(name)
        return True

    return claim
