from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.memory.actions import Invalid
from data.memory.executor import Fate, execute
from data.memory.records import Layer, Record, UType
from data.memory.state import State
from data.segments import Segment, segments
from tests.data.builders import ROSTER, add, network, segment, support, update


def run(state: State, *attempts: object, at: Segment | None = None) -> list[tuple[Fate, Invalid | None, str | None]]:
    report = execute(state, attempts, at or segment(), support)
    return [(one.fate, one.rejection and one.rejection.reason, one.entry_id) for one in report.outcomes]  # type: ignore[misc]


def test_a_contradiction_makes_a_new_head_and_keeps_the_old_node() -> None:
    state = State()
    run(state, add("The battery is at 38 %."))
    run(state, update("d1", "The battery is at 97 %."))
    assert [record.content for record in state.heads()] == ["The battery is at 97 %."]
    assert [record.content for record in state.chain("d1")] == ["The battery is at 38 %.", "The battery is at 97 %."]
    assert state.chain("d1") == state.chain("d2")
    assert [(old.entry_id, new.entry_id) for old, new in state.edges()] == [("d1", "d2")]


def test_an_update_inherits_coordinates_and_grows_in_confidence_up_to_one() -> None:
    state = State()
    run(state, add("v0", "Ben", "Ann", "per_speaker_profile", "stance"))
    for n in range(1, 6):
        run(state, update(f"d{n}", f"v{n}"))
    for record in state:
        assert (record.owner, record.source, record.layer, record.utype) == ("Ben", "Ann", Layer.PROFILE, UType.STANCE)
    assert [record.confidence for record in state] == [0.7, 0.8, 0.9, 1.0, 1.0, 1.0]
    assert [record.links for record in state][:3] == [(), ("d1",), ("d2",)]
    assert [record.superseded_by for record in state][-2:] == ["d6", None]


def test_a_fact_added_twice_in_two_outputs_stays_twice_and_deletes_nothing() -> None:
    state = State()
    assert run(state, add("tea")) + run(state, add("Tea ")) == [(Fate.APPLIED, None, "d1"), (Fate.APPLIED, None, "d2")]
    assert len(state.heads()) == 2


def test_the_same_add_in_one_output_is_written_once() -> None:
    state = State()
    assert run(state, add("tea"), add(" TEA", utype="stance"), add("tea", owner="Ben")) == [
        (Fate.APPLIED, None, "d1"),
        (Fate.REJECTED, Invalid.DUPLICATE_ADD, None),
        (Fate.APPLIED, None, "d2"),
    ]


def test_an_unknown_id_is_rejected_with_the_id_and_the_reason() -> None:
    state = State()
    run(state, add("tea"))
    report = execute(state, [update("d7", "coffee"), update("v1", "coffee"), update("1", "coffee")], segment(), support)
    assert [one.rejection and one.rejection.reason for one in report.outcomes] == [Invalid.UNKNOWN_ENTRY] * 3
    assert report.outcomes[0].rejection and "'d7'" in report.outcomes[0].rejection.detail
    assert report.valid == 0 and len(state) == 1


def test_chains_never_fork() -> None:
    state = State()
    run(state, add("a"))
    assert run(state, update("d1", "b"), update("d1", "c")) == [
        (Fate.APPLIED, None, "d2"),
        (Fate.REJECTED, Invalid.NOT_A_HEAD, None),
    ]
    assert run(state, update("d1", "d"))[0][1] is Invalid.NOT_A_HEAD


def test_an_update_that_changes_nothing_is_not_written() -> None:
    state = State()
    run(state, add("Likes tea"))
    assert run(state, update("d1", " likes  TEA")) == [(Fate.REJECTED, Invalid.UNCHANGED, None)]
    assert len(state) == 1


def test_an_output_may_update_what_it_has_just_added() -> None:
    state = State()
    assert run(state, add("a"), update("d1", "b")) == [(Fate.APPLIED, None, "d1"), (Fate.APPLIED, None, "d2")]


def test_an_invalid_update_with_complete_coordinates_becomes_an_add_and_stays_invalid() -> None:
    state = State()
    whole = add("x") | {"action": "UPDATE"}
    assert run(state, whole | {"entry_id": "d9"}, whole | {"content": "y"}) == [
        (Fate.APPLIED_AS_ADD, Invalid.EXTRA_KEY, "d1"),
        (Fate.APPLIED_AS_ADD, Invalid.MISSING_KEY, "d2"),
    ]
    assert not any(record.links for record in state)


@pytest.mark.parametrize(
    "broken",
    [
        {"owner": "Dora"},
        {"layer": "group_insight"},
        {"content": " "},
        {"utype": None},
        {"confidence": "1"},
    ],
)
def test_an_invalid_update_without_valid_coordinates_is_rejected(broken: dict[str, Any]) -> None:
    state = State()
    assert run(state, add("x") | {"action": "UPDATE", "entry_id": "d9"} | broken)[0][0] is Fate.REJECTED
    assert len(state) == 0


def test_a_rescued_update_is_not_written_beside_the_same_add() -> None:
    state = State()
    rescued = add("x") | {"action": "UPDATE", "entry_id": "d9"}
    assert [fate for fate, _, _ in run(state, add("x"), rescued)] == [Fate.APPLIED, Fate.REJECTED]
    assert run(State(), rescued, add("x"))[1] == (Fate.REJECTED, Invalid.DUPLICATE_ADD, None)


def test_noop_is_valid_alone_only_and_the_others_apply() -> None:
    state = State()
    assert run(state, {"action": "NOOP"}) == [(Fate.APPLIED, None, None)]
    assert run(state, {"action": "NOOP"}, add("x"))[0] == (Fate.REJECTED, Invalid.NOOP_NOT_ALONE, None)
    assert [record.content for record in state] == ["x"]
    assert [why for _, why, _ in run(state, {"action": "NOOP"}, {"action": "NOOP"})] == [Invalid.NOOP_NOT_ALONE] * 2


def test_over_budget_is_said_and_all_valid_actions_apply() -> None:
    state = State()
    assert not execute(state, [add(f"x{n}") for n in range(8)], segment(), support).over_budget
    assert execute(state, [add(f"y{n}") for n in range(9)], segment(), support).over_budget
    assert len(state) == 17
    assert execute(state, [7] * 9, segment(), support).over_budget  # invalid ones count too


def test_an_output_without_actions_changes_nothing_and_asks_for_no_provenance() -> None:
    def never(contents: Sequence[str], at: Segment) -> Sequence[tuple[str, ...]]:
        raise AssertionError("no content to support")

    for attempts in ([], [{"action": "NOOP"}], [None]):
        assert len(execute(State(), attempts, segment(), never).outcomes) == len(attempts)


def test_provenance_is_asked_once_for_the_written_contents_in_order() -> None:
    asked: list[list[str]] = []

    def watch(contents: Sequence[str], at: Segment) -> list[tuple[str, ...]]:
        asked.append(list(contents))
        return [(at.verbatim[n % 3].entry_id,) for n in range(len(contents))]

    state = State()
    execute(state, [add("a"), 7, add("a"), update("d1", "b"), update("d1", "c"), add("d")], segment(), watch)
    assert asked == [["a", "b", "d"]]
    assert [(record.content, record.from_ids) for record in state] == [("a", ("v1",)), ("b", ("v2",)), ("d", ("v3",))]


def test_a_record_has_the_time_of_its_latest_support() -> None:
    at = segments(network(2, 4))[1]
    state = State()
    execute(state, [add("x")], at, lambda contents, where: [("v5", "v4")])
    record = next(iter(state))
    assert (record.turn, record.ts, record.turn_created, record.session) == (2, "2025-01-01T10:02:00", 6, "s2")
    assert record.from_ids == ("v5", "v4")


def test_bens_message_makes_no_record_of_anns() -> None:
    state = State()
    run(state, add("Ben likes JavaScript", "Ben", "Ben"))
    assert [record.owner for record in state] == ["Ben"]


OWNERS = [*ROSTER.names, "GROUP", "Dora"]
ATTEMPTS = st.one_of(
    st.builds(add, st.sampled_from("abc"), st.sampled_from(OWNERS), st.sampled_from(OWNERS), st.sampled_from([*Layer])),
    st.builds(update, st.integers(0, 12).map("d{}".format), st.sampled_from("abcde")),
    st.builds(
        lambda one, entry: one | {"action": "UPDATE", "entry_id": entry}, st.just(add("r")), st.sampled_from(["d1", "d99"])
    ),
    st.just({"action": "NOOP"}),
    st.sampled_from([None, 7, "ADD", {}, {"action": "ADD"}]),
)
OUTPUTS = st.lists(st.lists(ATTEMPTS, max_size=6), min_size=1, max_size=5)


@given(OUTPUTS)
def test_invariants_of_memory_hold_whatever_is_written(outputs: list[list[Any]]) -> None:
    parts = segments(network(*[3] * len(outputs)))
    state = State()
    for attempts, part in zip(outputs, parts, strict=True):
        before, kept = list(state), state.clone()
        report = execute(state, attempts, part, support)
        inside = {record.entry_id for record in part.verbatim}
        assert kept == State(before)  # a clone lives on its own
        after = list(state)
        assert [_unlinked(record) for record in after[: len(before)]] == [_unlinked(record) for record in before]
        assert [record.entry_id for record in after] == [f"d{n}" for n in range(1, len(after) + 1)]
        written = [one.entry_id for one in report.outcomes if one.entry_id is not None]
        assert written == [record.entry_id for record in after[len(before) :]]
        assert all(record.from_ids and inside.issuperset(record.from_ids) for record in after[len(before) :])
        assert len(report.outcomes) == len(attempts)
        assert all((one.fate is Fate.APPLIED) == one.valid for one in report.outcomes)
    chains = {tuple(node.entry_id for node in state.chain(record.entry_id)) for record in state}
    assert sorted(node for chain in chains for node in chain) == sorted(record.entry_id for record in state)  # a partition
    for chain in chains:
        nodes = state.chain(chain[0])
        assert [node.head for node in nodes] == [False] * (len(nodes) - 1) + [True]
        assert len({(node.owner, node.source, node.layer, node.utype) for node in nodes}) == 1
    assert len(state.edges()) == len(state) - len(chains)


@given(OUTPUTS)
def test_the_same_outputs_give_the_same_bytes(outputs: list[list[Any]]) -> None:
    def once() -> str:
        state = State()
        for attempts, part in zip(outputs, segments(network(*[3] * len(outputs))), strict=True):
            execute(state, attempts, part, support)
        return repr(list(state))

    assert once() == once()


def _unlinked(record: Record) -> str:
    """The record but for `superseded_by`, the one thing that may be written later."""
    return repr(record).replace(f"superseded_by={record.superseded_by!r}", "")
