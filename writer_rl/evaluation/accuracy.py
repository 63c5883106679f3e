"""Accuracy from rows: over seeds (Table 3), by category, and between any two systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from data.network import DataError
from writer_rl.evaluation.rows import Row, judged
from writer_rl.evaluation.scores import token_f1
from writer_rl.evaluation.statistics import Interval, mcnemar, paired_difference, wilson


class UnjudgedQuestions(DataError):
    """Questions without a verdict in what should be a final table."""


@dataclass(frozen=True)
class Accuracy:
    """Correct answers of one system, by seed. Shapes [seeds]. `std` is None for a single seed."""

    correct: tuple[int, ...]
    total: tuple[int, ...]

    @property
    def by_seed(self) -> tuple[float, ...]:
        return tuple(right / count for right, count in zip(self.correct, self.total, strict=True))

    @property
    def mean(self) -> float:
        return fmean(self.by_seed)

    @property
    def std(self) -> float | None:
        return stdev(self.by_seed) if len(self.by_seed) > 1 else None


@dataclass(frozen=True)
class Comparison:
    """`second` against `first`: the difference of accuracies with its paired bootstrap over networks, and McNemar's exact
    p over `questions` of them that both were asked."""

    first: str
    second: str
    difference: Interval
    p: float
    questions: int


def final_rows(rows: Sequence[Row], allow_unjudged: bool) -> tuple[list[Row], list[Row]]:
    """(rows that tables are made of, questions without a verdict). Raises UnjudgedQuestions unless the latter are
    allowed: they are never counted as wrong."""
    kept = [row for row in rows if row["row"] != "question" or judged(row)]
    unjudged = [row for row in rows if row["row"] == "question" and not judged(row)]
    if unjudged and not allow_unjudged:
        first = unjudged[0]
        raise UnjudgedQuestions(
            f"{len(unjudged)} questions have no verdict (first: {first['writer']}, network {first['network']}, question "
            f"{first['question']}: {first['verdict']}, {first['reason']}). Run the evaluation again: only they are asked; or "
            "allow them to be left out (--allow-unjudged), and they are listed"
        )
    return kept, unjudged


def systems(rows: Sequence[Row]) -> list[str]:
    """Labels of everything that was asked, in the order of the rows."""
    return list(dict.fromkeys(row["writer"] for row in rows if row["row"] == "question"))


def questions_of(rows: Sequence[Row], label: str) -> list[Row]:
    return [row for row in rows if row["row"] == "question" and row["writer"] == label]


def correct(row: Row) -> bool:
    return bool(row["verdict"] == "correct")


def accuracy(rows: Sequence[Row], label: str) -> Accuracy:
    """Binary accuracy by seed (Eq. 10, as a share)."""
    seeds: dict[int, list[bool]] = {}
    for row in questions_of(rows, label):
        seeds.setdefault(row["seed"], []).append(correct(row))
    ordered = [seeds[seed] for seed in sorted(seeds)]
    return Accuracy(tuple(map(sum, ordered)), tuple(map(len, ordered)))


def mean_token_f1(rows: Sequence[Row], label: str) -> float:
    """Token-F1 with equal question weights (Eq. 11, as a share): the final answer against the gold answer's text."""
    return fmean(token_f1(row["answer"], row["gold_text"]) for row in questions_of(rows, label))


def compare(rows: Sequence[Row], first: str, second: str) -> Comparison | None:
    """`second` minus `first` over the questions that both have verdicts on; None where there are none.

    A question counts as right for McNemar where more than half of its seeds are: seeds of one question are no
    independent pairs. The bootstrap takes the mean over seeds.
    """
    sides = [_by_question(rows, label) for label in (first, second)]
    shared = sorted(sides[0].keys() & sides[1].keys())
    if not shared:
        return None
    values: list[dict[str, list[float]]] = [{}, {}]
    for side, found in zip(sides, values, strict=True):
        for network, question in shared:
            found.setdefault(network, []).append(fmean(side[network, question]))
    majority = [[fmean(side[one]) > 0.5 for one in shared] for side in sides]
    return Comparison(first, second, paired_difference(values[0], values[1]), mcnemar(*majority), len(shared))


def _by_question(rows: Sequence[Row], label: str) -> dict[tuple[str, str], list[bool]]:
    found: dict[tuple[str, str], list[bool]] = {}
    for row in questions_of(rows, label):
        found.setdefault((row["network"], row["question"]), []).append(correct(row))
    return found


def controlled_table(rows: Sequence[Row], labels: Sequence[str], reference: str | None) -> str:
    """Table 3's shape in Markdown: correct/total (mean over seeds), accuracy with its sample standard deviation, token-F1,
    and the gap to the reference Writer in percentage points."""
    head = ["System", "Correct/total", "Acc. (%, mean ± std)", "Seeds", "token-F1 (%)"]
    head += [f"Gap to {reference}"] if reference else []
    lines = [_line(head), "|---" * len(head) + "|"]
    best = accuracy(rows, reference) if reference else None
    for label in labels:
        one = accuracy(rows, label)
        if not one.total:
            continue
        spread = "" if one.std is None else f" ± {100 * one.std:.2f}"
        cells = [_marked(rows, label), f"{fmean(one.correct):.4g}/{fmean(one.total):.4g}", f"{100 * one.mean:.2f}{spread}"]
        cells += [str(len(one.total)), f"{100 * mean_token_f1(rows, label):.2f}"]
        cells += [_gap(one, best) if label != reference else "–"] if best else []
        lines.append(_line(cells))
    return "\n".join(lines)


def _gap(one: Accuracy, reference: Accuracy) -> str:
    """Empty where no question of the reference has a verdict."""
    return f"{100 * (one.mean - reference.mean):+.2f} pp" if reference.total else ""


def category_table(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """Every category of every benchmark with n and, per system, accuracy in % (mean over seeds) with a Wilson interval over
    its n questions."""
    lines = [_line(["Benchmark", "Category", "n", *labels]), "|---" * (len(labels) + 3) + "|"]
    kinds = sorted({(row["benchmark"], row["type"]) for row in rows if row["row"] == "question"})
    for benchmark, kind in kinds:
        cells, count = [], 0
        for label in labels:
            ones = [row for row in questions_of(rows, label) if (row["benchmark"], row["type"]) == (benchmark, kind)]
            share, own = category_share(ones, label)
            count = max(count, own)
            cells.append(f"{100 * share.mean:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]" if own else "")
        lines.append(_line([benchmark, kind, str(count), *cells]))
    return "\n".join(lines)


def category_share(rows: Sequence[Row], label: str) -> tuple[Interval, int]:
    """(share of correct answers, questions) of a system in some rows. Seeds of a question are averaged first: they are no
    independent answers."""
    values = [fmean(ones) for ones in _by_question(rows, label).values()]
    return wilson(sum(values), len(values)), len(values)


def comparison_table(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """Every pair of systems: difference in percentage points, its paired interval, McNemar's p."""
    lines = [_line(["A", "B", "questions", "B minus A (pp)", "95 % interval", "McNemar p"]), "|---" * 6 + "|"]
    for index, first in enumerate(labels):
        for second in labels[index + 1 :]:
            one = compare(rows, first, second)
            if one is not None:
                gap = one.difference
                interval = f"[{100 * gap.low:+.2f}, {100 * gap.high:+.2f}]"
                lines.append(_line([first, second, str(one.questions), f"{100 * gap.mean:+.2f}", interval, f"{one.p:.3g}"]))
    return "\n".join(lines)


def _marked(rows: Sequence[Row], label: str) -> str:
    """The label, with a note where training networks are among what it was asked about."""
    return f"{label} (training networks)" if any(row["trained_on"] for row in questions_of(rows, label)) else label


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
