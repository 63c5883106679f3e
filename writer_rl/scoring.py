"""Trajectories -> rewards: terminal QA of a network's group, then every reward part at every position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from data.network import DataError
from rewards.matching import Matcher
from rewards.score import Scores, WriteFacts, score
from rewards.weights import RewardWeights
from rollout.query.pipeline import Pipeline
from rollout.query.qa import QAResult, qa_gains
from rollout.query.view import MemoryView
from rollout.writer.trajectory import ParseStatus, Trajectory, Write
from writer_rl.cases import Case
from writer_rl.journal import Journal


class TooManyUnjudged(DataError):
    """More than the allowed share of a round's questions stayed unjudged: the judge or answerer is failing."""


UNJUDGED_LIMIT = 0.20  # of a round's questions (design section 6)


@dataclass(frozen=True)
class GroupScores:
    """The G scored trajectories of one network, with the questions they were asked."""

    scores: tuple[Scores, ...]  # [G]
    qa: QAResult


def facts(write: Write) -> WriteFacts:
    """What the rewards look at in a write."""
    return WriteFacts(
        json_valid=write.parsed.status is ParseStatus.STRICT,
        attempts=write.parsed.attempts,
        report=write.report,
        pre_state=write.pre_state,
        state=write.state,
        cut_off=write.completion.finish_reason == "length",
    )


async def score_group(
    case: Case, view: MemoryView, group: Sequence[Trajectory], pipeline: Pipeline, weights: RewardWeights, journal: Journal
) -> GroupScores:
    """Score the trajectories [G] of one network, its questions asked unless the journal has the verdicts. The QA term of a
    network without judged questions is 0."""
    assert case.references is not None
    qa = journal.verdicts(group)
    if qa is None:
        qa = await qa_gains(pipeline, view, case.network.questions, [one.final_state for one in group])
        journal.keep_verdicts(group, qa)
    matcher = Matcher()
    gains = qa.gains if qa.judged else [None] * len(group)
    scored = [
        score([facts(write) for write in trajectory.writes], case.references, gain, matcher, weights)
        for trajectory, gain in zip(group, gains, strict=True)
    ]
    return GroupScores(tuple(scored), qa)


def check_judged(groups: Sequence[GroupScores]) -> None:
    """Raise TooManyUnjudged where a round cannot be trusted; missing verdicts are never scored as wrong."""
    unjudged, total = sum(one.qa.unjudged for one in groups), sum(one.qa.total for one in groups)
    if total and unjudged / total > UNJUDGED_LIMIT:
        raise TooManyUnjudged(
            f"{unjudged} of {total} questions of this round stayed without a verdict (allowed: {UNJUDGED_LIMIT:.0%}); the "
            "answer or judge model is failing, so the round was not used. Mend it and start again: the run goes on here"
        )
