"""The derived track: rows, chains, thresholds, statuses, relation constraint, source supplements, raw fallback."""

from __future__ import annotations

import asyncio

from data.network import Question
from rollout.query.evidence import RowStatus, Tense
from rollout.query.project import resolve
from rollout.query.roles import Projected
from tests.rollout.query.chats import ROSTER, Scripted, network, pipeline, state, view

CHAT = network(("a", "raw far #0.1"), ("b", "raw near #0.25"), ("b", "raw nearer #0.26"), ("c", "raw below #0.24"))


def rows(records, names=("Ana",), tense=Tense.HEAD, source=None, chat=CHAT):
    made = pipeline(project=Scripted([Projected("issue", names, tense, source)]))
    shared = asyncio.run(made.share(view(chat), Question("q", "What?", "x")))
    return asyncio.run(made.finish(shared, state(*records))).rows


def ids(chains):
    return [[record.entry_id for record in chain] for chain in chains]


def test_two_chains_of_the_owner_best_first_at_or_above_the_threshold() -> None:
    records = [("Ana", "Ana", "#0.4"), ("Ana", "Bob", "#0.6"), ("Ana", "Ana", "#0.5"), ("Ana", "Ana", "#0.29")]
    (row,) = rows(records)
    assert row.status is RowStatus.HIT
    assert ids(row.chains) == [["d2"], ["d3"]]
    assert row.below == 1
    assert ids(rows([("Ana", "Ana", "#0.3")])[0].chains) == [["d1"]]


def test_chains_are_folded_before_the_cut() -> None:
    records = [("Ana", "Ana", "#0.9"), ("#0.8", "d1"), ("#0.7", "d2"), ("Ana", "Ana", "#0.5"), ("Ana", "Ana", "#0.4")]
    assert ids(rows(records)[0].chains) == [["d3"], ["d4"]]


def test_an_old_node_that_matches_brings_its_head() -> None:
    records = [("Ana", "Ana", "#0.9"), ("#0.1", "d1")]
    assert ids(rows(records)[0].chains) == [["d2"]]
    assert ids(rows(records, tense=Tense.FULL)[0].chains) == [["d1", "d2"]]


def test_ties_go_by_confidence_then_id() -> None:
    records = [("Ana", "Ana", "#0.5"), ("Ana", "Ana", "#0.5"), ("Ana", "Ana", "#0.4"), ("#0.5", "d3")]
    assert ids(rows(records)[0].chains) == [["d4"], ["d1"]]


def test_the_status_below_threshold_counts_what_was_hidden() -> None:
    (row,) = rows([("Ana", "Ana", "#0.2"), ("Ana", "Ana", "#0.29")])
    assert (row.status, row.below, row.fallback) == (RowStatus.BELOW_THRESHOLD, 2, None)


def test_an_empty_person_row_falls_back_to_one_own_message() -> None:
    (row,) = rows([], names=("Bob",))
    assert row.status is RowStatus.FALLBACK_RAW
    assert row.fallback.entry_id == "v3"
    (row,) = rows([("Bob", "Bob", "#0.1")], names=("Bob",))
    assert (row.status, row.below, row.fallback.entry_id) == (RowStatus.FALLBACK_RAW, 1, "v3")


def test_a_row_without_anything_is_none() -> None:
    assert [row.status for row in rows([], names=("Ana", "Cleo"))] == [RowStatus.NONE, RowStatus.NONE]


def test_an_empty_group_row_never_falls_back() -> None:
    (row,) = rows([], names=("GROUP",))
    assert (row.status, row.fallback) == (RowStatus.NONE, None)
    (row,) = rows([("GROUP", "Bob", "#0.1")], names=("GROUP",))
    assert row.status is RowStatus.BELOW_THRESHOLD


def test_one_record_said_by_the_person_about_another_stands_outside_the_owner_budget() -> None:
    records = [
        ("Ana", "Ana", "#0.5"),
        ("Ana", "Ana", "#0.6"),
        ("Bob", "Ana", "#0.4"),
        ("Cleo", "Ana", "#0.7"),
        ("Cleo", "Ana", "#0.2"),
    ]
    (row,) = rows(records)
    assert (ids(row.chains), ids(row.said)) == ([["d2"], ["d1"]], [["d4"]])


def test_a_supplement_does_not_make_an_empty_row_a_hit() -> None:
    (row,) = rows([("Ana", "Bob", "#0.7")], names=("Bob",))
    assert (row.status, ids(row.said), row.fallback.entry_id) == (RowStatus.FALLBACK_RAW, [["d1"]], "v3")


def test_group_records_supplement_only_where_the_group_is_no_row() -> None:
    records = [("GROUP", "Ana", "#0.9"), ("Bob", "Ana", "#0.5")]
    assert ids(rows(records)[0].said) == [["d1"]]
    person, group = rows(records, names=("Ana", "GROUP"))
    assert (ids(person.said), ids(group.chains), group.said) == ([["d2"]], [["d1"]], ())


def test_a_relation_constraint_keeps_the_records_of_its_source_or_all_if_there_is_none() -> None:
    records = [("Bob", "Bob", "#0.9"), ("Bob", "Ana", "#0.4"), ("Cleo", "Bob", "#0.8")]
    (row,) = rows(records, names=("Bob",), source="Ana")
    assert (ids(row.chains), row.said) == ([["d2"]], ())
    (row,) = rows([("Bob", "Bob", "#0.9"), ("Bob", "Ana", "#0.1")], names=("Bob",), source="Ana")
    assert (row.status, row.below) == (RowStatus.FALLBACK_RAW, 1)
    (row,) = rows(records, names=("Bob",), source="Cleo")
    assert (ids(row.chains), ids(row.said)) == ([["d1"], ["d2"]], [["d3"]])


def test_rows_keep_the_projected_order_and_all_is_the_roster() -> None:
    assert [row.name for row in rows([], names=("Cleo", "Ana", "Cleo"))] == ["Cleo", "Ana"]
    assert [row.name for row in rows([], names=("ALL",))] == ["Ana", "Bob", "Cleo"]
    assert [row.name for row in rows([], names=("GROUP", "ALL"))] == ["Ana", "Bob", "Cleo", "GROUP"]


def test_a_row_that_is_nobody_s_is_reported_and_none_left_means_all() -> None:
    found = resolve(Projected("", ("bob ", "Zoe"), Tense.HEAD, "Yan"), ROSTER, "Where?")
    assert (found.rows, found.unknown, found.source, found.issue) == (("Bob",), ("Zoe", "Yan"), None, "Where?")
    found = resolve(Projected("issue", ("Zoe",), Tense.FULL, " ANA"), ROSTER, "Where?")
    assert (found.rows, found.unknown, found.source) == (("Ana", "Bob", "Cleo"), ("Zoe",), "Ana")
