"""The one evaluation: a Writer writes the memories of held-out networks, the frozen pipeline is asked; rows come out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from data.network import Question
from rewards.matching import Matcher
from rewards.score import Scores, score
from rewards.weights import RewardWeights
from rollout.engines.base import SamplingParams
from rollout.query.pipeline import Asked
from rollout.query.qa import selected_questions
from rollout.query.view import MemoryView
from rollout.writer.sampler import Episode, sample
from rollout.writer.trajectory import Trajectory
from writer_rl.cases import Case
from writer_rl.evaluation.attribution import attribution
from writer_rl.evaluation.writers import Writer
from writer_rl.runtime import Runtime
from writer_rl.scoring import facts

Row = dict[str, Any]
EVALUATION_ROUND = -1  # evaluation draws other random numbers than any training round


def evaluate(runtime: Runtime, writer: Writer, cases: Sequence[Case], seeds: int) -> list[Row]:
    """Rows of one Writer: per network and seed one row `memory`, and one row `question` for each question.

    A Writer that does not sample is run once whatever `seeds` is.
    """
    return asyncio.run(_evaluate(runtime, writer, cases, seeds))


def evaluate_memory(runtime: Runtime, writer: Writer, cases: Sequence[Case], seeds: int) -> list[Row]:
    """Only the `memory` rows, without asking questions: the QA term of their return is 0."""
    trajectories = asyncio.run(_write(runtime, writer, cases, seeds))
    by_id = {case.network.id: case for case in cases}
    return [_memory_row(runtime, writer, by_id[one.network], one, None) for one in trajectories]


async def _evaluate(runtime: Runtime, writer: Writer, cases: Sequence[Case], seeds: int) -> list[Row]:
    trajectories = await _write(runtime, writer, cases, seeds)
    by_network: dict[str, list[Trajectory]] = {}
    for one in trajectories:
        by_network.setdefault(one.network, []).append(one)
    rows: list[Row] = []
    for case in tqdm(cases, desc=f"ask {writer.name}", leave=False, disable=not runtime.accelerator.is_main_process):
        rows += [row async for row in _ask(runtime, writer, case, by_network[case.network.id])]
    return rows


async def _write(runtime: Runtime, writer: Writer, cases: Sequence[Case], seeds: int) -> list[Trajectory]:
    """Trajectories of every network and seed, in that order."""
    recipe = runtime.recipe
    count = seeds if writer.samples else 1
    episodes = [Episode(case.segments, EVALUATION_ROUND, 0, g) for case in cases for g in range(count)]
    positions = sum(len(episode.segments) for episode in episodes)
    with tqdm(
        total=positions, desc=f"write {writer.name}", leave=False, disable=not runtime.accelerator.is_main_process
    ) as bar:
        return await sample(
            writer.engine,
            episodes,
            writer.prompt,
            SamplingParams(recipe.eval.temperature, recipe.eval.top_p, recipe.eval.max_new_tokens),
            recipe.seed,
            support=runtime.support,
            embedder=runtime.embedder,
            prompt_limit=recipe.writer.max_prompt_tokens,
            pipeline_id=runtime.pipeline.id,
            head_token_budget=recipe.writer.head_tokens,
            on_write=lambda key, write: bar.update(),
        )


async def _ask(runtime: Runtime, writer: Writer, case: Case, group: Sequence[Trajectory]) -> Any:
    """All questions of a network against each trajectory's final state, and against none for the QA gain."""
    view = MemoryView.of(case.network).prepared(runtime.embedder)
    states = [one.final_state for one in group]
    baseline = type(states[0])()
    asked: list[tuple[Question, list[Asked]]] = []
    for question in case.network.questions:
        shared = await runtime.pipeline.share(view, question)
        asked.append((question, await runtime.pipeline.finish_all(shared, [baseline, *states])))
    chosen = {question.id for question in selected_questions(case.network.questions)}
    for g, trajectory in enumerate(group):
        for question, arms in asked:
            yield _question_row(runtime, writer, case, question, arms[1 + g], g)
        yield _memory_row(runtime, writer, case, trajectory, _gain(asked, chosen, g))


def _gain(asked: Sequence[tuple[Question, list[Asked]]], chosen: set[str], g: int) -> float | None:
    """R_QA of trajectory g over the questions that training would ask; None where none was judged."""
    judged = [arms for question, arms in asked if question.id in chosen and all(arm.verdict.judged for arm in arms)]
    if not judged:
        return None
    return sum(int(arms[1 + g].verdict.correct) - int(arms[0].verdict.correct) for arms in judged) / len(judged)


def _base_row(runtime: Runtime, writer: Writer, case: Case, g: int) -> Row:
    return {
        "writer": writer.name,
        "benchmark": case.network.benchmark,
        "network": case.network.id,
        "seed": g,
        "pipeline_id": runtime.pipeline.id,
        "offline": runtime.pipeline.offline,
    }


def _question_row(runtime: Runtime, writer: Writer, case: Case, question: Question, asked: Asked, g: int) -> Row:
    return _base_row(runtime, writer, case, g) | {
        "row": "question",
        "question": question.id,
        "type": question.kind,
        "format": question.format,
        "verdict": asked.verdict.kind.value,
        "reason": asked.verdict.reason,
        "answer": asked.answer,
        "gold": question.correct_option or question.answer,
        "statuses": {row.name: row.status.value for row in asked.rows},
        "anchors": [asked.anchors.total, asked.anchors.recalled, asked.anchors.selected, asked.anchors.rows],
        "without_evidence": asked.without_evidence,
    }


def _memory_row(runtime: Runtime, writer: Writer, case: Case, trajectory: Trajectory, gain: float | None) -> Row:
    row = _base_row(runtime, writer, case, trajectory.g) | {
        "row": "memory",
        "records": len(trajectory.final_state),
        "tokens": sum(len(write.completion.token_ids) for write in trajectory.writes),
    }
    if case.references is None:
        return row
    weights = RewardWeights(**runtime.recipe.grpo.reward.model_dump())
    scored = score([facts(write) for write in trajectory.writes], case.references, gain, Matcher(), weights)
    row |= attribution(trajectory.final_state, case.references[-1])
    row["gold_edges"] = len(case.references[-1].edges())
    return row | _means(scored) | {"final_phi": scored.positions[-1].phi, "final_chain": scored.positions[-1].chain}


def _means(scored: Scores) -> dict[str, float]:
    """Every reward part, averaged over positions."""
    parts = [position.parts() for position in scored.positions]
    return {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
