"""SocialMemBench's partial score of one answer, 0 to 1: what MeanQ and MeanN average (Eq. 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from data.network import Question
from data.socialmem import BENCHMARK
from rollout.llm.offline import lexical_verdict, long_recall
from rollout.llm.roles import LLM, LLMScore
from rollout.query.answer import ABSTENTION
from rollout.query.roles import Call, Gold, Missing, Query
from writer_rl.evaluation.rows import Row
from writer_rl.evaluation.scores import letter_score
from writer_rl.runtime import Runtime


@dataclass(frozen=True)
class Partial:
    """`call` is that of the rubric, where a model was asked."""

    score: float | None = None
    call: Call | None = None

    def fields(self, calls: Sequence[Mapping[str, Any]]) -> Row:
        """What a row says of it; the call stands behind the row's others."""
        return {"score": self.score, "calls": [*calls, *([asdict(self.call)] if self.call else [])]}


def lacks_score(row: Mapping[str, Any]) -> bool:
    """Whether a row's answer should have a partial score and has none: its rubric call gave none."""
    return row["benchmark"] == BENCHMARK and bool(row["answer"]) and row["score"] is None


async def partial_score(runtime: Runtime, benchmark: str, question: Question, answer: str) -> Partial:
    """Multiple choice by the exact letter, without a model. Open answers by the rubric call of the judge's model; where
    the judge is offline, by the share of the gold's content words (lexical, no match for the rubric).

    The score is None where the benchmark has no such score, there is no answer, or the rubric call gave none.
    """
    if benchmark != BENCHMARK or not answer:
        return Partial()
    if question.correct_option:
        return Partial(letter_score(answer, question.correct_option))
    query = Query(question.text, question.format, question.options)
    gold = Gold(question.answer, question.correct_option, question.abstain)
    kind, _, model = runtime.recipe.pipeline.judge.partition(":")
    if kind == "offline":
        if question.abstain or answer == ABSTENTION:
            return Partial(float(lexical_verdict(query, gold, answer).correct))
        return Partial(long_recall(question.answer, answer))
    llm = LLM(runtime.client, model, runtime.recipe.pipeline.api_base)
    foil = dict(question.extra).get("contamination_foil", "")
    reply = await LLMScore(llm).score(query, gold, answer, question.kind, foil)
    return Partial(None if isinstance(reply.value, Missing) else reply.value, reply.call)
