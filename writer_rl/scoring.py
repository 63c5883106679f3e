"""Trajectories -> rewards: terminal QA of a network's group, then every reward part at every position."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from data.network import DataError
from rewards.matching import Matcher
from rewards.score import Scores, WriteFacts, score
from rewards.weights import RewardWeights
from rollout.query.pipeline import Pipeline
from rollout.query.qa import QAResult, qa_gains
from rollout.query.view import MemoryView
from rollout.writer.sampler import OnEnd
from rollout.writer.trajectory import ParseStatus, Trajectory, Write
from writer_rl.cases import Case
from writer_rl.dealing import gathered, share
from writer_rl.journal import Journal
from writer_rl.runtime import Runtime


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


async def ask_group(
    case: Case, view: MemoryView, group: Sequence[Trajectory], pipeline: Pipeline, journal: Journal
) -> QAResult:
    """Ask the trajectories [G] of one network their terminal questions, unless the journal has the verdicts."""
    kept = journal.verdicts(group)
    if kept is not None:
        return kept
    return await qa_gains(pipeline, view, case.network.questions, [one.final_state for one in group])


def asking_ahead(runtime: Runtime, cases: Mapping[str, Case], views: Mapping[str, MemoryView]) -> OnEnd | None:
    """Asks a trajectory's terminal questions when it ends: when its group is scored, the client has the replies. None where
    no role is played by an LLM, and there is nothing to wait for."""
    if not runtime.recipe.pipeline.uses_llm:
        return None

    async def ask(trajectory: Trajectory) -> None:
        name = trajectory.network
        await qa_gains(runtime.pipeline, views[name], cases[name].network.questions, [trajectory.final_state])

    return ask


def score_trajectory(
    case: Case, trajectory: Trajectory, qa: QAResult, g: int, matcher: Matcher, weights: RewardWeights
) -> Scores:
    """Score member `g` of a group. The QA term of a network without judged questions is 0."""
    assert case.references is not None
    gain = qa.gains[g] if qa.judged else None
    return score([facts(write) for write in trajectory.writes], case.references, gain, matcher, weights)


def score_round(
    runtime: Runtime,
    groups: Sequence[Sequence[Trajectory]],
    cases: Mapping[str, Case],
    views: Mapping[str, MemoryView],
    journal: Journal,
) -> list[GroupScores]:
    """Rewards of every group; raises TooManyUnjudged where the judge or answerer is failing.

    Of several ranks one asks a whole group, whose members share the baseline; trajectories are scored by all.
    """
    weights, accelerator = RewardWeights(**runtime.recipe.grpo.reward.model_dump()), runtime.accelerator
    mine = share(groups, accelerator)

    async def ask() -> list[QAResult]:
        names = [group[0].network for group in mine]
        asked = (
            ask_group(cases[name], views[name], group, runtime.pipeline, journal)
            for name, group in zip(names, mine, strict=True)
        )
        return list(await asyncio.gather(*asked))

    own = asyncio.run(ask())
    asked = gathered(own, accelerator)
    check_judged(asked)  # before they are journalled: verdicts of a round that cannot be used are to be asked for again
    for group, qa in zip(mine, own, strict=True):
        journal.keep_verdicts(group, qa)
    members = [(i, g) for i, group in enumerate(groups) for g in range(len(group))]
    matchers = [Matcher() for _ in groups]
    scores = [
        score_trajectory(cases[groups[i][g].network], groups[i][g], asked[i], g, matchers[i], weights)
        for i, g in share(members, accelerator)
    ]
    placed = dict(zip(members, gathered(scores, accelerator), strict=True))
    return [
        GroupScores(tuple(placed[i, g] for g in range(len(group))), qa)
        for i, (group, qa) in enumerate(zip(groups, asked, strict=True))
    ]


def check_judged(asked: Sequence[QAResult]) -> None:
    """Raise TooManyUnjudged where a round cannot be trusted; missing verdicts are never scored as wrong."""
    check_verdicts(sum(one.unjudged for one in asked), sum(one.total for one in asked), "this round")


def check_verdicts(unjudged: int, total: int, what: str) -> None:
    """Raise TooManyUnjudged where more than UNJUDGED_LIMIT of the questions of a round or an evaluation have no verdict."""
    if total and unjudged / total > UNJUDGED_LIMIT:
        raise TooManyUnjudged(
            f"{unjudged} of {total} questions of {what} stayed without a verdict (allowed: {UNJUDGED_LIMIT:.0%}); the "
            "answer or judge model is failing, so it was not used. Mend it and start again: the run goes on here"
        )
