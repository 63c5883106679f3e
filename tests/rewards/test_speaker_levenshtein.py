from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings

from data.memory.records import Layer
from data.memory.state import State
from data.network import GROUP
from rewards.matching import Matcher
from rewards.speaker_levenshtein import phi
from tests.rewards import reference
from tests.rewards.builders import record, states


@given(states(), states())
@settings(max_examples=150)
def test_phi_equals_plain_difflib_and_scipy(predicted: State, wanted: State):
    assert phi(predicted, wanted).phi == reference.phi(predicted, wanted)


@given(states())
def test_a_state_against_itself_is_one(state: State):
    assert phi(state, state).phi == pytest.approx(1.0, abs=1e-12)


@given(states(), states())
def test_phi_lies_in_the_unit_interval_and_ignores_the_order_of_records(predicted: State, wanted: State):
    ours, theirs = list(predicted), list(wanted)
    value = phi(ours, theirs).phi
    assert 0.0 <= value <= 1.0
    random.Random(0).shuffle(ours)
    random.Random(1).shuffle(theirs)
    assert phi(ours, theirs).phi == pytest.approx(value, abs=1e-12)


def test_two_empty_states_agree_fully():
    result = phi(State(), State())
    assert (result.phi, result.owners, result.worst_owner, result.worst) == (1.0, (), None, 1.0)


def test_one_empty_state_agrees_with_nothing():
    assert phi(State(), [record("red")]).phi == 0.0
    assert phi([record("red")], State()).phi == 0.0


def test_phi_is_four_fifths_mean_and_one_fifth_worst_owner():
    wanted = [record("red locker", owner="Ana"), record("blue door", owner="Bob"), record("green tree", owner="Chen")]
    result = phi(wanted[:2], wanted)
    assert dict(result.owners) == {"Ana": 1.0, "Bob": 1.0, "Chen": 0.0}
    assert result.phi == pytest.approx(0.8 * 2 / 3)
    assert result.worst_owner == "Chen"


def test_an_owner_that_only_the_prediction_has_counts_against_it():
    wanted = [record("red locker", owner="Ana")]
    result = phi([*wanted, record("made up", owner="Bob")], wanted)
    assert dict(result.owners) == {"Ana": 1.0, "Bob": 0.0}
    assert result.phi == pytest.approx(0.4)


def test_writing_a_fact_twice_is_punished():
    one = record("red locker")
    assert phi([one, one], [one]).phi == pytest.approx(2 / 3)


@pytest.mark.parametrize("change", [{"owner": "Chen"}, {"source": "Ana"}, {"layer": Layer.PROFILE}])
def test_equal_text_with_another_coordinate_matches_nothing(change: dict[str, str]):
    one = record("red locker")
    assert phi([replace(one, **change)], [one]).phi == 0.0


def test_utype_session_and_time_are_not_gated():
    one = record("red locker")
    assert phi([replace(one, utype="stance", session="s9", ts="later", confidence=1.0)], [one]).phi == 1.0


def test_superseded_nodes_count_like_heads():
    state = State([record("red locker")])
    state.append(record("blue locker", entry_id="d2", links=("d1",)))
    assert phi(state.heads(), state).phi == pytest.approx(2 / 3)


def test_pairs_below_one_half_do_not_count():
    assert reference.kappa_bar("one two three", "one four nine") < 0.5
    assert phi([record("one two three")], [record("one four nine")]).phi == 0.0


def test_group_is_an_owner_of_its_own():
    group = record("everyone brings a dish", owner=GROUP, layer=Layer.INTERACTION)
    result = phi([group], [group, record("red locker", owner="Ana")])
    assert dict(result.owners) == {"Ana": 0.0, GROUP: 1.0}


def test_cross_person_matches_cannot_cancel_one_another():
    wanted = [record("likes tea", owner="Ana", source="Bob"), record("likes tea", owner="Bob", source="Ana")]
    swapped = [replace(one, owner=one.source, source=one.owner) for one in wanted]
    assert phi(swapped, wanted).phi == 1.0  # the same two records in another order
    assert phi([replace(one, source="Chen") for one in wanted], wanted).phi == 0.0


def test_aligned_pairs_are_given_for_display():
    wanted = [record("red locker"), record("blue door", entry_id="d2")]
    pairs = phi([record("a blue door", entry_id="p1")], wanted).pairs
    assert [(pair.predicted.entry_id, pair.reference.entry_id) for pair in pairs] == [("p1", "d2")]
    assert pairs[0].kappa == reference.kappa_bar("a blue door", "blue door")


def test_a_chinese_content_is_matched_in_its_own_characters():
    assert phi([record("她住在北京")], [record("她住在北京市")]).phi > 0.8
    assert phi([record("she lives in beijing")], [record("她住在北京市")]).phi == 0.0


@given(states(), states())
@settings(max_examples=40)
def test_a_shared_matcher_changes_nothing(predicted: State, wanted: State):
    matcher = Matcher()
    assert phi(wanted, predicted, matcher) == phi(wanted, predicted)
    assert phi(predicted, wanted, matcher) == phi(predicted, wanted)
