"""Each benchmark's own score beside the judged one: letters, LoCoMo's stemmed F1, SocialMemBench's MeanQ and MeanN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from data.importers import evermem, locomo
from data.network import DataError
from data.socialmem import BENCHMARK as SOCIALMEM
from writer_rl.evaluation.accuracy import correct, questions_of
from writer_rl.evaluation.rows import Row
from writer_rl.evaluation.scores import letter_score, locomo_score
from writer_rl.evaluation.statistics import Interval, bootstrap_mean, bootstrap_network_mean

SEED = 0  # of the bootstrap, recorded with its result


@dataclass(frozen=True)
class Official:
    """One score of one system: its name, the n that it is a mean of (answers, seeds counted apart; for MeanQ questions, for
    MeanN networks), its value in [0, 1], the judged accuracy on the same rows, and an interval where the benchmark's
    protocol has one."""

    name: str
    n: int
    value: float
    judged: float
    interval: Interval | None = None

    def plain(self) -> dict[str, Any]:
        interval = self.interval
        bounds = None if interval is None else [interval.low, interval.high]
        return {"score": self.name, "n": self.n, "value": self.value, "judged": self.judged, "ci": bounds}


def official_scores(rows: Sequence[Row], label: str, allow_unscored: bool = False) -> list[Official]:
    """All official scores that a system's rows have. Raises DataError where SocialMemBench answers have no partial score,
    unless those are allowed to be left out."""
    asked = questions_of(rows, label)
    found = [*_letters([row for row in asked if row["benchmark"] in (SOCIALMEM, evermem.BENCHMARK)])]
    found += _locomo([row for row in asked if row["benchmark"] == locomo.BENCHMARK])
    return found + _means(label, [row for row in asked if row["benchmark"] == SOCIALMEM], allow_unscored)


def _letters(rows: Sequence[Row]) -> list[Official]:
    found = []
    for benchmark in sorted({row["benchmark"] for row in rows}):
        ones = [row for row in rows if row["benchmark"] == benchmark and row["gold_option"]]
        kinds = sorted({row["type"] for row in ones}) if benchmark == evermem.BENCHMARK else []
        for kind in ["", *kinds]:
            chosen = [row for row in ones if not kind or row["type"] == kind]
            name = f"{benchmark} letters {kind}".strip()
            found += _score(name, chosen, lambda row: letter_score(row["answer"], row["gold_option"]))
    return found


def _locomo(rows: Sequence[Row]) -> list[Official]:
    """Stemmed F1 by category id; over all; and without the adversarial category, as papers mostly report it."""

    def value(row: Row) -> float:
        return locomo_score(row["answer"], row["gold_text"], row["type"])

    found = []
    for kind in sorted({row["type"] for row in rows}):
        ones = [row for row in rows if row["type"] == kind]
        found += _score(f"locomo F1, category {kind} ({locomo.CATEGORIES[kind]})", ones, value)
    found += _score("locomo F1, all", rows, value)
    plain = [row for row in rows if row["type"] != locomo.ADVERSARIAL]
    return found + _score("locomo F1, without category 5", plain, value)


def _score(name: str, rows: Sequence[Row], value: Callable[[Row], float]) -> list[Official]:
    if not rows:
        return []
    return [Official(name, len(rows), fmean(map(value, rows)), fmean(map(correct, rows)))]


def _means(label: str, rows: Sequence[Row], allow_unscored: bool) -> list[Official]:
    """MeanQ and MeanN (Eq. 12): questions weigh equally, then networks do. Seeds of a question are averaged first."""
    unscored = [row for row in rows if row["score"] is None]
    if unscored and not allow_unscored:
        raise DataError(
            f"{label}: {len(unscored)} answers have no partial score (first: network {unscored[0]['network']}, question "
            f"{unscored[0]['question']}), so MeanQ and MeanN cannot be final; allow them to be left out (--allow-unjudged)"
        )
    scores: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["score"] is not None:
            scores.setdefault(row["network"], {}).setdefault(row["question"], []).append(row["score"])
    if not scores:
        return []
    values = {network: [fmean(ones) for ones in questions.values()] for network, questions in scores.items()}
    judged = fmean(correct(row) for row in rows)
    count = sum(map(len, values.values()))
    by_question, by_network = bootstrap_mean(values, SEED), bootstrap_network_mean(values, SEED)
    return [
        Official("socialmem MeanQ", count, by_question.mean, judged, by_question),
        Official("socialmem MeanN", len(values), by_network.mean, judged, by_network),
    ]


def official_table(rows: Sequence[Row], labels: Sequence[str], allow_unscored: bool = False) -> str:
    """A line a score and system, the judged accuracy beside it; empty text where no benchmark here has a score of its own."""
    lines = ["| System | Score | n | Official | Judged accuracy (%) |", "|---" * 5 + "|"]
    for label in labels:
        for one in official_scores(rows, label, allow_unscored):
            interval = "" if one.interval is None else f" [{one.interval.low:.3f}, {one.interval.high:.3f}]"
            lines.append(f"| {label} | {one.name} | {one.n} | {one.value:.3f}{interval} | {100 * one.judged:.2f} |")
    return "\n".join(lines) if len(lines) > 2 else ""
