"""How much a recipe asks for: examples and their lengths, tokens, generated tokens and LLM calls, counted on its own data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rollout.query.qa import MOST
from rollout.writer.prompt import WriterPrompt
from rollout.writer.view import TextEmbedder
from writer_rl.cases import Case
from writer_rl.estimates import (
    CALL_SECONDS,
    Device,
    Setting,
    Shape,
    compute_seconds,
    decoding_seconds,
    forward_flop,
    training_flop,
)
from writer_rl.examples import Example, examples_of
from writer_rl.recipe import PipelineSection, Recipe

SELECTS = 2  # Select calls a question: one, and one more where it wants neighbours (docs/results/qa_calls)
CALL_TOKENS = {"project": (700, 60), "select": (3000, 200), "ask": (1200, 60), "answer": (1500, 120), "judge": (600, 40)}


@dataclass(frozen=True)
class Written:
    """A network as its teacher writes it: tokens of prompts and targets, [T] each, and its questions."""

    network: str
    prompts: tuple[int, ...]
    targets: tuple[int, ...]
    questions: int


@dataclass(frozen=True, slots=True)
class Work:
    """Totals of a whole run, prompt tokens included where it says `tokens`. Completions are taken to be as long as the
    teacher's; `longest` is the sum of the longest completion of each tick, which is how long a rollout generates."""

    sft_tokens: float
    grpo_tokens: float
    prompt_tokens: float  # read by the engine, equal prompts of a group once
    generated: float
    longest: float
    most_generated: float  # were every completion cut off at grpo.max_new_tokens
    length: float  # mean of prompt and completion


def written(case: Case, prompt: WriterPrompt, embedder: TextEmbedder, head_tokens: int) -> tuple[Written, list[Example]]:
    """A case's lengths, and the examples they were counted on."""
    examples = examples_of(case, prompt, embedder, head_tokens)
    prompts = tuple(len(one.prompt_ids) for one in examples)
    targets = tuple(len(one.completion_ids) for one in examples)
    return Written(case.network.id, prompts, targets, len(case.network.questions)), examples


def work_of(recipe: Recipe, train: Sequence[Written]) -> Work:
    """The work of SFT and of all GRPO rounds; a round's networks are the mean network."""
    visited = recipe.grpo.rounds * recipe.grpo.networks_per_round
    size, count = recipe.grpo.group_size, len(train)
    both = sum(sum(one.prompts) + sum(one.targets) for one in train)
    targets = sum(sum(one.targets) for one in train)
    prompts = sum(sum(one.prompts) for one in train)
    first = sum(one.prompts[0] for one in train)
    positions = sum(len(one.prompts) for one in train)
    return Work(
        sft_tokens=float(recipe.sft.epochs * both),
        grpo_tokens=visited * size * both / count,
        # a group's first prompt is one prompt; later ones differ where its memories do
        prompt_tokens=visited * (first + size * (prompts - first)) / count,
        generated=visited * size * targets / count,
        longest=recipe.grpo.rounds * max(sum(one.targets) for one in train),
        most_generated=visited * size * recipe.grpo.max_new_tokens * positions / count,
        length=(prompts + targets) / positions,
    )


def setting_of(recipe: Recipe, train: Sequence[Written], bf16: bool) -> Setting:
    """What memory and speed depend on. A rollout's batch holds the longest prompt and grpo.max_new_tokens in each row."""
    rows = recipe.grpo.group_size * recipe.grpo.networks_per_round
    row = max(max(one.prompts) for one in train) + recipe.grpo.max_new_tokens
    example = max(prompt + target for one in train for prompt, target in zip(one.prompts, one.targets, strict=True))
    together = max(1, min(rows, recipe.engine.max_batch_tokens // row))
    return Setting(
        bf16=bf16,
        checkpointing=recipe.model.gradient_checkpointing,
        sft_tokens=_micro_batch(recipe.sft.micro_batch_tokens, example, recipe.sft.batch_size),
        grpo_tokens=_micro_batch(recipe.grpo.micro_batch_tokens, row, rows),
        generating=together,
        generating_tokens=together * row,
        epochs=recipe.grpo.epochs,
        engine=recipe.engine.kind,
        engine_kv=recipe.engine.kv_cache_gib * 2**30 if recipe.engine.kind == "vllm" else 0.0,
    )


def _micro_batch(budget: int, longest: int, rows: int) -> int:
    """Tokens of the largest micro-batch: a sample that is longer than the budget is a micro-batch of its own."""
    return max(longest, min(budget, rows * longest))


def seconds(work: Work, shape: Shape, setting: Setting, device: Device, calls: float, concurrency: int) -> dict[str, float]:
    """Seconds of the whole run by phase."""
    bf16 = setting.bf16 and not device.host
    update = forward_flop(shape, work.grpo_tokens, work.length)  # the reference
    update += setting.epochs * training_flop(shape, work.grpo_tokens, work.length, setting)
    reading = compute_seconds(forward_flop(shape, work.prompt_tokens, work.length), device, bf16)
    return {
        "sft": compute_seconds(training_flop(shape, work.sft_tokens, work.length, setting), device, bf16),
        "rollout": reading + decoding_seconds(shape, work.longest, setting, device),
        "scoring": calls * CALL_SECONDS / concurrency,
        "update": compute_seconds(update, device, bf16),
    }


def llm_calls(recipe: Recipe, train: Sequence[Written]) -> dict[str, int]:
    """LLM calls of all rounds by role, at most: equal evidence and equal answers are asked once, which saves a third or more.

    A visited network asks q = min(4, n) questions: Project and Select once each question, Answer and Judge for the baseline
    and each of the G memories. Offline roles make no calls. In-run evaluation comes on top.
    """
    visited = recipe.grpo.rounds * recipe.grpo.networks_per_round
    asked = visited * sum(min(MOST, one.questions) for one in train) / len(train)
    arms = 1 + recipe.grpo.group_size
    each: Mapping[str, float] = {
        "project": 1,
        "select": SELECTS,
        "ask": 1 if recipe.pipeline.use_ask else 0,
        "answer": arms,
        "judge": arms,
    }
    return {role: round(asked * count) for role, count in each.items() if model_of(recipe.pipeline, role) and count}


def model_of(section: PipelineSection, role: str) -> str | None:
    """The LLM that plays a role, or None where it is offline."""
    name = str(getattr(section, role))
    return None if name == "offline" else name.removeprefix("litellm:")
