"""Tables from rows alone: what each Writer scored, and how two of them compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from writer_rl.evaluation.accuracy import UnjudgedQuestions
from writer_rl.evaluation.statistics import Interval, bootstrap_mean, paired_difference

Row = dict[str, Any]
MEASURES = ("accuracy", "return", "phi", "chain", "valid", "attribution_errors")
LABELS = {
    "accuracy": "QA accuracy",
    "return": "reward",
    "phi": "Phi",
    "chain": "chain F1 (networks with updates)",
    "valid": "validity",
    "attribution_errors": "attribution errors a network",
}


def by_network(rows: Sequence[Row], writer: str, measure: str, allow_unjudged: bool = False) -> dict[str, list[float]]:
    """network -> values of one measure for one Writer: shape [questions x seeds], or [seeds] for measures of a memory.

    Questions without a verdict are left out where allowed, else UnjudgedQuestions. `chain` counts only networks whose
    reference has update edges: elsewhere it is 1 for whoever writes no update.
    """
    kind = "question" if measure == "accuracy" else "memory"
    found: dict[str, list[float]] = {}
    unjudged = 0
    for row in rows:
        if row["writer"] != writer or row["row"] != kind:
            continue
        if kind == "question":
            judged = row["verdict"] in ("correct", "incorrect")
            unjudged += not judged
            if judged:
                found.setdefault(row["network"], []).append(float(row["verdict"] == "correct"))
        elif measure in row and not (measure == "chain" and row["gold_edges"] == 0):
            found.setdefault(row["network"], []).append(float(row["final_chain"] if measure == "chain" else row[measure]))
    if unjudged and not allow_unjudged:
        raise UnjudgedQuestions(f"{writer}: {unjudged} questions have no verdict; ask them again, or allow them to be left out")
    return found


def measure(rows: Sequence[Row], writer: str, name: str) -> Interval | None:
    """Mean and interval over networks of one measure; None where the Writer has no such rows."""
    values = by_network(rows, writer, name)
    return bootstrap_mean(values) if values else None


def difference(rows: Sequence[Row], first: str, second: str, name: str) -> Interval:
    """`second` minus `first` over the same networks, paired."""
    return paired_difference(by_network(rows, first, name), by_network(rows, second, name))


def table(rows: Sequence[Row], writers: Sequence[str], names: Sequence[str] = MEASURES) -> str:
    """A Markdown table: Writers down, measures across, each as mean [low, high]."""
    lines = ["| Writer | " + " | ".join(LABELS[name] for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for writer in writers:
        cells = [_cell(measure(rows, writer, name)) for name in names]
        lines.append(f"| {writer} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: Interval | None) -> str:
    return "" if value is None else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"
