"""A small evaluation for tests: gym networks, the hash embedder, and roles that fail where a test wants them to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rollout.llm.offline import OfflineAnswer, OfflineAsk
from rollout.query.evidence import Evidence
from rollout.query.pipeline import Pipeline
from rollout.query.roles import Call, Candidate, Missing, Query, Reply, Sufficiency
from rollout.writer.prompt import WriterPrompt
from tests.tiny import make_tokenizer
from writer_rl.cases import Case, load_cases
from writer_rl.recipe import Recipe, load
from writer_rl.runtime import Runtime

SMALL = ["data.gym.test=4", "data.gym.config={segments:[2,3],messages:[3,4],members:[2,3]}", "eval.max_new_tokens=600"]


def small_recipe(folder: Path, *overrides: str) -> Recipe:
    return load("tiny", [*SMALL, f"checkpoints={folder}", *overrides])


def small_cases(recipe: Recipe) -> list[Case]:
    return load_cases(recipe.data, "test")


def plain_prompt() -> WriterPrompt:
    return WriterPrompt("compact", make_tokenizer())


class FlakyAnswer(OfflineAnswer):
    """Gives nothing for the questions that `fails` picks; what it does give is the offline answer."""

    def __init__(self, fails: Callable[[str], bool]) -> None:
        self._fails = fails
        self.asked: list[str] = []

    async def answer(self, query: Query, evidence: Evidence) -> Reply[str]:
        self.asked.append(query.text)
        if self._fails(query.text):
            return Reply(Missing("outage", "HTTP 503"), Call("answer", "offline"))
        return await super().answer(query, evidence)


class AskingMore(OfflineAsk):
    """Always wants more, by the question itself; plays an LLM's part."""

    name = "litellm:test/asks"
    fingerprint = "more"

    async def ask(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Sufficiency]:
        return Reply(Sufficiency(False, query.text), Call("ask", self.name, prompt_tokens=11, completion_tokens=3))


def with_roles(runtime: Runtime, **roles: Any) -> Runtime:
    """The runtime with some roles of its pipeline replaced."""
    pipeline = runtime.pipeline
    names = replace(pipeline.config.roles, **{role: one.name for role, one in roles.items()})
    made = Pipeline(replace(pipeline.config, roles=names), pipeline.embedder, replace(pipeline.roles, **roles))
    return replace(runtime, pipeline=made)


def share_of(text: str, share: float) -> bool:
    """Whether a text is among the given share of all texts, by its hash."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF < share


def question_row(writer: str, network: str, question: str, verdict: str, seed: int = 0, **more: Any) -> dict[str, Any]:
    """A question row with every field that tables read."""
    return {
        "row": "question",
        "writer": writer,
        "system": writer,
        "variant": "",
        "trained_on": False,
        "benchmark": "gym",
        "network": network,
        "question": question,
        "seed": seed,
        "type": "recall",
        "verdict": verdict,
        "reason": "",
        "answer": "red",
        "gold_text": "red",
        "gold_option": "",
        "score": None,
        "rows": [],
        "anchors": [0, 0, 0, 0],
        "without_evidence": False,
        "calls": [],
        "budgets": [40, 10, 2, 1],
        "ask": False,
        "pipeline_id": "p" * 64,
        "offline": True,
        **more,
    }
