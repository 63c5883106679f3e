from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.memory.records import CONFIDENCE_VERBATIM, Layer, UType
from data.network import DataError, Message, Network, Session
from data.segments import segments
from tests.data.builders import ROSTER, network


def test_without_a_window_a_session_is_a_segment() -> None:
    parts = segments(network(3, 1, 5))
    assert [(part.t, part.session, len(part.messages)) for part in parts] == [(0, "s1", 3), (1, "s2", 1), (2, "s3", 5)]


def test_windows_never_glue_sessions_and_the_last_one_is_kept() -> None:
    parts = segments(network(5, 3), window=3)
    assert [(part.session, [message.id for message in part.messages]) for part in parts] == [
        ("s1", ["s1m0", "s1m1", "s1m2"]),
        ("s1", ["s1m3", "s1m4"]),
        ("s2", ["s2m0", "s2m1", "s2m2"]),
    ]


def test_a_last_message_alone_joins_the_window_before() -> None:
    assert [len(part.messages) for part in segments(network(7, 1), window=3)] == [3, 4, 1]


@given(st.lists(st.integers(1, 9), max_size=4), st.none() | st.integers(2, 5))
def test_segments_hold_every_message_once_in_order(counts: list[int], window: int | None) -> None:
    made = network(*counts)
    parts = segments(made, window)
    assert [message for part in parts for message in part.messages] == list(made.messages())
    assert [record.entry_id for part in parts for record in part.verbatim] == [f"v{n + 1}" for n in range(sum(counts))]
    assert [part.t for part in parts] == list(range(len(parts)))
    sizes = {item.id: len(item.messages) for item in made.sessions}
    for part in parts:
        assert all(message.id.startswith(part.session) for message in part.messages)
        assert len(part.messages) > 1 or sizes[part.session] == 1
        assert window is None or len(part.messages) <= window + 1
        assert [record.content for record in part.verbatim] == [message.text for message in part.messages]


@pytest.mark.parametrize("window", [1, 0, -3])
def test_a_window_below_two_is_an_error(window: int) -> None:
    with pytest.raises(DataError, match=f"window is {window}"):
        segments(network(3), window)


def test_a_verbatim_record_says_who_said_what_where_and_when() -> None:
    record = segments(network(3, 3))[1].verbatim[1]
    assert (record.entry_id, record.content, record.owner, record.source) == ("v5", "hello 1", "Ben", "Ben")
    assert (record.layer, record.utype, record.confidence) == (Layer.EPISODIC, UType.UTTERANCE, CONFIDENCE_VERBATIM)
    assert (record.session, record.turn, record.turn_created, record.ts) == ("s2", 1, 5, "2025-01-01T10:01:00")
    assert record.verbatim and record.head


def test_turns_count_on_over_the_windows_of_a_session() -> None:
    assert [record.turn for part in segments(network(5), window=3) for record in part.verbatim] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("texts", "budget"), [(["a"], 8), (["a"] * 4, 8), (["a"] * 5, 10), (["a"] * 5 + [" \n", ""], 10)])
def test_the_budget_is_two_actions_a_message_that_says_something_and_eight_at_least(texts: list[str], budget: int) -> None:
    messages = tuple(Message(str(i), "u1", text) for i, text in enumerate(texts))
    assert segments(Network("n", ROSTER, (Session("s", messages),)))[0].budget == budget
