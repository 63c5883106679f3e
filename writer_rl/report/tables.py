"""Evaluation rows, metrics and quoted numbers as tables of plain text cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from writer_rl.evaluation.quoted import QuotedTable, load_quoted
from writer_rl.evaluation.statistics import Interval, bootstrap_mean, mcnemar, paired_difference, wilson
from writer_rl.evaluation.summary import LABELS, MEASURES, by_network
from writer_rl.report.run import Row

Table = dict[str, Any]
"""`title`, `note`, `head` [columns], `rows` [rows][columns]: what the page draws as it stands."""

CONTROLLED = 3  # Table 3 of the paper: the one protocol that a Writer evaluation here may share
JUDGED = ("correct", "incorrect")


def evaluation_tables(rows: Sequence[Row]) -> list[Table]:
    """For each benchmark: Writers by measure, paired differences to the first Writer, question types, quoted numbers."""
    tables: list[Table] = []
    for benchmark in _unique(row["benchmark"] for row in rows):
        own = [row for row in rows if row["benchmark"] == benchmark]
        writers = _unique(row["writer"] for row in own)
        tables.append(_writers(benchmark, own, writers))
        if len(writers) > 1:
            tables.append(_differences(own, writers))
        tables.append(_types(own, writers))
        tables += _quoted(benchmark, own)
    return tables


def _writers(benchmark: str, rows: Sequence[Row], writers: Sequence[str]) -> Table:
    questions = [row for row in rows if row["row"] == "question"]
    networks, seeds = len({row["network"] for row in rows}), len({row["seed"] for row in rows})
    unjudged = sum(row["verdict"] not in JUDGED for row in questions)
    note = f"{networks} networks, {len({(row['network'], row['question']) for row in questions})} questions, up to {seeds} "
    note += "memories a Writer. Mean [95 % interval, bootstrap over networks]."
    if any(row["offline"] for row in rows):
        note += " Offline roles answered and judged, by words alone: compare these scores with each other only."
    if unjudged:
        note += f" {unjudged} questions have no verdict and are left out: this is not a final table."
    head = ["Writer", *(LABELS[name] for name in MEASURES)]
    lines = [[writer, *(_mean(rows, writer, name) for name in MEASURES)] for writer in writers]
    return {"title": f"Evaluation: {benchmark}", "note": note, "head": head, "rows": lines}


def _mean(rows: Sequence[Row], writer: str, name: str) -> str:
    values = by_network(rows, writer, name, allow_unjudged=True)
    return _interval(bootstrap_mean(values)) if values else ""


def _differences(rows: Sequence[Row], writers: Sequence[str]) -> Table:
    first = writers[0]
    names = ("accuracy", "phi", "return")
    lines = []
    for other in writers[1:]:
        cells = [_difference(rows, first, other, name) for name in names]
        lines.append([other, *cells, _mcnemar(rows, first, other)])
    note = "Over the same resampled networks. McNemar: exact, two-sided, over questions answered in both, seed by seed."
    head = ["Writer", *(LABELS[name] for name in names), "McNemar p"]
    return {"title": f"Difference to {first}", "note": note, "head": head, "rows": lines}


def _difference(rows: Sequence[Row], first: str, other: str, name: str) -> str:
    before, after = (by_network(rows, writer, name, allow_unjudged=True) for writer in (first, other))
    if not before or before.keys() != after.keys():
        return ""
    return _interval(paired_difference(before, after), "+.3f")


def _mcnemar(rows: Sequence[Row], first: str, other: str) -> str:
    verdicts = [_verdicts(rows, writer) for writer in (first, other)]
    both = sorted(verdicts[0].keys() & verdicts[1].keys())
    return f"{mcnemar(*[[one[key] for key in both] for one in verdicts]):.3g} (n={len(both)})" if both else ""


def _verdicts(rows: Sequence[Row], writer: str) -> dict[tuple[str, str, int], bool]:
    own = [row for row in rows if row["row"] == "question" and row["writer"] == writer and row["verdict"] in JUDGED]
    return {(row["network"], row["question"], row["seed"]): row["verdict"] == "correct" for row in own}


def _types(rows: Sequence[Row], writers: Sequence[str]) -> Table:
    judged = [row for row in rows if row["row"] == "question" and row["verdict"] in JUDGED]
    kinds = sorted({row["type"] for row in judged})
    lines = [[kind or "(none)", *(_share(judged, writer, kind) for writer in writers)] for kind in kinds]
    note = "Correct of judged, over all seeds: share [95 % Wilson interval]."
    return {"title": "By question type", "note": note, "head": ["Type", *writers], "rows": lines}


def _share(rows: Sequence[Row], writer: str, kind: str) -> str:
    own = [row for row in rows if row["writer"] == writer and row["type"] == kind]
    correct = sum(row["verdict"] == "correct" for row in own)
    return f"{correct}/{len(own)}: {_interval(wilson(correct, len(own)))}" if own else ""


def _quoted(benchmark: str, rows: Sequence[Row]) -> list[Table]:
    """The paper's Table 3 beside ours, where benchmark and number of questions are its own and an LLM judged."""
    table = load_quoted()[CONTROLLED]
    questions = {(row["network"], row["question"]) for row in rows if row["row"] == "question"}
    same = benchmark.casefold() == table.benchmark.casefold() and len(questions) == table.columns[0].n
    return [quoted_table(table)] if same and not any(row["offline"] for row in rows) else []


def quoted_table(table: QuotedTable) -> Table:
    """A table of the paper to be shown as it was printed, with what is known to be wrong with it."""
    lines = [[row.system, *("" if value is None else f"{value:g}" for value in row.values)] for row in table.rows]
    note = " ".join([f"Quoted from Table {table.number} of the SpeakerMem-R1 paper: {table.title}.", *table.faults])
    return {"title": "Quoted", "note": note, "head": ["System", *(column.label for column in table.columns)], "rows": lines}


def selection_table(selection: Row) -> list[Table]:
    """SFT's epochs and which of them GRPO began with."""
    rows = selection.get("table", [])
    names = [name for name in (rows[0] if rows else {}) if name not in ("epoch", "checkpoint")]
    if not names:
        return []
    lines = [[f"{row['epoch']:g}", *(f"{row[name]:.3f}" for name in names)] for row in rows]
    note = f"Selected: {selection['checkpoint']}, by {selection['by']}."
    return [{"title": "SFT epochs on dev networks", "note": note, "head": ["Epoch", *names], "rows": lines}]


def cost_tables(metrics: Sequence[Row], rows: Sequence[Row]) -> list[Table]:
    """What training took, and the calls of the evaluation where its rows keep account of them."""
    tables: list[Table] = []
    phases = _unique(name for row in metrics for name in row if name.startswith("time/"))
    if phases:
        total = sum(row.get(name, 0.0) for row in metrics for name in phases)
        lines = []
        for name in phases:
            seconds = sum(row.get(name, 0.0) for row in metrics)
            lines.append([name.removeprefix("time/"), _duration(seconds), f"{seconds / total:.0%}" if total else ""])
        tokens = sum(row.get("num_tokens", 0) for row in metrics)
        note = f"{len(metrics)} rounds in {_duration(total)}; {tokens:,.0f} tokens read and written by the policy."
        tables.append({"title": "Time of training", "note": note, "head": ["Phase", "Time", "Share"], "rows": lines})
    calls = [call | {"writer": row["writer"]} for row in rows for call in row.get("calls", [])]
    if calls:
        tables.append(_calls(calls))
    return tables


def _calls(calls: Sequence[Row]) -> Table:
    lines = []
    for writer, role in _unique((call["writer"], call["role"]) for call in calls):
        own = [call for call in calls if (call["writer"], call["role"]) == (writer, role)]
        sums = [sum(call.get(name, 0) for call in own) for name in ("cached", "prompt_tokens", "completion_tokens")]
        lines.append([writer, role, f"{len(own):,}", *(f"{value:,}" for value in sums)])
    head = ["Writer", "Role", "Calls", "of them cached", "Tokens in", "Tokens out"]
    return {"title": "Calls of the evaluation", "note": "", "head": head, "rows": lines}


def _interval(value: Interval, form: str = ".3f") -> str:
    return f"{value.mean:{form}} [{value.low:{form}}, {value.high:{form}}]"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.1f} s"


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
