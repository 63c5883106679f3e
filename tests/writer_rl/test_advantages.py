from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.engines.base import RequestKey
from writer_rl.advantages import GroupError, PositionKey, advantages


def group(rewards: list[float], t: int = 0, network: str = "n", visit: int = 0, round: int = 0) -> dict[RequestKey, float]:
    return {RequestKey(round, network, visit, g, t): reward for g, reward in enumerate(rewards)}


def values(rewards: list[float]) -> list[float]:
    """The advantages in the order of g; NaN where a sample is left out."""
    found = advantages(group(rewards), len(rewards)).values
    return [found.get(key, math.nan) for key in group(rewards)]


@pytest.mark.parametrize(
    ("rewards", "sigma", "expected"),
    [
        ([1, 0, 0, 1], 0.5, [1, -1, -1, 1]),
        ([1, *[0] * 7], 0.3307189, [2.6457513, *[-0.3779645] * 7]),
        ([1, *[0] * 16], 0.2352941, [3, *[-0.25] * 16]),
    ],
)
def test_sigma_is_the_population_one_and_nothing_is_added_to_it(rewards, sigma, expected):
    found = advantages(group(rewards), len(rewards))
    assert found.sigma[PositionKey(0, "n", 0, 0)] == pytest.approx(sigma, abs=1e-6)
    assert values(rewards) == pytest.approx(expected, abs=1e-6)


def test_a_large_outlier_is_clipped_to_three():
    assert values([1, *[0] * 16])[0] == 3.0 < 4.0  # unclipped: 4


def test_a_position_below_the_sigma_threshold_is_dropped_and_one_just_above_is_kept():
    flat = advantages(group([0.5] * 7 + [0.55]), 8)
    assert flat.sigma[PositionKey(0, "n", 0, 0)] == pytest.approx(0.0165359, abs=1e-6)
    assert flat.dropped == (PositionKey(0, "n", 0, 0),) and not flat.values and flat.frac_positions_dropped == 1.0
    kept = advantages(group([0.5] * 7 + [0.561]), 8)
    assert kept.sigma[PositionKey(0, "n", 0, 0)] == pytest.approx(0.0201739, abs=1e-6)
    assert not kept.dropped and len(kept.values) == 8


def test_a_sample_at_the_mean_is_left_out():
    found = values([0.0, 1.0, 0.5, 0.5])
    assert [math.isnan(value) for value in found] == [False, False, True, True]


def test_two_positions_with_the_same_rewards_are_two_groups():
    """A trainer that groups by prompt or by row order gave raw rewards here."""
    returns = group([1, 0, 1, 0], t=0) | group([1, 0, 1, 0], t=1)
    rows = list(returns.items())
    random.Random(1).shuffle(rows)
    found = advantages(dict(rows), 4).values
    assert found == {key: 1.0 if reward else -1.0 for key, reward in returns.items()}


@pytest.mark.parametrize("other", [{"t": 1}, {"network": "m"}, {"visit": 1}, {"round": 1}])
def test_each_part_of_the_key_separates_groups(other):
    returns = group([1, 0]) | group([5, 3], **other)
    assert sorted(advantages(returns, 2).values.values()) == [-1, -1, 1, 1]


@pytest.mark.parametrize("rewards", [[1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0, 1.0]])
def test_a_group_of_another_size_is_an_error_that_names_the_position(rewards):
    with pytest.raises(GroupError, match=r"network 'n', visit 0, position 7.*0\.\.3"):
        advantages(group(rewards, t=7), 4)


def test_a_group_whose_trajectories_are_not_the_sampled_ones_is_an_error():
    returns = group([1, 0, 1, 0])
    returns[RequestKey(0, "n", 0, 9, 0)] = returns.pop(RequestKey(0, "n", 0, 3, 0))
    with pytest.raises(GroupError):
        advantages(returns, 4)


def test_groups_of_one_are_refused():
    with pytest.raises(GroupError):
        advantages(group([1.0]), 1)


def test_a_return_that_is_not_finite_is_an_error():
    with pytest.raises(GroupError, match="not finite"):
        advantages(group([1, 0, math.nan, 0]), 4)


@given(st.lists(st.floats(-5, 5), min_size=8, max_size=8), st.randoms(use_true_random=False))
def test_permuting_the_trajectories_permutes_the_advantages_exactly(rewards, draw):
    order = list(range(8))
    draw.shuffle(order)
    straight = values(rewards)
    permuted = values([rewards[i] for i in order])
    assert permuted == pytest.approx([straight[i] for i in order], abs=0, nan_ok=True)
