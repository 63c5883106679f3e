from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.network import DataError
from tests.writer_rl.builders import make_samples
from writer_rl.batches import TokenPair, batch_of, micro_batches

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=40)


@given(LENGTHS, st.integers(1, 200))
def test_every_sample_is_in_one_batch_and_no_batch_exceeds_its_budget(lengths, budget):
    samples = make_samples(lengths)
    batches = micro_batches(samples, budget)
    assert sorted(i for batch in batches for i in batch.indices) == list(range(len(samples)))
    for batch in batches:
        assert batch.input_ids.numel() <= budget or len(batch.indices) == 1


@given(LENGTHS)
def test_rows_hold_the_sampled_ids_and_the_mask_goes_by_length(lengths):
    samples = make_samples(lengths)
    for batch in micro_batches(samples, 64):
        for row, index in enumerate(batch.indices):
            sample = samples[index]
            ids = [*sample.prompt_ids, *sample.completion_ids]
            assert batch.input_ids[row, : len(ids)].tolist() == ids
            assert batch.targets[row][batch.mask[row]].tolist() == list(sample.completion_ids)


def test_a_turn_end_token_that_is_also_the_padding_id_stays_in_the_mask():
    batch = batch_of([TokenPair((0, 5), (7, 0)), TokenPair((5,), (0, 0, 0, 0))], [0, 1])
    assert batch.mask.tolist() == [[True, True, False, False], [True] * 4]


def test_like_lengths_share_a_batch_so_that_little_is_padded():
    samples = make_samples([(10, 2), (100, 20), (10, 3), (100, 21), (10, 4), (100, 22)])
    batches = micro_batches(samples, 400)
    padded = sum(batch.input_ids.numel() for batch in batches)
    real = sum(len(sample.prompt_ids) + len(sample.completion_ids) for sample in samples)
    assert real / padded > 0.9


def test_a_sample_without_a_completion_is_an_error_that_names_it():
    with pytest.raises(DataError, match="sample 1 has an empty completion"):
        batch_of([TokenPair((1,), (2,)), TokenPair((1,), ())], [0, 1])


def test_padding_is_a_few_per_cent_of_what_is_computed():
    """240 samples of 600 to 3,500 tokens in batches of 16k: like lengths stand together."""
    draw = random.Random(0)
    lengths = [draw.randrange(600, 3500) for _ in range(240)]
    batches = micro_batches([TokenPair((3,) * (length - 200), (4,) * 200) for length in lengths], 16_384)
    computed = sum(batch.input_ids.numel() for batch in batches)
    assert sum(lengths) / computed > 0.97
