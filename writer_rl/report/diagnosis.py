"""Why a trajectory scored as it did, in sentences: against its group, and by what became of its output and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rewards.weights import RewardWeights
from writer_rl.report.comparison import Comparison

Row = dict[str, Any]
SMALL = 0.005  # of a mean return: not worth a word
WORDS = {"valid": "validity", "mem": "memory", "penalty": "penalties", "qa_term": "terminal questions"}


def mean_return(rows: Sequence[Row]) -> float:
    """A trajectory's return, averaged over its positions."""
    return fmean(row["reward"]["return"] for row in rows)


def diagnose(
    rows: Sequence[Row], group: Sequence[Sequence[Row]], final: Comparison | None, weights: RewardWeights
) -> list[str]:
    """Sentences about one trajectory [T]; `group` holds all of its group, itself too, `final` the memory it ended with."""
    said = [_standing(rows, group, weights), _unread(rows), _silent(rows), _rejected(rows), _over_budget(rows)]
    if final is not None:
        said += [_memory(final), _worst_owner(final)]
    said.append(_questions(rows))
    return [sentence for sentence in said if sentence]


def _standing(rows: Sequence[Row], group: Sequence[Sequence[Row]], weights: RewardWeights) -> str:
    """The mean return against the group's, and which parts make the difference."""
    own, others = _parts(rows, weights), [_parts(one, weights) for one in group]
    means = {name: fmean(one[name] for one in others) for name in own}
    mean = fmean(mean_return(one) for one in group)
    gap = mean_return(rows) - mean
    parts = sorted(((own[name] - means[name], WORDS[name]) for name in own), key=lambda part: -abs(part[0]))
    shares = [f"{word} {share:+.2f}" for share, word in parts if abs(share) >= SMALL]
    told = f": {', '.join(shares)}" if shares else ""
    return f"Mean return {mean_return(rows):.2f}, {gap:+.2f} against the mean of its group{told}."


def _parts(rows: Sequence[Row], weights: RewardWeights) -> dict[str, float]:
    """Means of the parts of Eq. 9 as they enter the return."""
    scale = {"valid": weights.w_valid, "mem": weights.w_mem, "penalty": 1.0, "qa_term": 1.0}
    return {name: factor * fmean(row["reward"][name] for row in rows) for name, factor in scale.items()}


def _unread(rows: Sequence[Row]) -> str:
    lost = [row for row in rows if row["parse"] != "strict"]
    if not lost:
        return ""
    cut = sum(row["finish_reason"] == "length" for row in lost)
    why = f" ({cut} cut off at the length limit)" if cut else ""
    return f"No strict JSON at {_positions(lost)}{why}: nothing was written there. First error: {lost[0]['parse_error']}"


def _silent(rows: Sequence[Row]) -> str:
    silent = [row for row in rows if row["parse"] == "strict" and not row["actions"]]
    return f"An empty list of actions at {_positions(silent)}, where a NOOP would have been valid." if silent else ""


def _rejected(rows: Sequence[Row]) -> str:
    actions = [action for row in rows for action in row["actions"]]
    reasons = Counter(action["reason"] for action in actions if "reason" in action)
    if not reasons:
        return ""
    told = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.most_common())
    return f"{sum(reasons.values())} of {len(actions)} actions invalid: {told}."


def _over_budget(rows: Sequence[Row]) -> str:
    over = [row for row in rows if row["over_budget"]]
    return f"More actions than the budget at {_positions(over)}." if over else ""


def _memory(final: Comparison) -> str:
    spare = len(final.misplaced) + len(final.repeated) + len(final.foreign)
    gold = len(final.pairs) + len(final.missing)
    told = [f"{len(final.pairs)} of {len(final.pairs) + spare} records are matched with one of {gold} reference records"]
    if final.misplaced:
        told.append(f"{len(final.misplaced)} are like one in content, but under another owner, source or layer")
    if final.repeated:
        told.append(f"{len(final.repeated)} repeat what is matched already")
    if final.foreign:
        told.append(f"{len(final.foreign)} are like none")
    if final.missing:
        told.append(f"{len(final.missing)} reference records are missing")
    return f"At the end {', '.join(told)}."


def _worst_owner(final: Comparison) -> str:
    worst = final.score.worst_owner
    return f"Worst owner at the end: {worst} (F {final.score.worst:.2f})." if worst and final.score.worst < 1 else ""


def _questions(rows: Sequence[Row]) -> str:
    asked = rows[-1].get("questions", [])
    lost = sum(one["without"] == "correct" and one["verdict"] == "incorrect" for one in asked)
    won = sum(one["without"] == "incorrect" and one["verdict"] == "correct" for one in asked)
    if not lost and not won:
        return "" if not asked else f"The memory changed the verdict of none of {len(asked)} terminal questions."
    return f"Of {len(asked)} terminal questions the memory won {won} and lost {lost}, against answering without it."


def _positions(rows: Sequence[Row]) -> str:
    return f"position{'s' if len(rows) > 1 else ''} {', '.join(str(row['t']) for row in rows)}"
