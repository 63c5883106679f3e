"""SFT examples: what the Writer sees at each position of a teacher trajectory, and what the teacher wrote there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from data.memory.actions import render
from data.memory.state import State
from data.network import DataError
from rollout.writer.prompt import WriterPrompt
from rollout.writer.view import TextEmbedder, build_view
from writer_rl.cases import Case


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of a prompt and of its completion, the turn-end token included."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]


def examples_of(case: Case, prompt: WriterPrompt, embedder: TextEmbedder, head_tokens: int) -> list[Example]:
    """One example a position, the memory being what the teacher had written before it. Shape [T]."""
    if case.teacher is None or case.references is None:
        raise DataError(f"network {case.network.id}: no teacher trajectory to learn from; write one with writer-rl teach")
    before = [State(), *case.references[:-1]]
    made = []
    for segment, state, actions in zip(case.segments, before, case.teacher, strict=True):
        view = build_view(segment, state, embedder, prompt, head_token_budget=head_tokens)
        made.append(Example(prompt.prompt_ids(view), prompt.target_ids(render(actions))))
    return made


def check_lengths(case: Case, examples: Sequence[Example], prompt_limit: int, completion_limit: int) -> None:
    """Too long is an error, never truncation: the model would learn to stop in the middle."""
    for t, one in enumerate(examples):
        for what, length, limit, key in (
            ("prompt", len(one.prompt_ids), prompt_limit, "writer.max_prompt_tokens"),
            ("target", len(one.completion_ids), completion_limit, "grpo.max_new_tokens"),
        ):
            if length > limit:
                raise DataError(
                    f"network {case.network.id}, position {t}: the {what} has {length} tokens, {key} is {limit}; raise it, or "
                    "leave the network out of the split"
                )
