"""Scores of a memory itself: every reward part, what is attributed wrongly or stale, and what is covered."""

from __future__ import annotations

from collections.abc import Sequence

from data.network import Question
from rewards.matching import Matcher
from rewards.score import Scores, score
from rewards.weights import RewardWeights
from rollout.query.qa import selected_questions
from rollout.writer.trajectory import Trajectory
from writer_rl.cases import Case
from writer_rl.evaluation.attribution import attribution, coverage
from writer_rl.evaluation.rows import JUDGED, Row
from writer_rl.runtime import Runtime
from writer_rl.scoring import facts


def memory_row(runtime: Runtime, base: Row, case: Case, trajectory: Trajectory, gain: float | None) -> Row:
    """The row of one memory. A network without a teacher trajectory has no reference: only sizes are known.

    Reward parts are means over positions; `final_*`, `owners` (F_p) and `coverage` are those of the last state.
    """
    used = [one.completion.usage or (len(one.prompt_ids), len(one.completion.token_ids)) for one in trajectory.writes]
    row = base | {
        "row": "memory",
        "records": len(trajectory.final_state),
        "tokens": sum(completion for _, completion in used),
        "prompt_tokens": sum(prompt for prompt, _ in used),
    }
    if case.references is None:
        return row
    weights = RewardWeights(**runtime.recipe.grpo.reward.model_dump())
    scored = score([facts(write) for write in trajectory.writes], case.references, gain, Matcher(), weights)
    last = scored.positions[-1]
    row |= attribution(trajectory.final_state, case.references[-1])
    row["gold_edges"] = len(case.references[-1].edges())
    row["owners"] = dict(last.levenshtein.owners)
    row["coverage"] = coverage(trajectory.final_state, case.references[-1])
    return (
        row | _means(scored) | {"final_phi": last.phi, "final_chain": last.chain, "final_worst_owner": last.levenshtein.worst}
    )


def qa_gain(rows: Sequence[Row], label: str, questions: Sequence[Question], seed: int, seeds: int) -> float | None:
    """R_QA of one memory over the questions that training would ask (Eq. 8). A question that is unjudged in any arm of
    the group is left out for the whole group; None where none is left."""
    chosen = {question.id for question in selected_questions(questions)}
    own = {(row["question"], row["seed"]): row for row in rows if row["row"] == "question" and row["writer"] == label}
    gains = []
    for question in sorted(chosen):
        group = [own[question, g] for g in range(seeds)]
        if all(row["verdict"] in JUDGED and row["baseline"] in JUDGED for row in group):
            row = own[question, seed]
            gains.append((row["verdict"] == "correct") - (row["baseline"] == "correct"))
    return sum(gains) / len(gains) if gains else None


def _means(scored: Scores) -> dict[str, float]:
    """Every reward part, averaged over positions."""
    parts = [position.parts() for position in scored.positions]
    return {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
