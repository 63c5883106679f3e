"""EverMemBench-Dynamic in its published schema, traps included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data.importers import evermem
from data.network import DataError
from data.segments import segments
from tests.data.importers.files import ever_message
from tests.data.importers.files import evermem as written

OPEN = {"id": "F_SH_Top01_001", "Q": "When?", "A": "Monday", "R": [], "options": None}
CHOICE = {"id": "MA_C_Top01_002", "Q": "Which?", "A": "B", "R": [], "options": {"B": "two", "A": "one", "C": "3", "D": "4"}}


def test_a_group_that_is_null_said_nothing_and_one_that_returns_goes_on(tmp_path: Path) -> None:
    days = {
        "2025-01-10": {"Group 3": [ever_message(1, day="2025-01-10")], "Group 1": [ever_message(1, day="2025-01-10")]},
        "2025-01-09": {"Group 1": [ever_message(1), ever_message(2)], "Group 3": None},
    }
    network = evermem.load(written(tmp_path, days, [OPEN]))[0]
    assert [(one.id, one.channel, one.date, len(one.messages)) for one in network.sessions] == [
        ("Group 1", "Group 1", "2025-01-09", 3),
        ("Group 3", "Group 3", "2025-01-10", 1),
    ]
    assert [record.turn for record in segments(network)[0].verbatim] == [0, 1, 2]
    assert [message.id for message in network.sessions[0].messages] == [
        "2025-01-09/Group 1/1",
        "2025-01-09/Group 1/2",
        "2025-01-10/Group 1/1",
    ]


def test_windows_of_25_run_over_days_inside_a_group(tmp_path: Path) -> None:
    days = {
        f"2025-01-{day:02d}": {"Group 1": [ever_message(n, day=f"2025-01-{day:02d}") for n in range(10)]} for day in range(1, 8)
    }
    network = evermem.load(written(tmp_path, days, [OPEN]))[0]
    assert [len(one.messages) for one in segments(network, window=25)] == [25, 25, 20]


def test_a_day_that_is_written_twice_loses_nothing(tmp_path: Path) -> None:
    parts = [json.dumps({"Group 1": [ever_message(number)]}) for number in (1, 2)]
    text = f'{{"dialogues": {{"2025-01-09": {parts[0]}, "2025-01-09": {parts[1]}}}}}'
    network = evermem.load(written(tmp_path, text, [OPEN]))[0]
    assert [message.id[-1] for message in network.messages()] == ["1", "2"]


def test_options_make_a_question_multiple_choice_and_the_letter_its_gold(tmp_path: Path) -> None:
    network = evermem.load(written(tmp_path, {"2025-01-09": {"g": [ever_message(1)]}}, [OPEN, CHOICE]))[0]
    first, second = network.questions
    assert (first.format, first.answer, first.correct_option, first.options) == ("short_answer", "Monday", "", ())
    assert (second.format, second.answer, second.correct_option) == ("multiple_choice", "two", "B")
    assert [letter for letter, _ in second.options] == ["A", "B", "C", "D"]


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        ("F_SH", "Single"),
        ("F_MH", "Multi"),
        ("F_TP", "Temp"),
        ("MA_C", "Const"),
        ("MA_P", "Proact"),
        ("MA_U", "Update"),
        ("P_Style", "Style"),
        ("P_Skill", "Skill"),
        ("P_Title", "Role"),
    ],
)
def test_the_id_prefix_says_the_behaviour(prefix: str, kind: str) -> None:
    assert evermem.kind_of(f"{prefix}_Top01_017", "here") == kind


def test_evidence_that_names_messages_is_resolved_and_the_rest_reported(tmp_path: Path) -> None:
    references = [{"date": "2025-01-09", "group": "Group 1", "message_index": 2}, "line 7"]
    days = {"2025-01-09": {"Group 1": [ever_message(1), ever_message(2)]}}
    question = evermem.load(written(tmp_path, days, [OPEN | {"R": references}]))[0].questions[0]
    assert question.evidence == ("2025-01-09/Group 1/2",)
    assert question.extra == (("unresolved_evidence", "line 7"),)


def test_one_persons_name_in_two_cases_is_one_member(tmp_path: Path) -> None:
    days = {"2025-01-09": {"g": [ever_message(1, "Wei Zhang"), ever_message(2, "wei  zhang ")]}}
    network = evermem.load(written(tmp_path, days, [OPEN]))[0]
    assert network.roster.names == ("Wei Zhang",)


def test_topics_are_networks_in_order(tmp_path: Path) -> None:
    for topic in ("02", "01"):
        written(tmp_path, {"2025-01-09": {"g": [ever_message(1)]}}, [OPEN], topic)
    assert [network.id for network in evermem.load(tmp_path)] == ["01", "02"]
    assert [network.id for network in evermem.load(tmp_path / "02")] == ["02"]


@pytest.mark.parametrize(
    ("days", "rows", "words"),
    [
        ({"2025-01-09": {"g": "no"}}, [OPEN], ["2025-01-09", "'g'"]),
        ({"2025-01-09": {"g": [ever_message(1) | {"time": "noon"}]}}, [OPEN], ["message 1", "time"]),
        ({"2025-01-09": {"g": [ever_message(1) | {"message_index": "1"}]}}, [OPEN], ["message 1", "message_index"]),
        ({"2025-01-09": {"g": [ever_message(1)]}}, [OPEN | {"id": "X_1"}], ["question 1", "id"]),
        ({"2025-01-09": {"g": [ever_message(1)]}}, [CHOICE | {"A": "E"}], ["question 1", "'A'"]),
        ({"2025-01-09": {"g": [ever_message(1)]}}, [OPEN | {"R": None}], ["question 1", "'R'"]),
    ],
)
def test_a_misfit_names_place_and_field(tmp_path: Path, days: Any, rows: list[Any], words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        evermem.load(written(tmp_path, days, rows))
    assert all(word in str(caught.value) for word in words)
