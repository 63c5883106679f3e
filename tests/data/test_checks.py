"""Checks find what they are for, and let good data pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from data import checks
from data.checks import Level, Report, check
from data.importers.counts import PUBLISHED
from data.network import DataError, Member, Message, Network, Question, Roster, Session
from data.overlap import overlap
from tests.data.builders import network

LONG = "We will meet at the old harbour on Friday evening at seven o'clock, bring the map"


def made(*texts: str, name: str = "n", questions: tuple[Question, ...] = ()) -> Network:
    messages = tuple(
        Message(f"m{n}", f"u{n % 2}", text, "t", datetime(2024, 1, 1, n, tzinfo=UTC)) for n, text in enumerate(texts)
    )
    return Network(name, Roster((Member("u0", "Ann"), Member("u1", "Ben"))), (Session("s", messages),), questions)


def found(report: Report, name: str, level: Level) -> list[str]:
    return [row.detail for row in report.rows if row.check == name and row.level is level]


def test_good_data_passes_with_its_numbers() -> None:
    report = check([network(3, 2)])
    assert report.exit_code == 0 and not report.failed
    assert found(report, "schema", Level.INFO) == ["4 members, 2 sessions, 5 messages, 0 questions"]
    assert all(len(row) == 4 for row in report.table())


def test_no_networks_and_one_id_twice_are_errors() -> None:
    assert check([]).exit_code == 1
    assert found(check([made("a", "b"), made("c", "d")]), "schema", Level.ERROR) == ["2 networks have this id"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question("q", "?", "a", evidence=("m9",)), "evidence 'm9' is no message"),
        (Question("q", "?", "a", asker="u9"), "asker 'u9' is not on the roster"),
        (Question("q", "?", "a", format="multiple_choice", options=(("A", "x"),), correct_option="B"), "correct option 'B'"),
        (Question("q", "?", " "), "no text or no answer"),
    ],
)
def test_a_question_that_does_not_fit_fails(question: Question, words: str) -> None:
    report = check([made("a", "b", questions=(question,))])
    assert report.failed and words in found(report, "schema", Level.ERROR)[0]


def test_warnings_do_not_fail() -> None:
    one = made("a", " ", questions=(Question("q", "?", "a", extra=(("unresolved_evidence", "D"),)),))
    first, second = one.sessions[0].messages
    one = replace(one, sessions=(Session("s", (first, replace(second, reply_to="gone"))),))
    report = check([one])
    assert not report.failed
    assert found(report, "schema", Level.WARNING) == [
        "1 x message without text",
        "1 x reply to a message that is not there",
        "1 x question without evidence",
        "1 x evidence that names no message",
    ]


def test_shared_labels_bots_and_quiet_members_are_told() -> None:
    roster = Roster((Member("u0", "Ann"), Member("u1", "ann", bot=True), Member("u2", "Group")))
    report = check([replace(made("a", "b"), roster=roster)])
    assert found(report, "roster", Level.INFO) == ["1 bots", "1 members who never speak"]
    assert [detail.partition(":")[0] for detail in found(report, "roster", Level.WARNING)] == [
        "1 labels of more than one member",
        "1 labels that are reserved words",
    ]


def test_times_that_go_back_or_lack_are_told() -> None:
    one = made("a", "b", "c")
    first, second, third = one.sessions[0].messages
    report = check([replace(one, sessions=(Session("s", (second, first, replace(third, instant=None))),))])
    assert [detail.partition(" ")[0] for detail in found(report, "times", Level.WARNING)] == ["1", "1"]


def test_repeats_of_the_same_speaker_are_told() -> None:
    assert len(found(check([made(LONG, "ok", LONG.upper(), "ok")]), "duplicates", Level.WARNING)) == 1
    assert not found(check([made(LONG, LONG, "ok", "ok")]), "duplicates", Level.WARNING)


def test_the_same_network_under_another_id_is_a_leak() -> None:
    report = check([made(LONG, "b")], [made(LONG, "b", name="held")])
    assert report.failed and "same messages" in found(report, "leaks", Level.ERROR)[0]


def test_near_equal_messages_are_a_leak() -> None:
    near = LONG.replace("Friday", "friday").replace(" the map", " a map!")
    report = check([made(LONG, "b")], [made("x", near, name="held")])
    assert report.failed and "near-equal" in found(report, "leaks", Level.ERROR)[0]


def test_different_messages_are_no_leak_and_that_is_said() -> None:
    other = "Nobody has seen the cat since Tuesday, could you look behind the shed for her?"
    report = check([made(LONG, "b")], [made(other, "b", name="held")])
    assert not report.failed and found(report, "leaks", Level.INFO) == ["none between 1 training and 1 held-out networks"]


def test_a_few_near_equal_messages_among_many_are_a_warning() -> None:
    others = [f"Message number {n} speaks about topic {n * 7} and nothing else of note {n}" for n in range(9)]
    mine = [f"The {n}th shelf of row {n * 3} in the cellar holds {n} jars of plums" for n in range(9)]
    report = check([made(LONG, *mine)], [made(LONG, *others, name="held")])
    assert not report.failed
    assert found(report, "leaks", Level.WARNING)[0].startswith("1 of 10 longer messages")


def test_a_question_asked_on_both_sides_is_told() -> None:
    question = Question("q", "Who has the map?", "Ann", evidence=("m0",))
    report = check([made("a", "b", questions=(question,))], [made("c", "d", name="held", questions=(question,))])
    assert found(report, "leaks", Level.WARNING) == ["1 questions are asked in training too"]


def test_overlap_is_symmetric_in_order_and_ignores_short_messages() -> None:
    train = [made("ok ok", LONG), made("x", "y", name="n2")]
    row = overlap(train, [made(LONG, "ok ok", name="held")])[0]
    assert (row.compared, row.close) == (1, 1)
    assert overlap(train[::-1], [made(LONG, "ok ok", name="held")]) == [row]


def test_a_whole_benchmark_that_lacks_questions_fails() -> None:
    size = PUBLISHED["locomo"].networks
    networks = [replace(made("a", "b", name=f"n{n}"), benchmark="locomo") for n in range(size)]
    assert found(check(networks), "kinds", Level.ERROR)[:2] == [
        "locomo: sessions: 10 of 272 as published",
        "locomo: messages: 20 of 5882 as published",
    ]
    assert not check(networks[:3]).failed


def test_token_lengths_are_counted_and_limited() -> None:
    report = check([made("one two", "three")], tokenizer=str.split, max_tokens=5)
    assert found(report, "tokens", Level.INFO) == ["segments: 5 tokens at most, 5 on average, longest message 3 (m0)"]
    assert not report.failed
    assert check([made("one two", "three")], tokenizer=str.split, max_tokens=4).failed


def test_what_cannot_be_read_is_a_report_too() -> None:
    report = checks.unreadable(DataError("x.json: not JSON"))
    assert report.exit_code == 1 and report.table() == [("schema", "error", "", "x.json: not JSON")]
