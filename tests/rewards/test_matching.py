from __future__ import annotations

import itertools
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.matching import THRESHOLD, Matcher, align, soft_f1
from rewards.text import kappa_bar
from tests.rewards import reference
from tests.rewards.builders import WORDS, texts


@given(texts, texts)
def test_the_bound_is_never_below_kappa_bar(a: str, b: str):
    assert Matcher().ceiling(a, b) >= reference.kappa_bar(a, b)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=50), st.integers(0, 10_000))
def test_the_bound_holds_for_edited_copies_around_the_threshold(words: list[str], seed: int):
    rng = random.Random(seed)
    edited = [rng.choice(WORDS) if rng.random() < 0.4 else word for word in words if rng.random() < 0.9]
    a, b = " ".join(words), " ".join(edited)
    plain = reference.kappa_bar(a, b)
    assert Matcher().ceiling(a, b) >= plain
    assert Matcher().kappa(a, b) == (plain if plain >= THRESHOLD else 0.0)


def test_a_pair_at_exactly_the_threshold_is_kept():
    a, b = "ccc", "ccc dd bb"
    assert reference.kappa_bar(a, b) == THRESHOLD
    assert Matcher().kappa(a, b) == THRESHOLD


@given(texts, texts)
def test_a_matcher_gives_kappa_bar_bit_for_bit_and_again_from_memory(a: str, b: str):
    matcher = Matcher()
    for _ in range(2):
        assert matcher.bar(a, b) == kappa_bar(a, b)
        assert matcher.bar(b, a) == kappa_bar(b, a)
        assert matcher.bar(a, a) == kappa_bar(a, a)


@given(st.lists(texts, min_size=2, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_what_a_matcher_saw_before_never_changes_a_value(contents: list[str], rng):
    pairs = list(itertools.product(contents, contents))
    rng.shuffle(pairs)
    shared = Matcher()
    assert [shared.kappa(*pair) for pair in pairs] == [Matcher().kappa(*pair) for pair in pairs]


def test_unlike_contents_are_skipped_and_repeated_ones_are_not_asked_again():
    matcher = Matcher()
    for _ in range(3):
        assert matcher.kappa("the picnic is on friday", "ana has a red locker") == 0.0
        assert matcher.kappa("the picnic is on friday", "the picnic is on sunday") > THRESHOLD
    assert (matcher.counts.compared, matcher.counts.skipped) == (2, 1)


@given(st.text(alphabet="ab ", min_size=190, max_size=400), st.lists(st.sampled_from(WORDS), min_size=30, max_size=80))
def test_a_text_against_itself_is_one_block_under_autojunk_too(few: str, words: list[str]):
    for content in (few, " ".join(words), "a" * 300, "ab " * 100):
        assert Matcher().bar(content, content) == reference.kappa_bar(content, content)


def test_alignment_takes_the_best_sum_and_not_the_best_pair_first():
    weights = np.array([[0.9, 0.8], [0.8, 0.0]])
    assert align(weights) == [(0, 1), (1, 0)]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 1000))
def test_alignment_equals_trying_every_matching(n: int, m: int, seed: int):
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 0.6, 0.75, 1.0], size=(n, m))
    wide = weights if n <= m else weights.T
    best = max(
        sum(wide[i, j] for i, j in enumerate(columns))
        for columns in itertools.permutations(range(wide.shape[1]), wide.shape[0])
    )
    pairs = align(weights)
    assert abs(sum(weights[i, j] for i, j in pairs) - best) < 1e-12
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)


def test_soft_f1_is_twice_the_sum_over_both_sizes():
    assert soft_f1(1.5, 2, 4) == 0.5
