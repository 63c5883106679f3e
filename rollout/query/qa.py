"""Terminal QA gain of a group of trajectories (Eq. 8 and 22; design section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from data.memory.state import State
from data.network import Question
from rollout.query.pipeline import Asked, Pipeline
from rollout.query.view import MemoryView

MOST = 4  # questions a network is asked for its gain


@dataclass(frozen=True)
class QAResult:
    """`gains` has shape [G]. `unjudged` of `total` questions were left out for the whole group; where that is all of
    them, or there are none, every gain is 0. `without_evidence` counts questions that some arm was asked with nothing
    at hand. `baseline` [total] and `arms` [G][total] hold the rows."""

    gains: tuple[float, ...]
    unjudged: int
    total: int
    without_evidence: int
    baseline: tuple[Asked, ...]
    arms: tuple[tuple[Asked, ...], ...]

    @property
    def judged(self) -> int:
        return self.total - self.unjudged


def selected_questions(questions: Sequence[Question]) -> list[Question]:
    """k = min(4, n) questions, sorted by id as text, at the indices floor(i * n / k)."""
    ordered = sorted(questions, key=lambda question: question.id)
    count = min(MOST, len(ordered))
    return [ordered[index * len(ordered) // count] for index in range(count)]


async def qa_gains(pipeline: Pipeline, view: MemoryView, questions: Sequence[Question], states: Sequence[State]) -> QAResult:
    """Accuracy with each state [G] minus accuracy without any, over the questions selected from `questions`.

    Project, System 1 and the baseline arm run once a question. A question that stays unjudged in any arm is left out
    for all of them.
    """
    view = view.prepared(pipeline.embedder)

    async def ask(question: Question) -> list[Asked]:
        return await pipeline.finish_all(await pipeline.share(view, question), [State(), *states])

    asked = await asyncio.gather(*(ask(question) for question in selected_questions(questions)))  # [questions][1 + G]
    judged = [arms for arms in asked if all(arm.verdict.judged for arm in arms)]
    gains = []
    for g in range(len(states)):
        won = sum(int(arms[1 + g].verdict.correct) - int(arms[0].verdict.correct) for arms in judged)
        gains.append(won / len(judged) if judged else 0.0)
    return QAResult(
        gains=tuple(gains),
        unjudged=len(asked) - len(judged),
        total=len(asked),
        without_evidence=sum(any(arm.without_evidence for arm in arms) for arms in asked),
        baseline=tuple(arms[0] for arms in asked),
        arms=tuple(tuple(arms[1 + g] for arms in asked) for g in range(len(states))),
    )
