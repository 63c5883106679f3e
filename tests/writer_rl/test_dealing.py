from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import torch
from accelerate import Accelerator
from hypothesis import given
from hypothesis import strategies as st

from tests.writer_rl.builders import make_samples
from writer_rl.batches import micro_batches
from writer_rl.dealing import dealt, gathered, level, share, share_by_tokens


def rank(index: int, ranks: int, most: int = 0) -> Accelerator:
    """An accelerator as rank `index` sees it; another rank has `most` micro-batches."""
    gather = lambda mine: torch.tensor([int(mine), most])  # noqa: E731
    made = SimpleNamespace(process_index=index, num_processes=ranks, device=torch.device("cpu"), gather=gather)
    return cast(Accelerator, made)


@given(st.lists(st.integers(0, 5000), max_size=60), st.integers(1, 5))
def test_every_index_is_dealt_once_and_no_rank_has_more_than_the_lightest_by_more_than_one_item(weights, ranks):
    hands = dealt(weights, ranks)
    assert sorted(i for hand in hands for i in hand) == list(range(len(weights)))
    loads = [sum(weights[i] for i in hand) for hand in hands]
    assert max(loads) - min(loads) <= max(weights, default=0)


def test_seventy_three_positions_of_eight_trajectories_are_dealt_over_three_ranks():
    episodes = list(range(73 * 8))
    parts = [share(episodes, rank(i, 3)) for i in range(3)]
    assert [len(part) for part in parts] == [195, 195, 194] and sorted(one for part in parts for one in part) == episodes
    groups = [[i // 8 for i in part] for part in parts]
    assert all(2 <= group.count(n) <= 3 for group in groups for n in range(73))  # each rank has some of every group


def test_one_process_keeps_everything_as_it_is():
    samples = make_samples([(3, 4), (9, 1), (5, 5)])
    alone = rank(0, 1)
    assert share(samples, alone) == samples == share_by_tokens(samples, [True, False, True], alone) == gathered(samples, alone)
    batches = micro_batches(samples, 10)
    assert all(one is other for one, other in zip(level(batches, alone), batches, strict=True))


def test_samples_that_are_not_kept_weigh_nothing():
    samples = make_samples([(90, 10), (5, 5), (5, 5), (5, 5)])
    hands = [share_by_tokens(samples, [False, True, True, True], rank(i, 3)) for i in range(3)]
    assert [sum(one in samples[1:] for one in hand) for hand in hands] == [1, 1, 1]


def test_a_rank_that_lacks_micro_batches_gets_dummies_of_nobody():
    batches = micro_batches(make_samples([(3, 4), (9, 1)]), 1)
    made = level(batches, rank(0, 2, most=5))
    assert len(made) == 5 and all(one is other for one, other in zip(made, batches, strict=False))
    assert all(dummy.indices == () and dummy.mask.sum() == 1 for dummy in made[2:])
    assert level([], rank(1, 2, most=0)) == []
