"""Quoted numbers: what adds up in the paper adds up here, and what does not carries a remark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from writer_rl.evaluation.quoted import QuotedTable, load_quoted, mismatches


@pytest.fixture(scope="module")
def tables() -> dict[int, QuotedTable]:
    return load_quoted()


def test_all_tables_with_results_are_there(tables: dict[int, QuotedTable]) -> None:
    assert sorted(tables) == [1, 2, 3, 4, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21, 22, 23]


def test_totals_reproduce_but_for_the_rows_with_a_remark(tables: dict[int, QuotedTable]) -> None:
    found = mismatches(tables)
    assert [one for one in found if not one.known] == []
    assert {(one.table, one.system, one.key) for one in found} == {
        (1, "Mem0", "EM_f1"),
        (18, "Mem0", "total"),
        (19, "Mem0", "total"),
    }
    assert all(abs(one.printed - one.computed) < 1 for one in found)


def test_a_changed_cell_is_found(tables: dict[int, QuotedTable]) -> None:
    for number in (2, 3, 4, 9, 16, 17, 20, 21, 22, 23):
        table = tables[number]
        row = table.rows[-1]
        changed = replace(row, values=tuple(None if value is None else value + 40 for value in row.values[:1]) + row.values[1:])
        broken = tables | {number: replace(table, rows=(*table.rows[:-1], changed))}
        assert any(one.table == number and not one.known for one in mismatches(broken)), number


def test_locomo_totals_need_both_naming_schemes(tables: dict[int, QuotedTable]) -> None:
    table = tables[4]
    schemes = {row.system: row.extra["categories"] for row in table.rows}
    swapped = {"Mem0": schemes["MemOS"], "MemOS": schemes["Mem0"]}
    for system, scheme in swapped.items():
        row = next(row for row in table.rows if row.system == system)
        only = replace(table, rows=(replace(row, extra={"categories": scheme}),))
        assert [one.key for one in mismatches(tables | {4: only}) if one.table == 4] == ["total"], system
    assert any("Temporal" in fault for fault in table.faults)


def test_category_counts_are_those_of_the_benchmarks(tables: dict[int, QuotedTable]) -> None:
    counts = {
        number: sum(column.n or 0 for column in tables[number].columns if column.key != "total")
        for number in (2, 16, 17, 20, 21)
    }
    assert counts == {2: 2400, 16: 745, 17: 1031, 20: 745, 21: 1031}
    assert sum(tables[4].extra["category_n"].values()) == 1540


def test_token_tables_are_marked_as_imputed(tables: dict[int, QuotedTable]) -> None:
    for number in (9, 10, 11, 12):
        row = tables[number].rows[0]
        assert tables[number].value(row, "ingest_out") == 100 * tables[number].value(row, "calls")
        assert any("imputed" in fault for fault in tables[number].faults)


def test_category_tables_agree_with_the_overview(tables: dict[int, QuotedTable]) -> None:
    overview = tables[1]
    columns = {16: "GM_acc", 17: "SM_acc", 18: "GM_f1", 19: "SM_f1", 20: "GM_acc", 21: "SM_acc"}
    for number, key in columns.items():
        model = tables[number].setting["answer"]
        for row in tables[number].rows:
            same = [
                one for one in overview.rows if one.extra["block"] == model and (one.system, one.ask) == (row.system, row.ask)
            ]
            assert overview.value(same[0], key) == tables[number].value(row, "total"), (number, row.system)
