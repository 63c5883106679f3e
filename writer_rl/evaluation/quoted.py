"""Numbers quoted from the paper's tables, as printed, with what is known to be wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from data import socialmem
from data.importers import evermem, groupmem, locomo

HALF = 0.005  # rounding of a number printed with two decimals


@dataclass(frozen=True)
class Column:
    """`n` questions (or networks, runs) behind a column; `category` is the benchmark's own category id."""

    key: str
    label: str
    unit: str
    n: int | None = None
    category: str | None = None


@dataclass(frozen=True)
class QuotedRow:
    """A system's values in the order of the columns. `ask` is None where the system has no such setting; `extra` holds
    what only some tables have: `block` (model), `categories` (label -> category id), `category`, `runs`, `whole_numbers`."""

    system: str
    values: tuple[float | None, ...]
    ask: bool | None
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class QuotedTable:
    """One table of the paper. `total` says how its column `total` comes about: `weighted` (mean over categories), `sum`
    (of token counts), `delta` (differences to the best full system) or "" (nothing to check)."""

    number: int
    title: str
    benchmark: str
    metric: str
    setting: Mapping[str, Any]
    scheme: str  # what the category ids are
    total: str
    n: int | None
    faults: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[QuotedRow, ...]
    extra: Mapping[str, Any]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return tuple(column.key for column in self.columns)

    @property
    def head(self) -> list[str]:
        return ["System", *(column.label for column in self.columns)]

    @property
    def lines(self) -> list[list[str]]:
        """The cells as text, without trailing zeros."""
        return [[row.system, *("" if value is None else f"{value:g}" for value in row.values)] for row in self.rows]

    @property
    def remark(self) -> str:
        """Where it stands, under which setting it was measured, and what is known to be wrong with it."""
        setting = ", ".join(f"{name} {_said(value)}" for name, value in self.setting.items())
        told = [f"Quoted from Table {self.number} of the SpeakerMem-R1 paper: {self.title} ({self.benchmark}, {self.metric})."]
        told += [f"Setting there: {setting}; scores of other models do not compare."] if setting else []
        return " ".join([*told, *self.faults])

    @property
    def questions(self) -> int | None:
        """How many questions the whole table is of; None where the paper does not say."""
        return self.n or next((column.n for column in self.columns if column.key == "total"), None)

    def value(self, row: QuotedRow, key: str) -> float:
        """A cell that must be there; ValueError for an empty one."""
        found = row.values[self.keys.index(key)]
        if found is None:
            raise ValueError(f"Table {self.number}, {row.system}: no value under {key}")
        return found


@dataclass(frozen=True)
class Mismatch:
    """A printed number that its own parts do not give. `known` says whether the data file has a remark about it."""

    table: int
    system: str
    key: str
    printed: float
    computed: float
    known: bool


def load_quoted() -> dict[int, QuotedTable]:
    """All quoted tables by number; `faults` are already the sentences to show beside them."""
    raw = json.loads((files("writer_rl.evaluation") / "quoted.json").read_text("utf-8"))
    return {one["table"]: _table(one, raw["faults"]) for one in raw["tables"]}


def _table(raw: dict[str, Any], faults: Mapping[str, str]) -> QuotedTable:
    return QuotedTable(
        number=raw["table"],
        title=raw["title"],
        benchmark=raw["benchmark"],
        metric=raw["metric"],
        setting=raw["setting"],
        scheme=raw.get("scheme", ""),
        total=raw.get("total", ""),
        n=raw.get("n"),
        faults=tuple(faults[name] for name in raw["faults"]),
        columns=tuple(Column(**column) for column in raw["columns"]),
        rows=tuple(_row(row) for row in raw["rows"]),
        extra={key: raw[key] for key in ("category_n",) if key in raw},
    )


def _row(raw: dict[str, Any]) -> QuotedRow:
    extra = {key: value for key, value in raw.items() if key not in ("system", "values", "ask")}
    return QuotedRow(raw["system"], tuple(raw["values"]), raw.get("ask"), extra)


def beside(rows: Sequence[Mapping[str, Any]]) -> list[QuotedTable]:
    """The tables that evaluation rows of one benchmark may stand beside: as many questions of the same benchmark, an LLM as
    answerer and judge, and the budgets and the ASK setting of the paper's runs. Its models are for the reader to compare."""
    asked = [row for row in rows if row["row"] == "question"]
    if not asked or any(row["offline"] for row in asked):
        return []
    count = len({(row["network"], row["question"]) for row in asked})
    plain = len({(row["network"], row["question"]) for row in asked if row["type"] != locomo.ADVERSARIAL})
    settings = {tuple(row["budgets"]) for row in asked}
    found = []
    for table in load_quoted().values():
        counts = (count, plain) if table.benchmark == "LoCoMo" else (count,)
        same = _ID.get(table.benchmark) == asked[0]["benchmark"] and table.questions in counts
        ask_fits = "ask" not in table.setting or table.setting["ask"] in {row["ask"] for row in asked}
        if same and PAPER_BUDGETS in settings and ask_fits:
            found.append(table)
    return found


_ID = {"SocialMemBench": socialmem.BENCHMARK, "GroupMemBench": groupmem.BENCHMARK}
_ID |= {"EverMemBench": evermem.BENCHMARK, "LoCoMo": locomo.BENCHMARK}
PAPER_BUDGETS = (40, 10, 2, 1)  # recall-n, top-k, k, source-k


def _said(value: object) -> str:
    return "on" if value is True else "off" if value is False else str(value)


def mismatches(tables: Mapping[int, QuotedTable]) -> list[Mismatch]:
    """Every printed total that its parts do not give within the rounding of what is printed."""
    found = [one for table in tables.values() for row in table.rows for one in _CHECKS[table.total](table, row)]
    return found + list(_overview(tables)) + list(_token_parts(tables))


def _weighted(table: QuotedTable, row: QuotedRow) -> Iterator[Mismatch]:
    """The total as the mean over questions of the categories."""
    parts = [column for column in table.columns if column.key != "total"]
    counts = [_count(table, row, column) for column in parts]
    mean = sum(table.value(row, column.key) * n for column, n in zip(parts, counts, strict=True)) / sum(counts)
    yield from _compare(table, row, "total", mean, 2 * max(_half(table.value(row, key)) for key in table.keys))


def _count(table: QuotedTable, row: QuotedRow, column: Column) -> int:
    """Questions of a category: the column's, or those of the category id that the row's own scheme gives the label."""
    if "categories" in row.extra:
        return int(table.extra["category_n"][row.extra["categories"][column.key]])
    assert column.n is not None
    return column.n


def _summed(table: QuotedTable, row: QuotedRow) -> Iterator[Mismatch]:
    """Token counts add up, and the average is over the benchmark's questions."""
    total = sum(table.value(row, key) for key in ("ingest_in", "ingest_out", "qa_in", "answer_out"))
    yield from _compare(table, row, "total", total, 0.0)
    assert table.n is not None
    yield from _compare(table, row, "average", table.value(row, "total") / table.n, HALF)


def _delta(table: QuotedTable, row: QuotedRow) -> Iterator[Mismatch]:
    full = [other for other in table.rows if other.ask is not None]
    for key in ("SM", "GM", "EM"):
        best = max(table.value(other, key) for other in full)
        yield from _compare(table, row, f"delta_{key}", table.value(row, key) - best, HALF)


def _shares(table: QuotedTable, row: QuotedRow) -> Iterator[Mismatch]:
    """Where correct and total are given, the accuracy is their quotient."""
    if "correct" in table.keys:
        share = 100 * table.value(row, "correct") / table.value(row, "total")
        yield from _compare(table, row, "accuracy", share, HALF)


_CHECKS = {"weighted": _weighted, "sum": _summed, "delta": _delta, "": _shares}


def _overview(tables: Mapping[int, QuotedTable]) -> Iterator[Mismatch]:
    """EverMemBench in Table 1: both subsets give the whole."""
    table = tables[1]
    for row in table.rows:
        for metric in ("acc", "f1"):
            cells = [row.values[table.keys.index(f"{part}_{metric}")] for part in ("MC", "OE", "EM")]
            if cells[0] is None or cells[1] is None:
                continue
            mean = (cells[0] * 1638 + cells[1] * 762) / 2400
            yield from _compare(table, row, f"EM_{metric}", mean, 2 * max(_half(cell) for cell in cells if cell is not None))


def _token_parts(tables: Mapping[int, QuotedTable]) -> Iterator[Mismatch]:
    """Table 9 is the sum of Tables 10 to 12."""
    whole = tables[9]
    for index, row in enumerate(whole.rows):
        for key in whole.keys[:-1]:
            yield from _compare(whole, row, key, sum(tables[n].value(tables[n].rows[index], key) for n in (10, 11, 12)), 0.0)


def _half(value: float) -> float:
    """Half a unit of the last place, at least of one decimal: trailing zeros are not kept in the file."""
    return HALF if round(value, 1) != value else 0.05


def _compare(table: QuotedTable, row: QuotedRow, key: str, computed: float, allowed: float) -> Iterator[Mismatch]:
    printed = table.value(row, key)
    if abs(printed - computed) > allowed + 1e-9:
        yield Mismatch(table.number, row.system, key, printed, computed, "whole_numbers" in row.extra)
