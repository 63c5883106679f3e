from __future__ import annotations

from dataclasses import replace

import pytest

from data.memory.state import State
from data.segments import segments
from tests.data.builders import network

RECORDS = [replace(record, entry_id=f"d{n}") for n, record in enumerate(segments(network(4))[0].verbatim, 1)]


def test_a_clone_changes_independently_both_ways() -> None:
    state = State(RECORDS[:2])
    other = state.clone()
    assert other == state
    other.append(replace(RECORDS[2], links=("d1",)))
    assert [record.head for record in state] == [True, True] and [record.head for record in other] == [False, True, True]
    state.append(RECORDS[2])
    assert other.get("d3") != state.get("d3")


def test_ids_are_counters_and_never_used_again() -> None:
    state = State(RECORDS[:2])
    assert state.next_id() == "d3"
    with pytest.raises(ValueError, match="d2 exists already"):
        state.append(RECORDS[1])


def test_a_superseded_record_takes_no_second_successor() -> None:
    state = State(RECORDS[:1])
    state.append(replace(RECORDS[1], links=("d1",)))
    with pytest.raises(ValueError, match="d1 is superseded by d2"):
        state.append(replace(RECORDS[2], links=("d1",)))
    assert "d3" not in state


def test_lookups() -> None:
    state = State(RECORDS[:3])
    state.append(replace(RECORDS[3], links=("d2",)))
    assert len(state) == 4 and "d4" in state and "d9" not in state
    assert state.get("d9") is None
    assert [record.entry_id for record in state] == ["d1", "d2", "d3", "d4"]
    assert [record.entry_id for record in state.heads()] == ["d1", "d3", "d4"]
    assert [record.entry_id for record in state.chain("d4")] == ["d2", "d4"]
    with pytest.raises(KeyError):
        state.chain("d9")


def test_states_are_equal_by_records_and_order() -> None:
    assert State(RECORDS) == State(RECORDS) != State(RECORDS[::-1])
    assert State() != RECORDS
