from __future__ import annotations

import pytest

from data.network import Question
from rewards.qa import QaGains, qa_gains, terminal_questions


def questions(n: int) -> list[Question]:
    return [Question(f"q{i:02d}", "?", "!") for i in range(n)]


@pytest.mark.parametrize(
    ("n", "chosen"), [(0, []), (1, [0]), (3, [0, 1, 2]), (5, [0, 1, 2, 3]), (7, [0, 1, 3, 5]), (12, [0, 3, 6, 9])]
)
def test_at_most_four_questions_are_spread_evenly(n: int, chosen: list[int]):
    assert [question.id for question in terminal_questions(questions(n)[::-1])] == [f"q{i:02d}" for i in chosen]


def test_questions_are_sorted_by_id_as_text():
    ids = [question.id for question in terminal_questions([Question(i, "?", "!") for i in ("q2", "q10", "q1")])]
    assert ids == ["q1", "q10", "q2"]


def test_the_gain_is_the_difference_to_the_shared_arm():
    found = qa_gains(
        [[True, True, False, True], [False, False, False, True], [True, False, False, True]], [True, False, False, True]
    )
    assert found == QaGains((0.25, -0.25, 0.0), 4, 0)


def test_an_empty_writer_that_answers_like_the_baseline_gains_exactly_zero():
    baseline = [True, False, True]
    assert qa_gains([baseline], baseline).gains == (0.0,)


def test_an_unjudged_question_is_left_out_for_the_whole_group():
    found = qa_gains([[True, True, None, True], [True, False, True, False]], [False, True, True, False])
    assert found == QaGains((1 - 1 / 3, 0.0), 4, 1)
    assert qa_gains([[True, True]], [None, False]) == QaGains((1.0,), 2, 1)


def test_nothing_judged_or_nothing_asked_gives_no_gain():
    assert qa_gains([[None, True], [True, True]], [True, None]) == QaGains(None, 2, 2)
    assert qa_gains([[], []], []) == QaGains(None, 0, 0)
