from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.text import kappa_bar, read, sequence_ratio, token_f1, tokens
from tests.rewards import reference
from tests.rewards.builders import WORDS, texts


def test_tokens_are_lower_case_spans_and_single_cjk_characters_in_text_order():
    assert tokens("Ana's locker: 我住在 B-2") == ("ana", "s", "locker", "我", "住", "在", "b", "2")


@pytest.mark.parametrize("character", ["\u3400", "\u4dbf", "\u4e00", "\u9fff", "\uf900", "\ufaff", "\U00020000", "\U0002a6d6"])
def test_every_cjk_block_counts_by_the_character(character: str):
    assert tokens(character * 2) == (character, character)


@pytest.mark.parametrize("character", ["\u33ff", "\u4dc0", "\ua000", "\ufb00", "\U0001f44d"])
def test_neighbours_of_the_cjk_blocks_are_no_single_tokens(character: str):
    assert tokens(f"x{character}{character}") == ("x",)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("안녕 하세요", ("안녕", "하세요")),
        ("ありがとう です", ("ありがとう", "です")),
        ("Привет, МИР!", ("привет", "мир")),
        ("café", ("caf",)),
    ],
)
def test_word_runs_are_read_only_where_there_are_no_spans(content: str, expected: tuple[str, ...]):
    assert tokens(content) == expected


def test_emoji_and_punctuation_have_no_tokens():
    assert tokens("👍 !?") == ()


def test_f1_is_of_token_sets_so_a_repeated_word_counts_once():
    assert token_f1(read("red red red"), read("red")) == 1.0
    assert token_f1(read("red blue"), read("red")) == pytest.approx(2 / 3)


def test_contents_without_tokens_match_only_themselves():
    assert kappa_bar("👍", "👍") == 1.0
    assert kappa_bar("👍", "👎") == pytest.approx(0.4)
    assert kappa_bar("👍", "yes") == 0.0


def test_the_sequence_ratio_is_of_joined_strings_and_not_of_token_lists():
    joined, listed = kappa_bar("moved house", "moves houses"), reference.kappa_bar_of_token_lists("moved house", "moves houses")
    assert listed == 0.0
    assert joined == 0.40 * difflib.SequenceMatcher(None, "moved house", "moves houses").ratio()


def test_the_prediction_comes_first_in_the_sequence_ratio():
    a, b = "tide", "diet"
    assert sequence_ratio(read(a), read(b)) == difflib.SequenceMatcher(None, a, b).ratio() == 0.25
    assert sequence_ratio(read(b), read(a)) == difflib.SequenceMatcher(None, b, a).ratio() == 0.5


def test_autojunk_collapses_the_ratio_from_200_characters_of_the_reference():
    assert sequence_ratio(read("x" + "a" * 198), read("a" * 199)) > 0.99
    assert sequence_ratio(read("x" + "a" * 199), read("a" * 200)) == 0.0
    assert sequence_ratio(read("a" * 200), read("x" + "a" * 198)) > 0.99
    assert read("a" * 200).long and not read("a" * 199).long


def test_decomposed_and_full_width_text_is_taken_as_it_stands():
    assert tokens("ＡＢ") == ("ａｂ",)


@given(texts, texts)
def test_kappa_bar_equals_plain_difflib(a: str, b: str):
    assert tokens(a) == tuple(reference.tokens(a))
    assert kappa_bar(a, b) == reference.kappa_bar(a, b)


@given(st.text(alphabet="ab c", min_size=200, max_size=320), st.text(alphabet="abd ", min_size=200, max_size=320))
def test_the_compiled_ratio_equals_difflib_where_autojunk_works_on_few_characters(a: str, b: str):
    compiled = pytest.importorskip("cydifflib", reason="cydifflib is not installed: the rewards use difflib itself")
    assert compiled.SequenceMatcher(None, a, b).ratio() == difflib.SequenceMatcher(None, a, b).ratio()


@given(st.lists(st.sampled_from(WORDS), min_size=35, max_size=80), st.randoms(use_true_random=False))
def test_the_compiled_ratio_equals_difflib_on_long_shuffled_words(words: list[str], random):
    compiled = pytest.importorskip("cydifflib", reason="cydifflib is not installed: the rewards use difflib itself")
    shuffled = words[:]
    random.shuffle(shuffled)
    a, b = " ".join(words), " ".join(shuffled)
    assert compiled.SequenceMatcher(None, a, b).ratio() == difflib.SequenceMatcher(None, a, b).ratio()


@given(texts)
def test_a_content_matches_itself_fully(a: str):
    assert kappa_bar(a, a) == 1.0
