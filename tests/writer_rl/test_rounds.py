"""What a round is made of: which networks, when it cannot be trusted, what is warned of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from rollout.query.qa import QAResult
from writer_rl.grpo import warnings_of
from writer_rl.recipe import RecipeError
from writer_rl.run import check_frozen
from writer_rl.schedule import visits
from writer_rl.scoring import GroupScores, TooManyUnjudged, check_judged
from writer_rl.watch import Watch

NETWORKS = tuple("abcdefg")


def group(unjudged: int, total: int) -> GroupScores:
    return GroupScores((), QAResult((), unjudged, total, 0, (), ()))


def test_every_network_comes_once_before_any_comes_again() -> None:
    turns = [visit for index in range(14) for visit in visits(NETWORKS, 0, index, 1)]
    assert sorted(one.network for one in turns[:7]) == list(NETWORKS)
    assert [one.visit for one in turns] == [0] * 7 + [1] * 7


def test_several_networks_a_round_are_the_same_turns_cut_otherwise() -> None:
    single = [visit for index in range(12) for visit in visits(NETWORKS, 3, index, 1)]
    assert [visit for index in range(4) for visit in visits(NETWORKS, 3, index, 3)] == single


def test_the_order_depends_on_the_seed_and_the_visit_alone() -> None:
    first = [visits(NETWORKS, 0, index, 1)[0].network for index in range(14)]
    assert first == [visits(NETWORKS[::-1], 0, index, 1)[0].network for index in range(14)]
    assert first[:7] != first[7:]
    assert first[:7] != [visits(NETWORKS, 1, index, 1)[0].network for index in range(7)]


def test_thirty_rounds_of_fifteen_networks_are_two_visits_each() -> None:
    names = [f"n{number:02d}" for number in range(15)]
    counts = Counter(visits(names, 0, index, 1)[0].network for index in range(30))
    assert set(counts.values()) == {2}


def test_a_fifth_of_the_questions_may_stay_unjudged_and_no_more() -> None:
    check_judged([group(1, 5).qa, group(0, 0).qa])
    with pytest.raises(TooManyUnjudged, match="3 of 14 questions"):
        check_judged([group(1, 5).qa, group(2, 9).qa])


def test_cut_off_completions_are_warned_of_above_three_in_ten() -> None:
    assert warnings_of(Watch(), {"completions/clipped_ratio": 0.30}) == []
    assert "31%" in warnings_of(Watch(), {"completions/clipped_ratio": 0.31})[0]
    assert len(warnings_of(replace(Watch(), gated=3), {"completions/clipped_ratio": 0.9})) == 2


def test_another_pipeline_stops_a_run_that_goes_on(tmp_path) -> None:
    check_frozen({"pipeline_id": "a", "reference": "r"}, {"pipeline_id": "a", "reference": "r"}, tmp_path)
    with pytest.raises(RecipeError, match="the pipeline_id is not what this run was begun with"):
        check_frozen({"pipeline_id": "a", "reference": "r"}, {"pipeline_id": "b", "reference": "r"}, tmp_path)
