"""What is written down of a round: metrics under TRL's names and ours, and one trace row a position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any

from torch.optim import Optimizer

from data.memory.actions import to_json
from data.memory.executor import Outcome
from data.segments import Segment
from rollout.writer.trajectory import Trajectory, Write
from writer_rl.advantages import Advantages, position_of
from writer_rl.scoring import GroupScores
from writer_rl.update_stats import UpdateStats

Decode = Callable[[Sequence[int]], str]
"""Token ids of a prompt -> its text, special tokens visible."""


def metrics(
    groups: Sequence[Sequence[Trajectory]],
    scored: Sequence[GroupScores],
    advantage: Advantages,
    stats: UpdateStats,
    optimizer: Optimizer,
) -> dict[str, float]:
    """One row of numbers for a round. `reward` is the mean return over all positions and trajectories."""
    writes = [write for group in groups for trajectory in group for write in trajectory.writes]
    positions = [position for one in scored for scores in one.scores for position in scores.positions]
    parts: dict[str, list[float]] = {}
    for position in positions:
        for name, value in position.parts().items():
            parts.setdefault(name, []).append(value)
    lengths = [len(write.completion.token_ids) for write in writes]
    cut = [write.completion.finish_reason == "length" for write in writes]
    sigmas = list(advantage.sigma.values())
    kept = {position_of(key) for key in advantage.values}
    outcomes = [outcome for write in writes for outcome in write.report.outcomes]
    made: dict[str, float] = {
        "reward": fmean(parts["return"]),
        "reward_std": fmean(sigmas),
        "frac_reward_zero_std": fmean(sigma == 0 for sigma in sigmas),
        "completions/mean_length": fmean(lengths),
        "completions/max_length": max(lengths),
        "completions/clipped_ratio": fmean(cut),
        "num_tokens": sum(lengths) + sum(len(write.prompt_ids) for write in writes),
        "learning_rate": optimizer.param_groups[0]["lr"],
        "adv/frac_positions_dropped": advantage.frac_positions_dropped,
        "adv/positions": len(sigmas),
        "adv/positions_kept": len(kept),
        "valid/strict_json": fmean(parts["json"]),
        "valid/actions": fmean([outcome.valid for outcome in outcomes]) if outcomes else 0.0,
        "actions/per_write": len(outcomes) / len(writes),
        "qa/gain": fmean(gain for one in scored for gain in one.qa.gains),
        "qa/unjudged": sum(one.qa.unjudged for one in scored),
        "qa/questions": sum(one.qa.total for one in scored),
        "reward/autojunk_share": fmean(scores.long_share for one in scored for scores in one.scores),
    }
    made |= {f"reward/{name}": fmean(values) for name, values in parts.items() if name != "return"}
    made |= {f"actions/{kind.lower()}": count / len(writes) for kind, count in _kinds(outcomes).items()}
    made |= _by_position(scored, advantage)
    return made | stats.metrics()


def _kinds(outcomes: Sequence[Outcome]) -> Counter[str]:
    kinds = Counter(to_json(outcome.action)["action"] for outcome in outcomes if outcome.action is not None)
    return Counter({kind: kinds[kind] for kind in ("ADD", "UPDATE", "NOOP")})


def _by_position(scored: Sequence[GroupScores], advantage: Advantages) -> dict[str, float]:
    """Return, Phi and spread at each position t, over the round's networks."""
    values: dict[str, list[float]] = {}
    for one in scored:
        for scores in one.scores:
            for t, position in enumerate(scores.positions):
                values.setdefault(f"position/{t}/reward", []).append(position.ret)
                values.setdefault(f"position/{t}/phi", []).append(position.phi)
    for key, sigma in advantage.sigma.items():
        values.setdefault(f"position/{key.t}/sigma", []).append(sigma)
    return {name: fmean(found) for name, found in values.items()}


def trace_rows(
    groups: Sequence[Sequence[Trajectory]], scored: Sequence[GroupScores], advantage: Advantages, run: str, decode: Decode
) -> Iterator[dict[str, Any]]:
    """Every write of a round: prompt, completion, actions with their fate, reward parts, advantage (none: left out).

    What the trajectories of a group share is written once, in the rows of the first: `segment`, and the beginning of the
    prompt (`prompt_shared` characters of the first trajectory's prompt at that position, then `prompt`). The row of the last
    position holds the terminal `questions` with their verdicts.
    """
    for group, scores in zip(groups, scored, strict=True):
        first = [decode(write.prompt_ids) for write in group[0].writes]  # [T]
        asked = list(_questions(scores))  # [G]
        for number, (trajectory, one) in enumerate(zip(group, scores.scores, strict=True)):
            for t, (write, position) in enumerate(zip(trajectory.writes, one.positions, strict=True)):
                key = trajectory.key(t)
                text = decode(write.prompt_ids) if number else first[t]
                shared = _shared(first[t], text) if number else 0
                yield {
                    "run": run,
                    "round": key.round,
                    "network": key.network,
                    "visit": key.visit,
                    "g": key.g,
                    "t": t,
                    "session": write.segment.session,
                    **({} if number else {"segment": _segment(write.segment)}),
                    "pipeline_id": trajectory.pipeline_id,
                    "weights_version": write.completion.weights_version,
                    "prompt_tokens": len(write.prompt_ids),
                    "prompt_shared": shared,
                    "prompt": text[shared:],
                    "completion_tokens": len(write.completion.token_ids),
                    "finish_reason": write.completion.finish_reason,
                    "text": write.text,
                    "parse": write.parsed.status.value,
                    "parse_error": write.parsed.error,
                    "over_budget": write.report.over_budget,
                    "actions": list(_fates(write)),
                    "reward": position.parts(),
                    "owners": dict(position.levenshtein.owners),
                    "advantage": advantage.values.get(key),
                    **({"questions": asked[number]} if t + 1 == len(trajectory.writes) else {}),
                }


def _questions(scores: GroupScores) -> Iterator[list[dict[str, Any]]]:
    """For each trajectory what was answered with its memory, and the verdict without any."""
    for arms in scores.qa.arms:
        yield [
            {"question": arm.question, "answer": arm.answer, "verdict": arm.verdict.kind, "without": base.verdict.kind}
            for arm, base in zip(arms, scores.qa.baseline, strict=True)
        ]


def _shared(first: str, second: str) -> int:
    """Characters that two texts have in common at their beginnings."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(first), len(second)))


def _segment(segment: Segment) -> dict[str, Any]:
    """Roster and messages, with the number of the first verbatim record: enough to build the segment again."""
    return {
        "first": segment.verbatim[0].turn_created,
        "roster": [[member.id, member.label, member.bot] for member in segment.roster.members],
        "messages": [[message.id, message.speaker, message.time, message.text] for message in segment.messages],
    }


def _fates(write: Write) -> Iterator[dict[str, Any]]:
    """Each attempted action as it was written, with what became of it and why."""
    for attempt, outcome in zip(write.parsed.attempts, write.report.outcomes, strict=True):
        row: dict[str, Any] = {"attempt": attempt, "fate": outcome.fate.value}
        if outcome.rejection is not None:
            row |= {"reason": outcome.rejection.reason.value, "detail": outcome.rejection.detail}
        if outcome.entry_id is not None:
            row["entry_id"] = outcome.entry_id
            record = write.state.get(outcome.entry_id)
            row["from_ids"] = list(record.from_ids) if record is not None else []
        yield row
