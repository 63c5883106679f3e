"""Replies in every form models send them."""

import pytest

from rollout.llm.errors import Unparsable
from rollout.llm.reply import field, final_text, json_object, names, verdict


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '```json\n{"a": 1}\n```',
        'Sure! Here it is:\n```\n{"a": 1}\n```\nHope that helps {smile}. \n{"a": 1}',
        'The answer is {"a": 1}. Done.',
        '<think>maybe {"a": 2}</think>\n{"a": 1}',
        'draft {"a": 2} </think> {"a": 1}',
        '<reasoning>{"a": 2}</reasoning><think>x</think>{"a": 1}',
        'first {"a": 2}, better: {"a": 1}',
    ],
)
def test_an_object_is_found_in_fences_prose_and_after_reasoning(text: str) -> None:
    assert json_object(text) == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no object",
        "[1, 2]",
        '"text"',
        '{"a": 1',
        '{"verdict": "correct", "why": {"verdict": "correct"}',
        '{"a": 1} no, rather {"a": "cut',
        "{'a': 1}",
        '<think>{"a": 1}',
        "{" * 5000,
    ],
)
def test_cut_off_or_absent_objects_are_unparsable(text: str) -> None:
    with pytest.raises(Unparsable):
        json_object(text)


def test_braces_and_quotes_inside_strings_stay_content() -> None:
    assert json_object('x {"code": "if (a) { b = \\"}\\" }"} y') == {"code": 'if (a) { b = "}" }'}


def test_reasoning_in_the_middle_of_an_answer_is_text() -> None:
    assert final_text("<think>a</think> She wrote <think>hm</think> there") == "She wrote <think>hm</think> there"
    assert final_text("<think>only") == ""


def test_wrong_types_are_unparsable_and_a_bool_is_no_number() -> None:
    assert field({"n": 1.5}, "n", (int, float)) == 1.5
    for value in ("1", None, True, [1]):
        with pytest.raises(Unparsable):
            field({"n": value}, "n", (int, float))
    with pytest.raises(Unparsable):
        field({}, "n", str)
    assert names({"rows": "Ann"}, "rows") == ("Ann",)
    with pytest.raises(Unparsable):
        names({"rows": ["Ann", 3]}, "rows")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Final: correct", True),
        ("Final: Correct.", True),
        ("**Final: correct**", True),
        ("The answer says X.\nFinal: incorrect", False),
        ("Final: correct\nOn second thought\nFinal: incorrect", False),
        ("Final: Not correct.", False),
        ("Final: it isn't correct", False),
        ("Final: yes yesterday, but no", False),
        ("Not correct.", False),
        ("yes", True),
        ("No.", False),
        ('{"verdict": "correct", "reason": "same person"}', True),
        ('{"verdict": "not correct"}', False),
        ('{"verdict": "incorrect"}', False),
        ('{"verdict": true}', True),
        ('The answer quotes {"verdict": "correct"} but: {"verdict": "incorrect"}', False),
        ("<think>Final: correct</think>Final: incorrect", False),
    ],
)
def test_verdicts_are_read_by_the_last_word_and_never_by_substring(text: str, expected: bool) -> None:
    assert verdict(text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Final:",
        "Final: correct, I think",
        "Final: partially",
        "Final: I would not say it is correct",
        "Final: not incorrect",
        "it is correct that he was incorrect and so on",
        '{"verdict": "corr',
        '{"verdict": 1}',
        "correctness",
    ],
)
def test_an_open_verdict_is_unparsable_not_wrong(text: str) -> None:
    with pytest.raises(Unparsable):
        verdict(text)
