"""Evaluation rows, metrics and quoted numbers as tables of plain text cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from writer_rl.evaluation.accuracy import Comparison, category_share, compare, final_rows
from writer_rl.evaluation.quoted import QuotedTable, beside
from writer_rl.evaluation.rows import judged
from writer_rl.evaluation.statistics import Interval, bootstrap_mean, paired_difference
from writer_rl.evaluation.summary import LABELS, MEASURES, by_network
from writer_rl.report.run import Row

Table = dict[str, Any]
"""`title`, `note`, `head` [columns], `rows` [rows][columns]: what the page draws as it stands."""


def evaluation_tables(evaluations: Mapping[str, Sequence[Row]]) -> list[Table]:
    """For each evaluation and benchmark: Writers by measure, paired differences to the first Writer, question types, quoted
    numbers. An evaluation is named where there are several."""
    tables: list[Table] = []
    for name, rows in evaluations.items():
        for benchmark in _unique(row["benchmark"] for row in rows):
            own = [row for row in rows if row["benchmark"] == benchmark]
            writers = _unique(row["writer"] for row in own)
            tables.append(_writers(f"{benchmark} ({name})" if len(evaluations) > 1 else benchmark, own, writers))
            if len(writers) > 1:
                tables.append(_differences(own, writers))
            tables.append(_types(own, writers))
            tables += map(quoted_table, beside(own))
    return tables


def _writers(title: str, rows: Sequence[Row], writers: Sequence[str]) -> Table:
    questions = [row for row in rows if row["row"] == "question"]
    networks, seeds = len({row["network"] for row in rows}), len({row["seed"] for row in rows})
    unjudged = sum(not judged(row) for row in questions)
    note = f"{networks} networks, {len({(row['network'], row['question']) for row in questions})} questions, up to {seeds} "
    note += "memories a Writer. Mean [95 % interval, bootstrap over networks]."
    if any(row["offline"] for row in rows):
        note += " Offline roles answered and judged, by words alone: compare these scores with each other only."
    if unjudged:
        note += f" {unjudged} questions have no verdict and are left out: this is not a final table."
    head = ["Writer", *(LABELS[name] for name in MEASURES)]
    lines = [[writer, *(_mean(rows, writer, name) for name in MEASURES)] for writer in writers]
    return {"title": f"Evaluation: {title}", "note": note, "head": head, "rows": lines}


def _mean(rows: Sequence[Row], writer: str, name: str) -> str:
    values = by_network(rows, writer, name, allow_unjudged=True)
    return _interval(bootstrap_mean(values)) if values else ""


def _differences(rows: Sequence[Row], writers: Sequence[str]) -> Table:
    first = writers[0]
    lines = []
    for other in writers[1:]:
        asked = compare(final_rows(rows, allow_unjudged=True)[0], first, other)
        cells = [
            _interval(asked.difference, "+.3f") if asked else "",
            *(_difference(rows, first, other, one) for one in SCORES),
        ]
        lines.append([other, *cells, _mcnemar(asked)])
    note = "Over the same resampled networks; of questions, those with a verdict in both. McNemar: exact, two-sided; right is "
    note += "what most of a question's memories got right."
    head = ["Writer", *(LABELS[name] for name in ("accuracy", *SCORES)), "McNemar p"]
    return {"title": f"Difference to {first}", "note": note, "head": head, "rows": lines}


SCORES = ("phi", "return")  # of a memory, compared beside the accuracy


def _difference(rows: Sequence[Row], first: str, other: str, name: str) -> str:
    before, after = (by_network(rows, writer, name) for writer in (first, other))
    if not before or before.keys() != after.keys():
        return ""
    return _interval(paired_difference(before, after), "+.3f")


def _mcnemar(asked: Comparison | None) -> str:
    return f"{asked.p:.3g} (n={asked.questions})" if asked else ""


def _types(rows: Sequence[Row], writers: Sequence[str]) -> Table:
    kept, _ = final_rows(rows, allow_unjudged=True)
    kinds = sorted({row["type"] for row in kept if row["row"] == "question"})
    lines = [[kind or "(none)", *(_share(kept, writer, kind) for writer in writers)] for kind in kinds]
    note = "Share of correct among judged answers, mean over seeds [95 % Wilson interval over the questions]."
    return {"title": "By question type", "note": note, "head": ["Type", *writers], "rows": lines}


def _share(rows: Sequence[Row], writer: str, kind: str) -> str:
    share, count = category_share([row for row in rows if row["row"] == "question" and row["type"] == kind], writer)
    return f"{_interval(share)} of {count}" if count else ""


def quoted_table(table: QuotedTable) -> Table:
    """A table of the paper to be shown as it was printed, with its setting and what is known to be wrong with it."""
    return {"title": "Quoted", "note": table.remark, "head": table.head, "rows": table.lines}


def selection_table(selection: Row) -> list[Table]:
    """SFT's epochs and which of them GRPO began with."""
    rows = selection.get("table", [])
    names = [name for name in (rows[0] if rows else {}) if name not in ("epoch", "checkpoint")]
    if not names:
        return []
    lines = [[f"{row['epoch']:g}", *(f"{row[name]:.3f}" for name in names)] for row in rows]
    note = f"Selected: {selection['checkpoint']}, by {selection['by']}."
    return [{"title": "SFT epochs on dev networks", "note": note, "head": ["Epoch", *names], "rows": lines}]


def time_tables(metrics: Sequence[Row]) -> list[Table]:
    """What training took, by phase; none before its first round."""
    phases = _unique(name for row in metrics for name in row if name.startswith("time/"))
    if not phases:
        return []
    total = sum(row.get(name, 0.0) for row in metrics for name in phases)
    lines = []
    for name in phases:
        seconds = sum(row.get(name, 0.0) for row in metrics)
        lines.append([name.removeprefix("time/"), _duration(seconds), f"{seconds / total:.0%}" if total else ""])
    tokens = sum(row.get("num_tokens", 0) for row in metrics)
    note = f"{len(metrics)} rounds in {_duration(total)}; {tokens:,.0f} tokens read and written by the policy."
    return [{"title": "Time of training", "note": note, "head": ["Phase", "Time", "Share"], "rows": lines}]


def call_tables(evaluations: Mapping[str, Sequence[Row]]) -> list[Table]:
    """The calls of each evaluation whose rows keep account of them."""
    tables = []
    for name, rows in evaluations.items():
        calls = [call | {"writer": row["writer"]} for row in rows for call in row.get("calls", [])]
        tables += [_calls(name, calls)] if calls else []
    return tables


def _calls(evaluation: str, calls: Sequence[Row]) -> Table:
    lines = []
    for writer, role in _unique((call["writer"], call["role"]) for call in calls):
        own = [call for call in calls if (call["writer"], call["role"]) == (writer, role)]
        sums = [sum(call.get(name, 0) for call in own) for name in ("cached", "prompt_tokens", "completion_tokens")]
        lines.append([writer, role, f"{len(own):,}", *(f"{value:,}" for value in sums)])
    head = ["Writer", "Role", "Calls", "of them cached", "Tokens in", "Tokens out"]
    return {"title": f"Calls of the evaluation ({evaluation})", "note": "", "head": head, "rows": lines}


def _interval(value: Interval, form: str = ".3f") -> str:
    return f"{value.mean:{form}} [{value.low:{form}}, {value.high:{form}}]"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.1f} s"


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
