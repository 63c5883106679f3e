"""Where sessions begin, and in which order channels are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.importers.chat import ChatBuilder, finish
from data.importers.imported import Imported, Quarantined
from data.network import Message, Network

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


def chat(*hours: float | None, channel: str = "", builder: ChatBuilder | None = None) -> ChatBuilder:
    """Messages at these hours after noon of the first day, None: without a time."""
    made = builder or ChatBuilder("n", "here")
    made.member("u", "Ann")
    for hour in hours:
        at = START + timedelta(hours=hour) if hour is not None else None
        made.add(Message(f"{channel}{len(made)}", "u", str(hour), "", at), channel, at.date() if at else None)
    return made


def lengths(network: Network) -> list[int]:
    return [len(session.messages) for session in network.sessions]


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ((0, 1, 2), [3]),
        ((0, 5.99, 6.5), [3]),
        ((0, 1, 7, 8), [2, 2]),
        ((10, 11, 13, 14), [2, 2]),
        ((10, 11, 13), [3]),
        ((11, 13, 14), [3]),
        ((11, 20, 21), [1, 2]),
        ((0, 1, 30), [2, 1]),
        ((10, 11, 13, 35, 36), [3, 2]),
        ((None, None, None), [3]),
        ((0, None, 30), [3]),
        ((2, 1, 3), [3]),
    ],
)
def test_six_silent_hours_or_a_new_day_end_a_session(hours: tuple[float | None, ...], expected: list[int]) -> None:
    assert lengths(chat(*hours).network()) == expected


def test_steps_back_in_time_keep_the_sources_order_and_are_counted() -> None:
    made = finish([chat(2, 1, 3)], [], 3)
    assert [message.text for message in made.networks[0].messages()] == ["2", "1", "3"]
    assert any(note.startswith("1 messages are earlier") for note in made.notes)


def test_channels_are_merged_by_time_but_never_reordered_inside() -> None:
    builder = chat(0, 30, 31, 8, 9, channel="a")
    chat(1, 26, channel="b", builder=builder)
    order = [session.id for session in builder.network().sessions]
    assert order == ["a/s001", "b/s001", "b/s002", "a/s002", "a/s003"]


@given(st.lists(st.none() | st.floats(-50, 50), min_size=1, max_size=30))
def test_cutting_neither_loses_nor_reorders(hours: list[float | None]) -> None:
    made = chat(*hours).network()
    assert [message.text for message in made.messages()] == [str(hour) for hour in hours]


def test_an_importer_that_loses_an_entry_is_found_out() -> None:
    with pytest.raises(RuntimeError, match="lost entries: 1 messages and 1 quarantined of 3"):
        Imported((chat(0).network(),), (Quarantined(1, "x"),), 3)
