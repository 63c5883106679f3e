from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.memory.actions import Add, Invalid, JsonObject, Noop, Rejection, Update, read_action, render, to_json
from data.memory.records import DERIVED_LAYERS, DERIVED_UTYPES, Layer, UType
from data.network import Member, Roster
from tests.data.builders import ROSTER, add, update


def reason(attempt: object, roster: Roster = ROSTER) -> Invalid | None:
    read = read_action(attempt, roster)
    return read.reason if isinstance(read, Rejection) else None


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        ("ADD", Invalid.NOT_AN_OBJECT),
        (None, Invalid.NOT_AN_OBJECT),
        ([add("x")], Invalid.NOT_AN_OBJECT),
        ({}, Invalid.UNKNOWN_ACTION),
        ({"action": "add"}, Invalid.UNKNOWN_ACTION),
        ({"action": ["ADD"]}, Invalid.UNKNOWN_ACTION),
        ({"action": "DELETE", "entry_id": "d1"}, Invalid.UNKNOWN_ACTION),
        ({"action": "UPDATE", "content": "x"}, Invalid.MISSING_KEY),
        ({key: value for key, value in add("x").items() if key != "utype"}, Invalid.MISSING_KEY),
        (add("x") | {"confidence": "1"}, Invalid.EXTRA_KEY),
        (update("d1", "x") | {"owner": "Ann"}, Invalid.EXTRA_KEY),
        ({"action": "NOOP", "content": "x"}, Invalid.EXTRA_KEY),
        (add("x") | {"content": 7}, Invalid.WRONG_TYPE),
        (update("d1", "x") | {"entry_id": None}, Invalid.WRONG_TYPE),
        (add("half \ud83d a pair"), Invalid.WRONG_TYPE),
        (add(" \n"), Invalid.EMPTY_CONTENT),
        (update("d1", ""), Invalid.EMPTY_CONTENT),
        (add("x", layer="per_speaker_episodic"), Invalid.BAD_LAYER),
        (add("x", layer="core"), Invalid.BAD_LAYER),
        (add("x", utype="utterance"), Invalid.BAD_UTYPE),
        (add("x", utype="FACT"), Invalid.BAD_UTYPE),
        (add("x", owner="GROUP"), Invalid.SCOPE),
        (add("x", layer="group_insight"), Invalid.SCOPE),
        (add("x", owner="Dora"), Invalid.UNKNOWN_OWNER),
        (add("x", source="Dora"), Invalid.UNKNOWN_SOURCE),
        (add("x", source="GROUP"), Invalid.UNKNOWN_SOURCE),
        (add("x", owner="GROUP", source="Dora", layer="group_insight"), Invalid.UNKNOWN_SOURCE),
    ],
)
def test_what_is_no_action_is_rejected_with_its_reason(attempt: object, expected: Invalid) -> None:
    assert reason(attempt) is expected


def test_an_ambiguous_owner_or_source_is_rejected_as_such() -> None:
    roster = Roster((Member("1", "Ben"), Member("2", "Ben"), Member("3", "Ann")))
    assert reason(add("x", owner="Ben"), roster) is Invalid.AMBIGUOUS_OWNER
    assert reason(add("x", source="ben"), roster) is Invalid.AMBIGUOUS_SOURCE
    assert reason(add("x", owner="Ben (1)", source="2"), roster) is None


@pytest.mark.parametrize("owner", [*ROSTER.names, "GROUP"])
@pytest.mark.parametrize("source", [*ROSTER.names, "GROUP"])
@pytest.mark.parametrize("layer", DERIVED_LAYERS)
def test_any_source_may_speak_of_any_owner_but_only_the_group_owns_group_layers(owner: str, source: str, layer: Layer) -> None:
    valid = layer.group == (owner == "GROUP") and (layer.group or source != "GROUP")
    assert (reason(add("x", owner, source, layer.value)) is None) == valid


def test_the_last_of_the_layers_and_kinds_of_statement_is_never_verbatim() -> None:
    assert Layer.EPISODIC not in DERIVED_LAYERS and len(DERIVED_LAYERS) == 4
    assert UType.UTTERANCE not in DERIVED_UTYPES and len(DERIVED_UTYPES) == 5


def test_names_come_out_in_the_rosters_spelling_and_content_as_it_was() -> None:
    read = read_action(add(" Likes  Tea ", owner="cle\u0301o", source="u2"), ROSTER)
    assert read == Add(" Likes  Tea ", "Cléo", "Ben", Layer.CORE, UType.FACT)
    assert read_action(add("x", "group", "Group ", "group_insight"), ROSTER) == Add(
        "x", "GROUP", "GROUP", Layer.INSIGHT, UType.FACT
    )


def test_a_key_written_twice_is_seen_and_rejected() -> None:
    text = '{"action":"UPDATE","entry_id":"d1","content":"a","content":"b"}'
    read = read_action(json.loads(text, object_pairs_hook=JsonObject.from_pairs), ROSTER)
    assert isinstance(read, Rejection) and read.reason is Invalid.REPEATED_KEY and "'content'" in read.detail


def test_keys_are_read_in_any_order_and_written_in_one() -> None:
    read = read_action(dict(reversed(add("x").items())), ROSTER)
    assert isinstance(read, Add)
    assert list(to_json(read)) == ["action", "content", "owner", "source", "layer", "utype"]
    assert list(to_json(Update("d1", "x"))) == ["action", "entry_id", "content"]


@pytest.mark.parametrize("content", ["你好 👋 Fauré", "日本語", 'say "hi" {now}\n', "a\u200db"])
def test_a_target_has_no_escaped_letters_and_reads_back(content: str) -> None:
    text = render([Add(content, "Cléo", "Ann", Layer.CORE, UType.FACT), Update("d1", content)])
    assert "\\u" not in text
    assert [read_action(one, ROSTER) for one in json.loads(text)["actions"]] == [
        Add(content, "Cléo", "Ann", Layer.CORE, UType.FACT),
        Update("d1", content),
    ]
    assert render([Noop()]) == '{"actions": [{"action": "NOOP"}]}'


def test_the_key_of_an_action_is_its_coordinates_and_folded_content() -> None:
    one, same = (Add(text, "Ann", "Ben", Layer.CORE, UType.FACT) for text in ("Likes  tea", " likes TEA"))
    assert one.key == same.key == Add("likes tea", "Ann", "Ben", Layer.CORE, UType.STANCE).key
    for other in (("Ben", "Ben", Layer.CORE), ("Ann", "Ann", Layer.CORE), ("Ann", "Ben", Layer.PROFILE)):
        assert Add("likes tea", *other, UType.FACT).key != one.key
    assert Update("d1", "A").key == Update("d1", "a ").key != Update("d2", "a").key


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from(["ADD", "UPDATE", "NOOP", None]), st.sampled_from(list(add("x"))))
def test_whatever_json_holds_is_read_as_an_action_or_a_reason(value: Any, kind: str | None, key: str) -> None:
    for attempt in (value, add("x") | {key: value}, {"action": kind, "entry_id": value, "content": value}):
        read = read_action(attempt, ROSTER)
        if isinstance(read, Rejection):
            read.detail.encode()  # can be written to a trace
        else:
            assert read_action(to_json(read), ROSTER) == read
