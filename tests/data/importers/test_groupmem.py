"""GroupMemBench in its published schema, traps included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from data.importers import groupmem
from data.network import DataError
from data.segments import segments
from tests.data.importers.files import group_message, group_question, put
from tests.data.importers.files import groupmem as written

QUESTIONS = {"multi_hop": [group_question()], "abstention": [group_question(answer="The information is not available.")]}


def test_messages_go_by_the_number_in_their_id(tmp_path: Path) -> None:
    rows = [group_message(number) for number in (10, 2, 100, 1)]
    network = groupmem.load(written(tmp_path, {"general": rows}, QUESTIONS))[0]
    assert [message.id for message in network.messages()] == ["Msg_1", "Msg_2", "Msg_10", "Msg_100"]


def test_a_channel_is_a_session_and_windows_never_cross_it(tmp_path: Path) -> None:
    channels = {"a": [group_message(n) for n in range(1, 52)], "b": [group_message(n) for n in range(100, 130)], "empty": []}
    network = groupmem.load(written(tmp_path, channels, QUESTIONS))[0]
    assert [(session.id, session.channel, len(session.messages)) for session in network.sessions] == [
        ("a", "a", 51),
        ("b", "b", 30),
    ]
    made = segments(network, window=25)
    assert [(one.session, len(one.messages)) for one in made] == [("a", 25), ("a", 26), ("b", 25), ("b", 5)]
    assert [record.turn for one in made[2:] for record in one.verbatim] == list(range(30))


def test_the_asker_is_everywhere_even_one_who_never_writes(tmp_path: Path) -> None:
    questions = {"user_implicit": [group_question("7", "User_9"), group_question("8", "User_1")]}
    network = groupmem.load(written(tmp_path, {"a": [group_message(1)]}, questions))[0]
    assert [question.asker for question in network.questions] == ["User_9", "User_1"]
    assert network.roster.names == ("User_1", "User_9")


def test_ids_that_repeat_across_domains_and_types_stay_apart(tmp_path: Path) -> None:
    for domain in ("Technology", "Finance"):
        written(tmp_path, {"a": [group_message(1)]}, QUESTIONS, domain)
    networks = groupmem.load(tmp_path)
    assert [network.id for network in networks] == ["Finance", "Technology"]
    assert [question.id for question in networks[0].questions] == ["multi_hop/1", "abstention/1"]


def test_only_the_abstention_type_abstains(tmp_path: Path) -> None:
    network = groupmem.load(written(tmp_path, {"a": [group_message(1)]}, QUESTIONS))[0]
    assert [(question.kind, question.abstain) for question in network.questions] == [("multi_hop", False), ("abstention", True)]


def test_phases_topics_and_decisions_reach_nobody(tmp_path: Path) -> None:
    network = groupmem.load(written(tmp_path, {"a": [group_message(1), group_message(2)]}, QUESTIONS))[0]
    assert "SECRET" not in repr(network)


def test_a_channel_that_is_written_twice_loses_nothing(tmp_path: Path) -> None:
    root = written(tmp_path, {}, QUESTIONS)
    one, two = (json.dumps([group_message(number)]) for number in (1, 2))
    file = "synthetic_domain_channels_rolevariants_Finance.json"
    put(root / "data" / "final" / "Finance" / file, f'{{"a": {one}, "a": {two}}}')
    assert [message.id for message in groupmem.load(root)[0].messages()] == ["Msg_1", "Msg_2"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"msg_node": "Msg_x"}, ["channel 'a', message 2", "msg_node"]),
        ({"content": 5}, ["channel 'a', message 2", "content"]),
        ({"timestamp": "yesterday"}, ["channel 'a', message 2", "timestamp"]),
        ({"author": " "}, ["channel 'a', message 2", "author"]),
        ({"decision_change_metadata": [1]}, ["message 2", "decision_change_metadata"]),
        ({"reply_to": 3}, ["message 2", "reply_to"]),
    ],
)
def test_a_misfit_names_channel_row_and_field(tmp_path: Path, change: dict[str, object], words: list[str]) -> None:
    channels = {"a": [group_message(1), group_message(2, **change)]}
    with pytest.raises(DataError) as caught:
        groupmem.load(written(tmp_path, channels, QUESTIONS))
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("change", [{"asking_user_id": ""}, {"asking_user_id": None}, {"answer": True}, {"question": None}])
def test_a_question_that_does_not_fit_names_file_and_line(tmp_path: Path, change: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"temporal\.jsonl, line 2: field"):
        groupmem.load(
            written(tmp_path, {"a": [group_message(1)]}, {"temporal": [group_question(), group_question("2", **change)]})
        )


def test_conversations_without_questions_are_an_error_that_says_where_they_belong(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="questions/Finance"):
        groupmem.load(written(tmp_path, {"a": [group_message(1)]}, {}))


def test_one_domains_file_finds_its_questions(tmp_path: Path) -> None:
    root = written(tmp_path, {"a": [group_message(1)]}, QUESTIONS)
    file = next(root.rglob("synthetic_*.json"))
    assert groupmem.load(file) == groupmem.load(root)
