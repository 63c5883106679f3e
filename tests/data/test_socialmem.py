from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from data.network import DataError, Member
from data.segments import segments
from data.socialmem import load
from tests.data.builders import NO_SOCIALMEM, SOCIALMEM, nested, write

real = pytest.mark.skipif(not (SOCIALMEM / "networks").is_dir(), reason=NO_SOCIALMEM)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "a.json", nested())
    return tmp_path


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """Another time zone of the machine."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Kathmandu"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_a_file_and_its_folder_give_the_same_network(folder: Path) -> None:
    assert load(folder) == load(folder / "a.json")


def test_text_is_unescaped_and_stripped_and_nothing_else(folder: Path) -> None:
    [network] = load(folder)
    assert next(network.messages()).text == "Tea & cake\u200d?\nfor <all>"


def test_members_are_the_speakers_in_order_by_id_and_one_may_be_silent(folder: Path) -> None:
    [network] = load(folder)
    assert network.roster.members == (Member("p1", "Ann"), Member("p2", "Ben"), Member("Cy", "Cy"))
    assert [message.speaker for message in network.messages()] == ["p2", "p1", "p2"]


def test_two_speakers_with_one_label_stay_two(tmp_path: Path) -> None:
    raw = nested()
    raw["sessions"][1]["turns"][0]["speaker_id"] = "p3"
    [network] = load(write(tmp_path / "a.json", raw))
    assert network.roster.names == ("Ann", "Ben (p2)", "Ben (p3)", "Cy")


def test_times_keep_their_string_beside_the_utc_instant(folder: Path) -> None:
    first, second, third = load(folder)[0].messages()
    assert (first.time, first.instant, first.zone_assumed) == ("2025-02-03T23:53:00", _utc(2025, 2, 3, 23, 53), True)
    assert (second.time, second.instant, second.zone_assumed) == ("2025-02-03T20:44:00+01:00", _utc(2025, 2, 3, 19, 44), False)
    assert (third.instant, third.zone_assumed) == (_utc(2025, 2, 4, 8, 0), False)
    assert second.reply_to == "s01_t000" and first.reply_to is None


def test_another_time_zone_of_the_machine_gives_the_same_bytes(folder: Path, elsewhere: None) -> None:
    there = repr(load(folder)) + repr(segments(load(folder)[0]))
    os.environ["TZ"] = "America/St_Johns"
    time.tzset()
    assert there == repr(load(folder)) + repr(segments(load(folder)[0]))
    assert load(folder)[0].sessions[0].messages[0].instant == _utc(2025, 2, 3, 23, 53)


def test_topics_and_relevance_are_stored_nowhere(folder: Path) -> None:
    assert "SECRET" not in repr(load(folder))


def test_a_letter_is_read_for_multiple_choice_only(folder: Path) -> None:
    choice, short = load(folder)[0].questions
    assert (choice.options, choice.correct_option) == ((("A", "Ann"), ("B", "Ben")), "B")
    assert (short.options, short.correct_option, short.format) == ((), "", "short_answer")
    assert choice.evidence == ("s01_t000",) and short.evidence == ()
    assert not choice.abstain


def test_sessions_go_by_their_index(tmp_path: Path) -> None:
    raw = nested()
    raw["sessions"].reverse()
    [network] = load(write(tmp_path / "a.json", raw))
    assert [session.id for session in network.sessions] == ["s01", "s02"]


TURN = ("sessions", 0, "turns", 1)
BROKEN: list[tuple[tuple[Any, ...], Any, str]] = [
    (("sessions",), None, "field 'sessions' is missing"),
    (("sessions",), {}, "field 'sessions' is an object where a list is expected"),
    (("speakers",), ["Ben"], r"session 's01', turn 2: field 'speaker' is 'Ann', who is not among the speakers \(Ben\)"),
    (("speakers",), ["Ann", "Ben", "ben"], "names somebody twice"),
    (("speakers",), ["Ann", 7], "field 'speakers' holds a whole number"),
    (("meta", "network_id"), None, "meta: field 'network_id' is missing"),
    (("sessions", 1, "session_index"), True, "session 2: field 'session_index' is true or false"),
    (("sessions", 0, "turns"), [], "session 's01': no turns"),
    (("sessions", 0, "session_id"), None, "field 'session_id' is missing"),
    (("sessions", 0, "ts"), None, "session 's01': field 'ts' is missing"),
    (TURN, "hello", "session 's01', turn 2: is a text where an object with 'speaker'"),
    ((*TURN, "speaker"), "Dora", "turn 2: field 'speaker' is 'Dora', who is not among the speakers"),
    ((*TURN, "speaker"), None, "turn 2: field 'speaker' is missing"),
    ((*TURN, "speaker_id"), "p2", "turn 2: field 'speaker_id' 'p2' was 'ben' before and is 'Ann' here"),
    ((*TURN, "content"), 5, r"turn 2 \(s01_t001\): field 'content' is a whole number where a text"),
    ((*TURN, "ts"), "yesterday", r"turn 2 \(s01_t001\), field 'ts': 'yesterday' is not an ISO 8601 time"),
    ((*TURN, "ts"), "0001-01-01T00:00:00+14:00", "is not an ISO 8601 time"),
    ((*TURN, "turn"), "s01_t000", "message id 's01_t000' appears more than once"),
    (("qa_pairs", 0, "id"), None, "question 1: field 'id' is missing"),
    (("qa_pairs", 0, "answer"), None, "question 'q1': field 'answer' is missing"),
    (("qa_pairs", 0, "answer_format"), "essay", "question 'q1': field 'answer_format' is 'essay'"),
    (("qa_pairs", 0, "correct_option"), "Ben", "question 'q1': field 'correct_option' is 'Ben', not one of A, B"),
    (("qa_pairs", 0, "options"), [], "question 'q1': field 'options' is a list where an object"),
    (("qa_pairs", 0, "evidence_anchors", 1), {"turn_id": "x"}, "question 'q1': field 'evidence_anchors' cites turn 'x'"),
    (("qa_pairs", 0, "evidence_anchors", 1), {}, "question 'q1', evidence anchor 2: field 'turn_id' is missing"),
    (("qa_pairs", 0, "abstain"), "yes", "question 'q1': field 'abstain' is a text where true or false"),
]


@pytest.mark.parametrize(("place", "value", "message"), BROKEN)
def test_a_misfit_is_an_error_that_names_file_place_and_field(tmp_path: Path, place: Any, value: Any, message: str) -> None:
    raw = copy.deepcopy(nested())
    inner: Any = raw
    for key in place[:-1]:
        inner = inner[key]
    if value is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    with pytest.raises(DataError, match=message) as error:
        load(write(tmp_path / "net.json", raw))
    assert "net.json" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n "b" 2}', "not JSON at line 2, column 6"),
        (b'{"a": "\xff"}', "not UTF-8 text at byte 7"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "holds a list where a JSON object is expected"),
        (b"", "not JSON at line 1"),
    ],
)
def test_an_unreadable_file_is_an_error_that_says_where(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "net.json").write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        load(tmp_path)
    assert "net.json" in str(error.value)


def test_no_file_an_empty_folder_and_one_id_twice_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \*\.json file"):
        load(tmp_path)
    with pytest.raises(DataError, match=r"x\.json: cannot be read"):
        load(tmp_path / "x.json")
    for name in "ab":
        write(tmp_path / f"{name}.json", nested())
    with pytest.raises(DataError, match=r"b\.json: network id 'grp_x' is also in .*a\.json"):
        load(tmp_path)


@real
def test_the_ten_real_networks_load_whole() -> None:
    networks = load(SOCIALMEM / "networks")
    assert len(networks) == 10
    assert sum(len(list(network.messages())) for network in networks) == 582
    assert sum(len(network.sessions) for network in networks) == 50
    assert sum(len(network.questions) for network in networks) == 77
    for network in networks:
        for question in network.questions:
            assert (question.correct_option in dict(question.options)) == (question.format == "multiple_choice")


@real
def test_real_order_is_the_files_even_where_time_goes_back() -> None:
    [network] = load(SOCIALMEM / "networks" / "grp_7a8b9c0d.json")
    times = [message.instant for message in network.sessions[1].messages if message.instant is not None]
    assert len(times) == len(network.sessions[1].messages) and times != sorted(times)
    ids = [message.id for message in network.sessions[1].messages]
    assert ids == sorted(ids)


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]
