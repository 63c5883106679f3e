"""The tables of an evaluation as one Markdown page, and the same numbers for programs. Both from rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from writer_rl.evaluation.accuracy import (
    accuracy,
    category_table,
    compare,
    comparison_table,
    controlled_table,
    final_rows,
    mean_token_f1,
    systems,
)
from writer_rl.evaluation.asking import check_evidence
from writer_rl.evaluation.memories import (
    evidence_recall,
    evidence_table,
    intrinsic,
    intrinsic_table,
    owner_coverage,
    owner_table,
)
from writer_rl.evaluation.official import SEED, official_scores, official_table
from writer_rl.evaluation.quoted import beside
from writer_rl.evaluation.rows import Row
from writer_rl.evaluation.statistics import RESAMPLES
from writer_rl.evaluation.usage import stage_table, usage, usage_table
from writer_rl.evaluation.variants import VARIANTS

OFFLINE = (
    "**Offline**: answers and verdicts are of the offline roles, deterministic and lexical. They compare systems here with "
    "each other, never with scores of a judged evaluation."
)


def page(rows: Sequence[Row], reference: str | None = None, allow_unjudged: bool = False) -> str:
    """All tables. Raises UnjudgedQuestions (unless allowed; they are then listed) and NoEvidence."""
    kept, unjudged = final_rows(rows, allow_unjudged)
    check_rows(kept)
    labels = systems(kept)
    asked = [row for row in kept if row["row"] == "question"]
    budgets = sorted({tuple(row["budgets"]) for row in asked})
    head = [
        f"{len({row['network'] for row in asked})} networks, "
        f"{len({(row['network'], row['question']) for row in asked})} questions. Budgets (recall-n / top-k / k / source-k): "
        + ", ".join(" / ".join(map(str, one)) for one in budgets)
        + f". Pipelines: {', '.join(sorted({row['pipeline_id'][:12] for row in asked}))}. Intervals: 95 %, bootstrap over "
        f"networks ({RESAMPLES:,} resamples, seed {SEED}), Wilson for categories."
    ]
    if any(row["offline"] for row in asked):
        head.append(OFFLINE)
    head += [_unjudged(unjudged)] if unjudged else []
    parts = [
        ("Accuracy", controlled_table(kept, labels, reference)),
        ("Differences, paired", comparison_table(kept, labels) if len(labels) > 1 else ""),
        ("Categories, accuracy in %", category_table(kept, labels)),
        ("Quoted", _quoted(asked)),
        ("Official scores", official_table(kept, labels, allow_unjudged)),
        ("Memories", intrinsic_table(kept)),
        ("Coverage of owners", owner_table(kept)),
        ("Evidence", evidence_table(kept)),
        ("Tokens and calls", usage_table(kept)),
        ("Stages", stage_table(kept)),
    ]
    return "\n\n".join([*head, *(f"## {title}\n\n{text}" for title, text in parts if text)]) + "\n"


def _quoted(asked: Sequence[Row]) -> str:
    """The paper's tables of the same protocol, as printed."""
    parts = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in asked):
        for table in beside([row for row in asked if row["benchmark"] == benchmark]):
            lines = [table.head, ["---"] * len(table.head), *table.lines]
            parts.append("\n".join([table.remark, "", *("| " + " | ".join(line) + " |" for line in lines)]))
    return "\n\n".join(parts)


def results(rows: Sequence[Row], reference: str | None = None, allow_unjudged: bool = False) -> dict[str, Any]:
    """The page's numbers by name. Errors as for `page`."""
    kept, unjudged = final_rows(rows, allow_unjudged)
    check_rows(kept)
    labels = systems(kept)
    asked = [row for row in kept if row["row"] == "question"]
    made: dict[str, Any] = {
        "networks": len({row["network"] for row in asked}),
        "questions": len({(row["network"], row["question"]) for row in asked}),
        "pipeline_ids": sorted({row["pipeline_id"] for row in asked}),
        "offline": any(row["offline"] for row in asked),
        "bootstrap": {"resamples": RESAMPLES, "seed": SEED},
        "unjudged": len(unjudged),
        "systems": {label: _system(kept, label, allow_unjudged) for label in labels},
    }
    if reference is not None:
        pairs = [compare(kept, reference, label) for label in labels if label != reference]
        made["against"] = {
            one.second: {"minus": one.first, "difference": one.difference.mean, "ci": _bounds(one.difference), "p": one.p}
            for one in pairs
            if one is not None
        }
    return made


def _system(rows: Sequence[Row], label: str, allow_unscored: bool) -> dict[str, Any]:
    one = accuracy(rows, label)
    return {
        "accuracy": one.mean,
        "std": one.std,
        "correct": list(one.correct),
        "total": list(one.total),
        "token_f1": mean_token_f1(rows, label),
        "evidence": evidence_recall(rows, label),
        "official": [score.plain() for score in official_scores(rows, label, allow_unscored)],
        "coverage": owner_coverage(rows, label),
        "stages": {name: asdict(stage) for name, stage in usage(rows, label).stages.items()},
        "memory": {name: {"mean": value.mean, "ci": _bounds(value)} for name, value in intrinsic(rows, label).items()},
    }


def _bounds(interval: Any) -> list[float]:
    return [interval.low, interval.high]


def check_rows(rows: Sequence[Row]) -> None:
    """NoEvidence for a system whose retrieval found nothing too often; an arm without System 1 may."""
    may = {variant.label for variant in VARIANTS.values() if variant.may_lack_evidence}
    for label in systems(rows):
        ones = [row for row in rows if row["row"] == "question" and row["writer"] == label and row["variant"] not in may]
        check_evidence(label, sum(row["without_evidence"] for row in ones), len(ones))


def _unjudged(rows: Sequence[Row]) -> str:
    lines = [f"**{len(rows)} questions without a verdict are left out:**", ""]
    lines += [
        f"- {row['writer']}, {row['network']}, {row['question']}, seed {row['seed']}: {row['verdict']} ({row['reason']})"
        for row in rows
    ]
    return "\n".join(lines)
