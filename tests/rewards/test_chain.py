from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from data.memory.records import Layer
from data.memory.state import State
from rewards.chain import chain_reward
from tests.rewards import reference
from tests.rewards.builders import record, states


def edge(old: str, new: str, **coordinates):
    return record(old, **coordinates), record(new, **coordinates)


@given(states(12), states(12))
@settings(max_examples=150)
def test_the_chain_reward_equals_plain_difflib_and_scipy(predicted: State, wanted: State):
    assert chain_reward(predicted.edges(), wanted.edges()) == reference.chain(predicted.edges(), wanted.edges())


def test_edges_on_neither_side_give_one_and_on_one_side_zero():
    one = [edge("red", "blue")]
    assert chain_reward([], []) == 1.0
    assert chain_reward(one, []) == 0.0
    assert chain_reward([], one) == 0.0


def test_equal_edges_give_one():
    edges = [edge("the locker is red", "the locker is blue"), edge("meets friday", "meets sunday", owner="Bob")]
    assert chain_reward(edges, edges[::-1]) == 1.0


def test_owner_and_layer_are_gated_and_the_source_is_not():
    ours, theirs = edge("red locker", "blue locker"), edge("red locker", "blue locker", source="Chen")
    assert chain_reward([ours], [theirs]) == 1.0
    for change in ({"owner": "Bob"}, {"layer": Layer.PROFILE}):
        other = tuple(replace(node, **change) for node in theirs)
        assert chain_reward([ours], [other]) == 0.0


def test_one_good_end_carries_a_weak_one():
    ours, theirs = edge("the locker is red", "one two three"), edge("the locker is red", "one four nine")
    weak = reference.kappa_bar("one two three", "one four nine")
    assert 0.0 < weak < 0.5
    assert chain_reward([ours], [theirs]) == 0.5 + 0.5 * weak


def test_an_edge_below_one_half_does_not_count():
    assert chain_reward([edge("the red locker", "xyz")], [edge("the red lock", "uvw")]) == 0.0


def test_swapped_ends_are_not_the_same_edge():
    assert chain_reward([edge("ann moved to oslo", "bob sells tin")], [edge("bob sells tin", "ann moved to oslo")]) == 0.0


def test_missing_and_extra_edges_are_both_punished():
    edges = [edge("red locker", "blue locker"), edge("meets friday", "meets sunday")]
    assert chain_reward(edges[:1], edges) == chain_reward(edges, edges[:1]) == pytest.approx(2 / 3)
