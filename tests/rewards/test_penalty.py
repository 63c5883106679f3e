from __future__ import annotations

import math

import pytest

from rewards.penalty import Penalty, penalty
from tests.rewards.builders import NOOP, add, run


def judge(attempts: list[object], json_valid: bool = True, cut_off: bool = False) -> Penalty:
    return penalty(json_valid, run(attempts)[0], cut_off)


def test_a_clean_output_is_not_punished():
    result = judge([add("a")])
    assert result == Penalty(0.0, False, False, False, False)
    assert math.copysign(1.0, result.total) == 1.0


def test_an_empty_list_of_actions_is_not_punished():
    assert judge([]).total == 0.0


def test_invalid_json_costs_a_quarter_and_does_not_count_as_an_invalid_action_too():
    assert judge([], json_valid=False) == Penalty(-0.25, True, False, False, False)
    assert judge([add("a", owner="Zoe")], json_valid=False) == Penalty(-0.25, True, False, False, False)


def test_invalid_actions_cost_once_however_many():
    assert judge([add("a", owner="Zoe")]).total == judge([add("a", owner="Zoe"), 7, NOOP]).total == -0.15


def test_the_ninth_action_of_a_short_segment_is_over_budget():
    assert judge([add(str(n)) for n in range(8)]).total == 0.0
    assert judge([add(str(n)) for n in range(9)]) == Penalty(-0.10, False, False, True, False)


def test_reaching_the_length_limit_costs_a_tenth_even_with_valid_json():
    assert judge([add("a")], cut_off=True) == Penalty(-0.10, False, False, False, True)


def test_penalties_add_up():
    assert judge([], json_valid=False, cut_off=True).total == pytest.approx(-0.35)
    assert judge([7] * 9, cut_off=True).total == pytest.approx(-0.35)
