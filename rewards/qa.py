"""The terminal QA gain: which questions are asked, and what a trajectory's memory adds to the answers (Eq. 8, 22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from data.network import Question

MAX_QUESTIONS = 4


def terminal_questions(questions: Sequence[Question]) -> tuple[Question, ...]:
    """The fixed subset Q of a network: k = min(4, n), sorted by id as text, indices floor(i * n / k). Shape [k]."""
    ordered = sorted(questions, key=lambda question: question.id)
    n = len(ordered)
    k = min(MAX_QUESTIONS, n)
    return tuple(ordered[i * n // k] for i in range(k))


@dataclass(frozen=True, slots=True)
class QaGains:
    """R_QA of each trajectory of a group, shape [G]; None where nothing could be judged: the QA term is 0 then.
    `unjudged` of `asked` questions were left out for the whole group."""

    gains: tuple[float, ...] | None
    asked: int
    unjudged: int


def qa_gains(verdicts: Sequence[Sequence[bool | None]], baseline: Sequence[bool | None]) -> QaGains:
    """Gain of every trajectory over the shared System 1 arm (Eq. 8). verdicts [G, k], baseline [k].

    None is a question that stayed unjudged after retries: a missing verdict is never a wrong answer, and all
    trajectories of the group are held to the same questions.
    """
    arms = [baseline, *verdicts]
    judged = [q for q in range(len(baseline)) if all(arm[q] is not None for arm in arms)]
    unjudged = len(baseline) - len(judged)
    if not judged:
        return QaGains(None, len(baseline), unjudged)
    base, *own = [sum(arm[q] is True for q in judged) / len(judged) for arm in arms]
    return QaGains(tuple(accuracy - base for accuracy in own), len(baseline), unjudged)
