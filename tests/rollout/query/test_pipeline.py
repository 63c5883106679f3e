"""The whole pipeline: identity, sharing, what is missing, anchors, QA gain."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from data.memory.state import State
from data.network import DataError, Question
from rollout.llm.offline import offline_roles
from rollout.memory.embedder import HashEmbedder, Thresholds
from rollout.query import identity
from rollout.query.config import Budgets, PipelineConfig, RoleNames
from rollout.query.evidence import RowStatus
from rollout.query.pipeline import Pipeline, offline_pipeline
from rollout.query.qa import qa_gains, selected_questions
from rollout.query.roles import Missing, Verdict, VerdictKind
from tests.rollout.query.chats import Scripted, network, pipeline, state, view

CORRECT, INCORRECT = Verdict(VerdictKind.CORRECT), Verdict(VerdictKind.INCORRECT)
QUESTIONS = tuple(Question(f"q{n:02d}", f"What is Ana's locker{n}?", f"belmo{n}", evidence=("m2", "m99")) for n in range(1, 13))
CHAT = network(("b", "hello there"), ("a", "take belmo1 please"), ("c", "locker talk"), questions=QUESTIONS)
KNOWS = state(("Ana", "Ana", "Ana's locker1 is belmo1"))
WRONG = state(("Ana", "Ana", "Ana's locker1 is zork"))


def hashed(**roles: object) -> Pipeline:
    return pipeline(HashEmbedder(), **roles)


def finish(made: Pipeline, question: Question, *states: State):
    shared = asyncio.run(made.share(view(CHAT), question))
    return asyncio.run(made.finish_all(shared, states))


def test_memory_turns_a_wrong_answer_into_a_right_one() -> None:
    empty, knows = finish(hashed(), QUESTIONS[0], State(), KNOWS)
    assert (empty.verdict.kind, knows.verdict.kind) == (VerdictKind.INCORRECT, VerdictKind.CORRECT)
    assert (knows.answer, knows.raw_answer, knows.question) == ("belmo1", "belmo1", "q01")
    assert knows.rows[0].status is RowStatus.HIT


def test_the_same_state_twice_gives_the_same_bytes() -> None:
    made = hashed()
    shared = asyncio.run(made.share(view(CHAT), QUESTIONS[0]))
    first, again = (asyncio.run(made.finish(shared, KNOWS.clone())) for _ in range(2))
    other = asyncio.run(hashed().finish(asyncio.run(hashed().share(view(CHAT), QUESTIONS[0])), KNOWS))
    assert repr(first) == repr(again) == repr(other)


def test_equal_evidence_is_answered_once_and_equal_answers_are_judged_once() -> None:
    answer, judge = Scripted(["belmo1"]), Scripted([CORRECT], role="judge")
    asked = finish(hashed(answer=answer, judge=judge), QUESTIONS[0], State(), KNOWS, KNOWS.clone(), WRONG)
    assert (len(answer.seen), len(judge.seen)) == (3, 1)
    paid = [[call.role for call in one.calls if not call.cached] for one in asked]
    assert paid == [["project", "select", "answer", "judge"], ["answer"], [], ["answer"]]
    assert all([call.role for call in one.calls][2:] == ["answer", "judge"] for one in asked)


def test_what_a_role_could_not_give_is_missing_never_incorrect() -> None:
    failed = Missing("outage", "HTTP 500")
    for role, before in (("project", ""), ("answer", "answer "), ("judge", "judge ")):
        (asked,) = finish(hashed(**{role: Scripted([failed])}), QUESTIONS[0], KNOWS)
        assert asked.verdict == Verdict(VerdictKind.MISSING, f"{before}outage: HTTP 500")
        assert not asked.verdict.judged and not asked.verdict.correct
    (asked,) = finish(hashed(answer=Scripted(["<think>well"])), QUESTIONS[0], KNOWS)
    assert asked.verdict.kind is VerdictKind.MISSING


def test_a_bug_in_a_role_is_raised_not_scored() -> None:
    def bug(given: object) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        finish(hashed(judge=Scripted([bug])), QUESTIONS[0], KNOWS)


def test_only_the_final_answer_reaches_the_judge() -> None:
    judge = Scripted([CORRECT])
    (asked,) = finish(hashed(answer=Scripted(["the gold is surely mine\nFinal: zork"]), judge=judge), QUESTIONS[0], State())
    assert judge.seen == ["zork"]
    assert (asked.answer, asked.raw_answer) == ("zork", "the gold is surely mine\nFinal: zork")


def test_anchors_are_counted_where_they_exist() -> None:
    cites = State([replace(record, from_ids=("v2",)) for record in KNOWS])
    arms = finish(hashed(), QUESTIONS[0], State(), KNOWS, cites)
    assert [(one.anchors.total, one.anchors.recalled, one.anchors.selected) for one in arms] == [(1, 1, 1)] * 3
    assert [one.anchors.rows for one in arms] == [1, 0, 1]  # quoted as fallback, not cited (v1), cited


def test_a_question_without_any_evidence_says_so() -> None:
    bare = network(("a", " "), questions=QUESTIONS[:2])
    result = asyncio.run(qa_gains(hashed(), view(bare), QUESTIONS[:2], [State(), KNOWS]))
    assert result.without_evidence == 2
    assert [[one.without_evidence for one in arm] for arm in result.arms] == [[True, True], [False, False]]
    assert asyncio.run(qa_gains(hashed(), view(CHAT), QUESTIONS[:2], [KNOWS])).without_evidence == 0


def test_the_id_covers_settings_thresholds_embedder_roles_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    base = offline_pipeline(PipelineConfig(), HashEmbedder())
    assert offline_pipeline(PipelineConfig(), HashEmbedder()).id == base.id and len(base.id) == 64
    other = HashEmbedder()
    other.id = "other"
    roles = replace(offline_roles(), answer=Scripted(["x"], name="offline", fingerprint="another prompt"))
    ids = {
        base.id,
        offline_pipeline(PipelineConfig(Budgets(k=3)), HashEmbedder()).id,
        offline_pipeline(PipelineConfig(ask=True), HashEmbedder()).id,
        offline_pipeline(PipelineConfig(thresholds=Thresholds(row=0.2)), HashEmbedder()).id,
        offline_pipeline(PipelineConfig(), other).id,
        Pipeline(PipelineConfig(), HashEmbedder(), roles).id,
    }
    sources = identity.source_hashes()
    assert {
        "data/memory/executor.py",
        "rollout/memory/vectors.py",
        "rollout/query/system2.py",
        "rollout/llm/offline.py",
    } <= set(sources)
    assert not any("store" in name for name in sources)
    monkeypatch.setattr(identity, "source_hashes", lambda: sources | {"rollout/query/system2.py": "edited"})
    ids.add(offline_pipeline(PipelineConfig(), HashEmbedder()).id)
    assert len(ids) == 7


def test_roles_must_be_the_ones_that_the_settings_name() -> None:
    with pytest.raises(DataError, match="litellm:m"):
        Pipeline(PipelineConfig(roles=RoleNames(answer="litellm:m")), HashEmbedder(), offline_roles())
    with pytest.raises(DataError, match="recall 5"):
        Budgets(recall=5)
    with pytest.raises(DataError, match="top_k"):
        Budgets(top_k=-1)


@pytest.mark.parametrize(
    ("count", "picked"), [(0, []), (1, [0]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (6, [0, 1, 3, 4]), (12, [0, 3, 6, 9])]
)
def test_questions_are_selected_evenly_by_id_as_text(count: int, picked: list[int]) -> None:
    questions = [Question(f"q{n}", "?", "x") for n in range(count)]
    ordered = sorted(questions, key=lambda one: one.id)
    assert selected_questions(questions[::-1]) == [ordered[index] for index in picked]


def test_gains_are_against_the_empty_memory_and_an_empty_writer_gains_exactly_nothing() -> None:
    result = asyncio.run(qa_gains(hashed(), view(CHAT), QUESTIONS, [KNOWS, State(), WRONG]))
    assert result.gains == (0.25, 0.0, 0.0)
    assert (result.total, result.judged, result.unjudged) == (4, 4, 0)
    assert [one.question for one in result.baseline] == ["q01", "q04", "q07", "q10"]


def test_an_empty_writer_gains_nothing_even_with_a_judge_that_wavers() -> None:
    judge = Scripted([CORRECT, INCORRECT, CORRECT, INCORRECT, CORRECT])
    assert asyncio.run(qa_gains(hashed(judge=judge), view(CHAT), QUESTIONS, [State(), State()])).gains == (0.0, 0.0)


def test_memory_can_also_lose() -> None:
    judge = Scripted([lambda answer: INCORRECT if answer == "zork" else CORRECT])
    assert asyncio.run(qa_gains(hashed(judge=judge), view(CHAT), QUESTIONS, [WRONG])).gains == (-0.25,)


def test_a_question_unjudged_in_one_arm_is_left_out_for_the_whole_group() -> None:
    unparsed = Verdict(VerdictKind.UNPARSED, "?")
    judge = Scripted([lambda answer: unparsed if answer == "zork" else CORRECT if answer == "belmo1" else INCORRECT])
    result = asyncio.run(qa_gains(hashed(judge=judge), view(CHAT), QUESTIONS, [KNOWS, WRONG]))
    assert (result.gains, result.unjudged, result.total) == ((0.0, 0.0), 1, 4)


def test_all_unjudged_or_no_questions_is_zero_and_reported() -> None:
    result = asyncio.run(qa_gains(hashed(judge=Scripted([Missing("outage")])), view(CHAT), QUESTIONS, [KNOWS, WRONG]))
    assert (result.gains, result.unjudged, result.total) == ((0.0, 0.0), 4, 4)
    result = asyncio.run(qa_gains(hashed(), view(CHAT), (), [KNOWS]))
    assert (result.gains, result.unjudged, result.total, result.baseline) == ((0.0,), 0, 0, ())


def test_project_and_system_1_run_once_a_question_and_not_once_a_state() -> None:
    project = Scripted([Missing("outage")])
    asyncio.run(qa_gains(hashed(project=project), view(CHAT), QUESTIONS, [KNOWS] * 8))
    assert len(project.seen) == 4
    assert all(not one.options and not hasattr(one, "answer") for one in project.seen)
