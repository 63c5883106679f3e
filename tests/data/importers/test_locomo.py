"""LoCoMo: its traps in a small file, its published counts on the real one."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from data.importers import locomo
from data.importers.counts import count, differences
from data.network import DataError, Network
from data.sources import SOURCES
from tests.data.importers.files import LOCOMO, locomo_sample, put

REAL = pytest.mark.skipif(not LOCOMO.is_dir(), reason=f"the real LoCoMo file is not at {LOCOMO}")


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return locomo.load(put(tmp_path / "locomo10.json", [locomo_sample()]))[0]


def test_sessions_go_by_number_and_date_keys_without_a_session_are_passed_over(network: Network) -> None:
    assert [session.id for session in network.sessions] == ["session_1", "session_2", "session_10"]


def test_a_caption_joins_the_text_and_entities_are_undone(network: Network) -> None:
    assert next(network.messages()).text == "Look & see! [image: a dog]"


def test_every_turn_carries_its_sessions_time(network: Network) -> None:
    first = network.sessions[0]
    assert {message.time for message in first.messages} == {"1:56 pm on 8 May, 2023"}
    assert first.messages[1].instant == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert network.sessions[1].messages[0].instant == datetime(2023, 5, 30, 12, 9, tzinfo=UTC)
    assert network.sessions[2].messages[0].instant == datetime(2024, 1, 2, 0, 5, tzinfo=UTC)
    assert all(message.zone_assumed for message in network.messages())


def test_category_five_is_abstention_and_the_trap_is_kept_apart(network: Network) -> None:
    third, fourth = network.questions[2:]
    assert third.abstain and third.answer == locomo.ABSTENTION and dict(third.extra) == {"trap_answer": "Tom"}
    assert fourth.abstain and fourth.answer == locomo.ABSTENTION
    assert dict(fourth.extra) == {"trap_answer": "Yes", "published_answer": "No"}
    assert not any(question.abstain for question in network.questions[:2])


def test_a_number_as_gold_is_its_text(network: Network) -> None:
    assert network.questions[0].answer == "2"


def test_evidence_in_one_string_is_told_apart_and_what_does_not_resolve_is_reported(network: Network) -> None:
    assert network.questions[1].evidence == ("D1:1", "D1:2")
    assert locomo.unresolved([network]) == [("conv-1", "q002", "D1:1; D1:2"), ("conv-1", "q002", "D")]


def test_john_of_two_conversations_is_two_people(tmp_path: Path) -> None:
    samples = [locomo_sample(), locomo_sample(sample_id="conv-2")]
    first, second = locomo.load(put(tmp_path / "locomo10.json", samples))
    assert not {member.id for member in first.roster.members} & {member.id for member in second.roster.members}
    assert first.roster.names == second.roster.names == ("John", "Maria")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"qa": [{"question": "q", "answer": "a", "evidence": [], "category": 6}]}, ["conv-1", "question 1", "category"]),
        ({"qa": [{"question": "q", "evidence": [], "category": 4}]}, ["conv-1", "question 1", "answer"]),
        ({"qa": [{"question": "q", "answer": None, "evidence": [], "category": 4}]}, ["question 1", "answer", "null"]),
        ({"qa": [{"question": "q", "answer": "a", "evidence": "D1", "category": 4}]}, ["question 1", "evidence"]),
        ({"conversation": {"speaker_a": "A", "speaker_b": "B", "session_1": []}}, ["session_1_date_time"]),
        (
            {
                "conversation": {
                    "speaker_a": "A",
                    "speaker_b": "B",
                    "session_1": [{"speaker": "C", "dia_id": "D1:1", "text": "x"}],
                    "session_1_date_time": "1:56 pm on 8 May, 2023",
                }
            },
            ["session_1, turn 1", "speaker", "'C'"],
        ),
        ({"conversation": {"speaker_a": "A", "speaker_b": "B", "session_1": [], "session_1_date_time": "May"}}, ["'May'"]),
    ],
)
def test_a_misfit_names_file_place_and_field(tmp_path: Path, change: dict[str, object], words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        locomo.load(put(tmp_path / "locomo10.json", [locomo_sample(**change)]))
    assert all(word in str(caught.value) for word in ["locomo10.json", *words])


@pytest.mark.parametrize("content", ["", "{}", "[1]", "[[", '"x"', "[" * 100_000])
def test_what_is_no_locomo_file_is_a_data_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError):
        locomo.load(put(tmp_path / "locomo10.json", content))


@REAL
def test_the_real_file_holds_what_is_published() -> None:
    networks = locomo.load(LOCOMO)
    assert differences(networks, "locomo") == []
    assert count(networks).kinds == {"1": 282, "2": 321, "3": 96, "4": 841, "5": 446}
    assert sum("John" in network.roster.names for network in networks) == 3
    assert len({member.id for network in networks for member in network.roster.members}) == 20
    questions = [question for network in networks for question in network.questions]
    assert sum(question.abstain for question in questions) == 446
    assert sum(any(key == "published_answer" for key, _ in question.extra) for question in questions) == 2
    assert all(question.answer for question in questions)


@REAL
def test_the_nine_evidence_strings_that_do_not_resolve_are_reported() -> None:
    loose = [value for _, _, value in locomo.unresolved(locomo.load(LOCOMO))]
    assert len(loose) == 9 and {"D", "D:11:26", "D30:05", "D8:6; D9:17"} <= set(loose)


@REAL
def test_the_pinned_checksum_is_the_real_files() -> None:
    known = SOURCES["locomo"].parts[0].sha256["data/locomo10.json"]
    assert hashlib.sha256((LOCOMO / "locomo10.json").read_bytes()).hexdigest() == known
