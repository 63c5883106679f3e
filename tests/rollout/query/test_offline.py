"""The offline roles: projection, lexical answers, exact verdicts."""

from __future__ import annotations

import asyncio

import pytest

from data.network import Question
from rollout.llm.offline import OfflineJudge, OfflineProject, as_third_person, lexical_verdict, normalised
from rollout.llm.offline_words import names_in, stem, tokens
from rollout.memory.embedder import HashEmbedder
from rollout.query.answer import final_answer
from rollout.query.evidence import Tense
from rollout.query.judge import choice_letter, read_verdict
from rollout.query.roles import Gold, Missing, Query, VerdictKind
from tests.rollout.query.chats import network, pipeline, state, view

NAMES = ("Ana", "Bob", "Cleo", "Will")


def project(text: str, asker: str | None = None, names=NAMES):
    return asyncio.run(OfflineProject().project(Query(text, asker=asker), names)).value


@pytest.mark.parametrize(
    ("text", "rows", "tense", "source"),
    [
        ("What is Ana's locker?", ("Ana",), Tense.HEAD, None),
        ("what is ANA’S locker now", ("Ana",), Tense.HEAD, None),
        ("Do Cleo and Bob agree?", ("Cleo", "Bob", "GROUP"), Tense.HEAD, None),
        ("Whose locker is belmo?", ("ALL",), Tense.HEAD, None),
        ("What did the group decide?", ("ALL", "GROUP"), Tense.HEAD, None),
        ("What does Ana write in the group chat?", ("Ana",), Tense.HEAD, None),
        ("What was Ana's first locker?", ("Ana",), Tense.FULL, None),
        ("How did Bob's mind change?", ("Bob",), Tense.FULL, None),
        ("When will Bob arrive?", ("Bob",), Tense.HEAD, None),
        ("When did Will arrive?", ("Will",), Tense.HEAD, None),
        ("What is Ana's view of Bob?", ("Bob",), Tense.HEAD, "Ana"),
        ("What does Ana think of Bob?", ("Bob",), Tense.HEAD, "Ana"),
        ("What did Bob say about Cleo?", ("Cleo",), Tense.HEAD, "Bob"),
        ("According to Ana, what is Bob's locker?", ("Bob",), Tense.HEAD, "Ana"),
        ("According to Ana, where is the fair?", ("ALL",), Tense.HEAD, "Ana"),
        ("What did Ana say about the fair?", ("Ana",), Tense.HEAD, None),
        ("Where is Anabel?", ("ALL",), Tense.HEAD, None),
    ],
)
def test_a_question_is_projected(text: str, rows: tuple[str, ...], tense: Tense, source: str | None) -> None:
    found = project(text)
    assert (found.rows, found.tense, found.source, found.issue) == (rows, tense, source, text)


def test_first_person_is_the_asker() -> None:
    found = project("Where did I put my locker key?", "Bob")
    assert (found.rows, found.issue) == (("Bob",), "Where did Bob put Bob's locker key?")
    assert as_third_person("Tell me, am I in?", "Bob") == "Tell Bob, am Bob in?"


def test_names_are_whole_words_the_longest_wins_and_shared_labels_are_all_meant() -> None:
    assert names_in("Mary Ann met User_12", ("Mary", "Mary Ann", "User_1", "User_12")) == ["Mary Ann", "User_12"]
    assert names_in("Where is Sam?", ("Sam (p1)", "Sam (p2)", "Sam Lee")) == ["Sam (p1)", "Sam (p2)"]
    assert names_in("Where is Sam Lee?", ("Sam (p1)", "Sam (p2)", "Sam Lee")) == ["Sam Lee"]


def test_words_are_compared_without_possessives_contractions_and_endings() -> None:
    assert [one.folded for one in tokens("Tavi's lockers’ don't, 日本 X_1")] == ["tavi", "lockers", "dont", "日", "本", "x_1"]
    pairs = [("lockers", "locker"), ("parties", "party"), ("planned", "plan"), ("moving", "move"), ("classes", "class")]
    assert [stem(one) for one, _ in pairs] == [stem(other) for _, other in pairs]
    assert stem("bus") == "bus" and stem("r2s5") == "r2s5"


def ask(question: Question, said, *records: tuple[str, ...]) -> str:
    made = pipeline(HashEmbedder())
    shared = asyncio.run(made.share(view(network(*said)), question))
    return asyncio.run(made.finish(shared, state(*records))).answer


def q(text: str, **more: object) -> Question:
    return Question("q", text, "x", **more)  # type: ignore[arg-type]


MY_LOCKER = [("a", "my locker is belmo"), ("b", "my locker is zork"), ("c", "nice weather")]


@pytest.mark.parametrize("records", [(), (("Ana", "Ana", "Ana's locker is belmo"), ("Bob", "Bob", "Bob's locker is zork"))])
def test_both_tracks_are_read_by_the_same_code(records: tuple[tuple[str, ...], ...]) -> None:
    said = MY_LOCKER if not records else [("c", "nice weather")]
    assert ask(q("What is Ana's locker?"), said, *records) == "belmo"
    assert ask(q("Which locker has BOB?"), said, *records) == "zork"
    assert ask(q("Whose locker is zork?"), said, *records) == "Bob"
    assert ask(q("What is Cleo's locker?"), said, *records) == "not mentioned"
    assert ask(q("What is Ana's bicycle?"), said, *records) == "not mentioned"


def test_values_of_several_words_keep_the_small_words_between_them() -> None:
    assert ask(q("What is Ana's band?"), [("a", "my band is the House of Cards!")]) == "House of Cards"


def test_the_newest_wins_and_the_past_is_found_in_both_tracks() -> None:
    said = [("a", "my locker is belmo"), ("b", "hello"), ("a", "my locker is zork")]
    chain = [("Ana", "Ana", "Ana's locker is belmo"), ("Ana's locker is zork", "d1")]
    for chat, records in ((said, ()), ([("b", "hello")], chain)):
        assert ask(q("What is Ana's locker?"), chat, *records) == "zork"
        assert ask(q("What was Ana's locker before?"), chat, *records) == "belmo"
        assert ask(q("What was Ana's locker before zork?"), chat, *records) == "belmo"
        assert ask(q("What was Ana's first locker?"), chat, *records) == "belmo"


def test_who_said_it_is_the_source_and_whom_it_concerns_the_owner() -> None:
    records = [("Ana", "Cleo", "Ana's locker is belmo")]
    assert ask(q("Who has the locker belmo?"), [("b", "hello")], *records) == "Ana"
    assert ask(q("Who said that the locker is belmo?"), [("b", "hello")], *records) == "Cleo"
    assert ask(q("Who is Ana's mentor?"), [("b", "hello")], ("Ana", "Ana", "Ana's mentor is Bob")) == "Bob"


def test_a_relation_constraint_reads_the_source() -> None:
    records = [("Bob", "Ana", "Bob's room is belmo"), ("Bob", "Cleo", "Bob's room is zork")]
    assert ask(q("According to Ana, what is Bob's room?"), [("b", "hello")], *records) == "belmo"
    assert ask(q("According to Cleo, what is Bob's room?"), [("b", "hello")], *records) == "zork"


def test_a_line_that_asks_yields_to_one_that_tells() -> None:
    said = [("a", "my locker is belmo"), ("a", "who knows a locker called zork?")]
    assert ask(q("What is Ana's locker?"), said) == "belmo"


def test_a_choice_is_the_letter_of_the_person_or_the_text() -> None:
    people = (("A", "Ana"), ("B", "Bob"), ("C", "Cleo"))
    assert ask(q("Who likes quiet bars?", format="multiple_choice", options=people), [("b", "quiet bars for me")]) == "B"
    things = (("A", "a red canoe"), ("B", "a blue tent"))
    assert ask(q("What did Ana buy?", format="multiple_choice", options=things), [("a", "i bought the blue tent")]) == "B"
    assert ask(q("What did Ana buy?", format="multiple_choice", options=things), [("a", "hello")]) == "not mentioned"


def test_a_long_answer_quotes_the_top_lines() -> None:
    text = ask(q("What about lockers?", format="long_form"), MY_LOCKER)
    assert text.splitlines() == ["Bob: my locker is zork", "Ana: my locker is belmo"]


def judge(answer: str, gold: str, **more: object) -> VerdictKind:
    query = Query("?", str(more.pop("format", "short_answer")), more.pop("options", ()))  # type: ignore[arg-type]
    return asyncio.run(OfflineJudge().judge(query, Gold(gold, **more), answer)).value.kind  # type: ignore[arg-type]


def test_short_answers_are_exact_after_normalisation_never_a_substring() -> None:
    assert normalised("The  Blue-Tent, (an) Apple!") == "blue tent apple"
    assert judge("the BELMO.", "Belmo") is VerdictKind.CORRECT
    assert judge("belmo now", "belmo") is VerdictKind.INCORRECT
    assert judge("elm", "belmo") is VerdictKind.INCORRECT


def test_an_abstention_meets_an_abstaining_gold_and_nothing_else() -> None:
    assert judge("not mentioned", "Not mentioned in the conversation.") is VerdictKind.CORRECT
    assert judge("not mentioned", "whatever", abstain=True) is VerdictKind.CORRECT
    assert judge("belmo", "not mentioned") is VerdictKind.INCORRECT
    assert judge("not mentioned", "belmo") is VerdictKind.INCORRECT


def test_a_choice_is_judged_by_its_letter_or_its_whole_text() -> None:
    options = (("A", "Ana"), ("B", "Bob"))
    ask = {"format": "multiple_choice", "options": options, "option": "B"}
    assert judge("B", "a long explanation", **ask) is VerdictKind.CORRECT
    assert judge("bob", "a long explanation", **ask) is VerdictKind.CORRECT
    assert judge("A", "Bob", **ask) is VerdictKind.INCORRECT
    assert judge("not B", "Bob", **ask) is VerdictKind.INCORRECT


def test_long_answers_go_by_recall_of_the_gold() -> None:
    query, gold = Query("?", "long_form"), Gold("Ana rides bicycles uphill every Sunday morning")  # 6 content words
    assert lexical_verdict(query, gold, "Ana: bicycle").kind is VerdictKind.CORRECT  # 2 of 6
    assert lexical_verdict(query, gold, "Ana: car").kind is VerdictKind.INCORRECT
    assert "lexical" in lexical_verdict(query, gold, "Ana").reason


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Correct.", "correct"),
        ("reason\nFinal: incorrect", "incorrect"),
        ("Final: correct\nFinal: **Incorrect**", "incorrect"),
        ("Not correct.", "unparsed"),
        ("Final: not correct", "unparsed"),
        ("yes yesterday, but no", "unparsed"),
        ("The answer is correct", "unparsed"),
        ("", "unparsed"),
    ],
)
def test_a_verdict_is_never_read_from_a_substring(text: str, kind: str) -> None:
    assert read_verdict(text).kind.value == kind


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        (" (c) ", "C"),
        ("B. because a friend said so", "B"),
        ("I think a friend", None),
        ("A friend of Bob's", None),
        ("The answer is C", "C"),
        ("option: b", "B"),
        ("answer a friend", None),
        ("E", None),
        ("", None),
    ],
)
def test_a_letter_is_never_the_english_article(text: str, letter: str | None) -> None:
    assert choice_letter(text, "ABCD") == letter


def test_only_the_final_answer_is_kept() -> None:
    assert final_answer("<think>Final: no</think>belmo") == "belmo"
    assert final_answer("It must be zork.\nFinal answer: belmo\n") == "belmo"
    assert final_answer("belmo") == "belmo"
    assert final_answer("<think>it is bel") == Missing("cut_off", "the reply ends inside its reasoning block")
    assert isinstance(final_answer(" \n"), Missing)
