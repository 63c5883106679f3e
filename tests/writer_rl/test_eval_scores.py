"""Scores of single answers: hand-computed examples, and plain reference code in property tests."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.text import tokens
from writer_rl.evaluation.baselines import K1, B, bm25_scores
from writer_rl.evaluation.scores import letter_score, locomo_score, locomo_tokens, stemmed_f1, token_f1
from writer_rl.evaluation.statistics import bootstrap_mean, bootstrap_network_mean, mcnemar, paired_difference, wilson

WORDS = st.lists(st.sampled_from(["red", "Red", "blue", "a", "the", "sky", ".", "x.", "é", " "]), max_size=8).map(" ".join)


@pytest.mark.parametrize(
    ("answer", "gold", "score"),
    [
        ("The red car.", "red car", 0.8),  # {the, red, car} and {red, car}
        ("red red red", "red", 1.0),  # sets, not multisets
        ("  RED   car... ", "red\tcar", 1.0),
        ("3 p.m. today", "3 p.m.", 0.4),  # only the string's trailing periods go: {3, p.m., today} and {3, p.m}
        ("", "red", 0.0),
        ("...", "...", 0.0),
        ("blue", "red", 0.0),
        ("red. car", "red car", 0.5),  # "red." inside keeps its period
    ],
)
def test_token_f1_of_the_paper_by_hand(answer: str, gold: str, score: float) -> None:
    assert token_f1(answer, gold) == pytest.approx(score)
    assert token_f1(gold, answer) == pytest.approx(score)


@given(WORDS, WORDS)
def test_token_f1_equals_the_plain_formula(answer: str, gold: str) -> None:
    def plain(text: str) -> list[str]:
        text = text.lower().strip()
        while text.endswith("."):
            text = text[:-1]
        return sorted(set(text.split()))

    said, wanted = plain(answer), plain(gold)
    shared = [one for one in said if one in wanted]
    expected = 2 * len(shared) / (len(said) + len(wanted)) if shared else 0.0  # 2pr/(p+r) = 2s/(a+g)
    assert token_f1(answer, gold) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("answer", "option", "score"),
    [("B", "B", 1), ("b) Ben", "B", 1), ("The answer is C", "B", 0), ("A friend said so", "A", 0), ("not mentioned", "A", 0)],
)
def test_a_letter_counts_only_where_it_is_stated(answer: str, option: str, score: int) -> None:
    assert letter_score(answer, option) == score


def test_locomo_stems_drop_articles_commas_and_punctuation() -> None:
    assert locomo_tokens("The cats, and a dog's running!") == ["cat", "dog", "run"]
    assert stemmed_f1("running cats", "a cat runs") == pytest.approx(1.0)
    assert stemmed_f1("cat cat", "cat") == pytest.approx(2 / 3)  # multisets
    assert stemmed_f1("", "cat") == stemmed_f1("the", "a") == 0.0


def test_locomo_scores_by_category_id() -> None:
    assert locomo_score("hiking, painting", "painting, swimming", "1") == pytest.approx(0.5)  # the better part for each gold
    assert locomo_score("hiking, painting", "painting, swimming", "4") == pytest.approx(0.5)
    assert locomo_score("swimming", "painting, swimming", "1") == pytest.approx(0.5)
    assert locomo_score("swimming", "painting, swimming", "4") == pytest.approx(2 / 3)
    assert locomo_score("yes", "yes; she said so", "3") == 1.0
    assert locomo_score("yes", "yes; she said so", "2") < 1.0
    assert locomo_score("It is Not mentioned anywhere", "whatever", "5") == 1.0
    assert locomo_score("No information available.", "whatever", "5") == 1.0
    assert locomo_score("necklace", "Not mentioned in the conversation", "5") == 0.0


@given(WORDS, WORDS)
def test_stemmed_f1_equals_plain_counting(answer: str, gold: str) -> None:
    said, wanted = Counter(locomo_tokens(answer)), Counter(locomo_tokens(gold))
    shared = sum(min(said[one], wanted[one]) for one in said)
    size = sum(said.values()) + sum(wanted.values())
    assert stemmed_f1(answer, gold) == pytest.approx(2 * shared / size if shared else 0.0)


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_bm25_is_okapi(texts: list[str], query: str) -> None:
    corpus = [tokens(text) for text in texts]
    mean = sum(map(len, corpus)) / len(corpus)
    expected = []
    for text in corpus:
        score = 0.0
        for word in tokens(query):
            held = sum(word in other for other in corpus)
            count = text.count(word)
            if not held or not count:
                continue
            idf = math.log(max(1.0, (len(corpus) - held + 0.5) / (held + 0.5)))
            score += idf * count / (count + K1 * (1 - B + B * len(text) / mean))
        expected.append(score)
    assert bm25_scores(texts, query) == pytest.approx(expected, abs=2e-5)


def test_bm25_of_a_query_that_nobody_said_is_zero() -> None:
    assert bm25_scores(["red car", "blue"], "zebra").tolist() == [0.0, 0.0]
    assert bm25_scores(["", ""], "zebra").tolist() == [0.0, 0.0]


def test_meanq_weighs_questions_and_meann_networks() -> None:
    values = {"a": [1.0, 1.0, 1.0, 0.0], "b": [0.0]}
    assert bootstrap_mean(values).mean == pytest.approx(0.6)
    assert bootstrap_network_mean(values).mean == pytest.approx(0.375)


def test_the_network_bootstrap_equals_a_plain_one() -> None:
    values = {f"n{i}": [float((i * j) % 3 == 0) for j in range(2 + i % 3)] for i in range(7)}
    means = [sum(values[name]) / len(values[name]) for name in sorted(values)]
    draw = np.random.default_rng(0).integers(0, len(means), size=(10_000, len(means)))
    drawn = [sum(means[index] for index in row) / len(means) for row in draw.tolist()]
    found = bootstrap_network_mean(values)
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))


def test_a_paired_difference_of_equal_sides_is_exactly_zero() -> None:
    values = {"a": [1.0, 0.0], "b": [1.0]}
    found = paired_difference(values, values)
    assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_mcnemar_is_the_exact_binomial(pairs: list[tuple[bool, bool]]) -> None:
    gained, lost = pairs.count((False, True)), pairs.count((True, False))
    count, least = gained + lost, min(gained, lost)
    expected = min(1.0, 2 * sum(math.comb(count, i) for i in range(least + 1)) / 2**count)
    assert mcnemar([a for a, _ in pairs], [b for _, b in pairs]) == pytest.approx(expected)


@given(st.integers(0, 40), st.integers(1, 40))
def test_wilson_solves_its_equation(correct: int, more: int) -> None:
    total = correct + more
    z = 1.959963984540054
    found = wilson(correct, total)
    for bound in (found.low, found.high):  # |p - bound| = z sqrt(bound (1 - bound) / n)
        if 0.0 < bound < 1.0:
            assert abs(found.mean - bound) == pytest.approx(z * math.sqrt(bound * (1 - bound) / total), abs=1e-9)
    assert found.low <= found.mean <= found.high
