"""The estimate that `writer-rl validate` prints: a recipe's work on a device, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from rollout.llm.provider import load_litellm, priced
from writer_rl.estimates import GIB, Device, Setting, Shape, memory
from writer_rl.recipe import Recipe
from writer_rl.runtime import autocast_dtype
from writer_rl.workload import CALL_TOKENS, Work, Written, llm_calls, model_of, seconds, setting_of, work_of

CONCURRENCY = 8  # LLM calls in flight where the recipe does not say


def estimate(recipe: Recipe, shape: Shape, train: Sequence[Written], device: Device) -> Iterator[str]:
    """Memory by part, tokens, time, LLM calls and cost, one line each. Explained in docs/estimates.md."""
    setting = setting_of(recipe, train, _in_bf16(recipe, device))
    work, calls = work_of(recipe, train), llm_calls(recipe, train)
    yield f"estimate for {device.name}, one device, good to a factor of three in time (docs/estimates.md)"
    yield f"  memory   {memory_line(shape, setting, device)}"
    yield f"  tokens   {tokens_line(work)}"
    spent = seconds(work, shape, setting, device, sum(calls.values()), recipe.pipeline.concurrency or CONCURRENCY)
    phases = ", ".join(f"{name} {clock(value)}" for name, value in spent.items())
    yield f"  time     {phases}; together {clock(sum(spent.values()))}"
    yield f"  LLM      {llm_line(recipe, calls)}"
    hours = sum(spent.values()) / 3600
    yield f"  cost     {hours:.2f} h x ${device.usd_hour:.2f} = ${hours * device.usd_hour:.2f}, LLM calls apart"


def memory_line(shape: Shape, setting: Setting, device: Device) -> str:
    """The parts in GiB, and whether the peak fits."""
    parts = memory(shape, setting)
    total = parts.pop("total")
    named = ", ".join(f"{name} {value / GIB:.2f}" for name, value in parts.items() if value)
    return f"{named}; peak {total / GIB:.1f} of {device.memory / GIB:.0f} GiB, {_fit(total / device.memory)}"


MEASURED = 0.68  # the lowest estimate over measured memory so far (docs/results/estimates.md)


def _fit(share: float) -> str:
    if share <= MEASURED:
        return "fits"
    smaller = "smaller micro_batch_tokens, gradient_checkpointing, or lora"
    return f"DOES NOT FIT: {smaller}" if share > 1 else f"TIGHT, real peaks were up to half as high again: {smaller}"


def tokens_line(work: Work) -> str:
    return (
        f"SFT {count(work.sft_tokens)}; GRPO {count(work.grpo_tokens)} in updates, {count(work.prompt_tokens)} read and "
        f"{count(work.generated)} generated in rollouts if completions are as long as the teacher's, at most "
        f"{count(work.most_generated)}"
    )


def llm_line(recipe: Recipe, calls: Mapping[str, int]) -> str:
    """Calls by role with tokens and, where the price table knows the models, what they cost."""
    if not calls:
        return "no calls: all roles are offline"
    tokens, usd, unknown = 0, 0.0, set()
    for role, number in calls.items():
        prompt, completion = (number * size for size in CALL_TOKENS[role])
        tokens += prompt + completion
        model = model_of(recipe.pipeline, role) or ""
        if recipe.pipeline.api_base is None and priced(model):
            usd += sum(load_litellm().cost_per_token(model=model, prompt_tokens=prompt, completion_tokens=completion))
        else:
            unknown.add(model)
    named = ", ".join(f"{role} {number:,}" for role, number in calls.items())
    cost = f"${usd:.2f}" + (f" without {', '.join(sorted(unknown))}, whose price is not known" if unknown else "")
    return f"at most {sum(calls.values()):,} calls ({named}), about {count(tokens)} tokens, {cost}"


def count(value: float) -> str:
    """1234567 -> 1.2 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def clock(value: float) -> str:
    """Seconds as a person says them."""
    if value < 90:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


def _in_bf16(recipe: Recipe, device: Device) -> bool:
    if device.host:
        return autocast_dtype(recipe.precision, torch.device("cpu")) is not None
    return recipe.precision == "bf16"
