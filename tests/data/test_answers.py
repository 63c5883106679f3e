"""The letter an answer picks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.answers import option_letter


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        (" b ", "B"),
        ("(C)", "C"),
        ("**D**", "D"),
        ("a", "A"),
        ("B. Because she said so", "B"),
        ("c) the third", "C"),
        ("D: none of them", "D"),
        ("I would say B, as she left.", "B"),
        ("It is (b) here", "B"),
        ("The answer is C", "C"),
        ("Answer: d", "D"),
        ("the correct option is b", "B"),
        ("Option A is right", "A"),
        ("The answer is a", "A"),
        ("My choice would be (D", "D"),
        ("**Answer:** B", "B"),
        ("A", "A"),
        ("The answer is a mystery", None),
        ("a man, a plan", None),
        ("It was a good choice a friend made", None),
        ("There was a, hm, problem", None),
        ("No idea", None),
        ("", None),
        ("E", None),
        ("Because of vitamins", None),
        ("the U.S.A. team", None),
        ("AB", None),
        ("Dogs. Cats.", None),
        ("choices abound", None),
    ],
)
def test_a_letter_is_found_by_the_official_rule(answer: str, letter: str | None) -> None:
    assert option_letter(answer) == letter


@given(st.text(max_size=30))
def test_any_answer_gives_a_letter_of_the_four_or_none(answer: str) -> None:
    assert option_letter(answer) in {"A", "B", "C", "D", None}


@given(st.sampled_from("ABCD"), st.sampled_from(".):,"), st.text("efghijklm ", max_size=20))
def test_a_marked_capital_letter_wins_over_what_follows(letter: str, mark: str, rest: str) -> None:
    assert option_letter(f"{letter}{mark} {rest}") == letter
