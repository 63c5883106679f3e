from __future__ import annotations

import pytest

from rewards.returns import discounts, qa_terms, returns
from rewards.weights import RewardWeights


def test_discounts_of_five_positions():
    assert discounts(5) == pytest.approx((0.81450625, 0.857375, 0.9025, 0.95, 1.0), abs=1e-15)


def test_the_last_position_takes_the_whole_gain():
    assert qa_terms(1, 0.5, RewardWeights()) == (0.35 * 0.5,)


def test_the_return_is_the_weighted_sum_of_its_parts_and_is_not_clipped():
    found = returns([1.0, 0.5], [0.6, 0.2], [0.0, -0.35], -0.75)
    assert found == pytest.approx((0.20 + 0.27 - 0.35 * 0.95 * 0.75, 0.10 + 0.09 - 0.35 - 0.2625), abs=1e-15)
    assert found[1] < 0.0


def test_a_missing_gain_leaves_only_the_local_parts():
    assert returns([1.0], [1.0], [0.0], None) == returns([1.0], [1.0], [0.0], 0.0) == (0.65,)


def test_parts_of_unequal_length_are_an_error():
    with pytest.raises(ValueError):
        returns([1.0, 1.0], [1.0], [0.0], None)
