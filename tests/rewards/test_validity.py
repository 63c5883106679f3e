from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.memory.executor import Report
from data.memory.state import State
from rewards.validity import Validity, action_keys, validity
from tests.rewards.builders import NOOP, add, record, run, update

NOTHING = Validity(0.0, 0.0, 0.0, 0.0, 0.0, 0)


def judge(attempts: list[object], pre_state: State | None = None, json_valid: bool = True, cut_off: bool = False) -> Validity:
    report, before, _ = run(attempts, pre_state)
    return validity(json_valid, report, before, attempts, cut_off)


def one_head(content: str = "the locker is red") -> State:
    return State([record(content)])


def chain_of_two() -> State:
    state = one_head()
    state.append(record("the locker is blue", entry_id="d2", links=("d1",)))
    return state


def test_a_clean_output_has_every_part():
    result = judge([add("a"), add("b")])
    assert (result.json, result.schema, result.dup, result.stop, result.n) == (1.0, 1.0, 1.0, 1.0, 2)
    assert result.total == pytest.approx(1.0)


def test_an_empty_list_of_actions_is_valid_json_worth_nothing():
    assert judge([]) == NOTHING


def test_invalid_json_without_actions_is_worth_nothing():
    assert judge([], json_valid=False) == NOTHING


def test_salvaged_actions_of_invalid_json_have_only_the_duplicate_part():
    result = judge([add("a"), add("b")], json_valid=False)
    assert (result.json, result.schema, result.dup, result.stop) == (0.0, 0.0, 1.0, 0.0)
    assert result.total == 0.25


def test_the_parts_are_weighted_25_35_25_15():
    result = judge([add("a"), add("b", layer="nonsense"), add("c", owner="Zoe"), add("a")])
    assert (result.schema, result.dup, result.stop) == (0.25, 0.75, 0.0)
    assert result.total == pytest.approx(0.25 + 0.35 * 0.25 + 0.25 * 0.75)
    assert judge([NOOP], cut_off=True).total == pytest.approx(0.85)


def test_schema_is_the_executors_verdict():
    assert judge([add("a"), update("d9", "b")]).schema == 0.5
    assert judge([NOOP, add("a")]).schema == 0.5
    assert judge([update("d1", "THE  locker is red")], one_head()).schema == 0.0


@pytest.mark.parametrize(
    "copy",
    [
        add("ANA\u2009has   a  Caf\u00e9"),
        add("ana has a cafe\u0301", owner="ana ", source="BOB"),
        add("Ana has a caf\u00e9", utype="stance"),
        add("Ana has a caf\u00e9", owner="u1", source="u2"),
    ],
)
def test_an_add_is_the_same_under_nfc_casefold_folded_spaces_and_canonical_names(copy: dict[str, str]):
    assert judge([add("Ana has a caf\u00e9"), copy]).dup == 0.5


@pytest.mark.parametrize(
    "other",
    [add("a", owner="Bob"), add("a", source="Ana"), add("a", layer="per_speaker_profile"), add("b"), update("d1", "a"), NOOP],
)
def test_another_coordinate_content_or_action_is_another_key(other: dict[str, str]):
    assert judge([add("a"), other]).dup == 1.0


def test_updates_are_the_same_by_entry_and_content_and_noops_always():
    keys = judge([update("d1", "x"), update("d1", " X "), update("d2", "x"), NOOP, NOOP])
    assert keys.dup == 3 / 5


def test_unreadable_copies_are_duplicates_too():
    broken = add("a", layer="nonsense")
    assert judge([broken, dict(broken), 7, 7, "7", {"action": "ADD"}, {"action": "ADD"}]).dup == 4 / 7


def test_an_unreadable_copy_of_a_good_add_is_a_duplicate():
    assert judge([add("a"), add("A", utype="nonsense")]).dup == 0.5


def test_values_of_a_wrong_type_do_not_collide_with_the_text_that_prints_them():
    assert judge([{"action": "UPDATE", "entry_id": 1, "content": "a"}, update("1", "a")]).dup == 1.0


def test_attempts_nested_too_deep_are_told_apart_by_place():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    result = judge([deep, deep])
    assert (result.n, result.schema, result.dup) == (2, 0.0, 1.0)


def test_stop_wants_the_last_add_to_be_new_in_the_output():
    assert judge([add("a"), add("b"), add("A")]).stop == 0.0
    assert judge([add("a"), add("a"), add("b")]).stop == 1.0


def test_stop_wants_the_last_add_to_be_new_to_the_memory():
    assert judge([add("The locker is  RED")], one_head()).stop == 0.0
    assert judge([add("the locker is red", source="Ana")], one_head()).stop == 1.0


def test_a_superseded_record_is_still_known():
    assert judge([add("the locker is red")], chain_of_two()).stop == 0.0


def test_stop_wants_the_last_update_to_change_a_head_of_the_memory_before():
    assert judge([update("d2", "the locker is green")], chain_of_two()).stop == 1.0
    assert judge([update("d2", "The locker is BLUE")], chain_of_two()).stop == 0.0
    assert judge([update("d1", "the locker is green")], chain_of_two()).stop == 0.0
    assert judge([update("d9", "the locker is green")], chain_of_two()).stop == 0.0
    assert judge([add("a"), update("d1", "b")]).stop == 0.0  # d1 is of this output


def test_a_single_noop_is_a_good_stop_and_one_beside_others_is_not():
    assert judge([NOOP]).stop == 1.0
    assert judge([add("a"), NOOP]).stop == 0.0
    assert judge([NOOP, NOOP]).stop == 0.0
    assert judge([NOOP, add("a")]).stop == 1.0


def test_an_output_that_was_cut_off_or_is_not_strict_json_does_not_stop_well():
    assert judge([add("a")], cut_off=True).stop == 0.0
    assert judge([add("a")], json_valid=False).stop == 0.0


def test_an_action_that_cannot_be_read_is_no_good_stop():
    for broken in (add("a", owner="Zoe"), add(" "), {"action": "UPDATE", "entry_id": "d1"}, {"action": "NOOP", "why": "x"}, 3):
        assert judge([broken], one_head()).stop == 0.0


def test_a_report_of_another_output_is_an_error():
    with pytest.raises(ValueError, match="0 outcomes for 1"):
        validity(True, Report((), False), State(), [add("a")], False)


ATTEMPTS = st.lists(
    st.one_of(
        st.builds(add, st.sampled_from("abc"), st.sampled_from(["Ana", "bob", "Zoe"])),
        st.builds(update, st.sampled_from(["d1", "d2", "d9"]), st.sampled_from("abc")),
        st.just(NOOP),
        st.recursive(
            st.none() | st.text(max_size=3) | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
        ),
    ),
    max_size=12,
)


@given(ATTEMPTS, st.booleans(), st.booleans())
def test_every_part_of_any_output_lies_in_the_unit_interval(attempts: list[object], json_valid: bool, cut_off: bool):
    result = judge(attempts, chain_of_two(), json_valid, cut_off)
    assert all(0.0 <= part <= 1.0 for part in (result.json, result.schema, result.dup, result.stop, result.total))
    assert result.stop in (0.0, 1.0)
    report, _, _ = run(attempts, chain_of_two())
    assert len(action_keys(attempts, report)) == result.n == len(attempts)


def test_original_characters_make_the_key():
    assert judge(json.loads('[{"action":"NOTE","x":"\\u6211"},{"action":"NOTE","x":"我"}]')).dup == 0.5
