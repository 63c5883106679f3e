"""Questions that a teacher writes: what it is shown, what is refused, where they are kept."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data.catalog import load_networks
from data.checks import Level, check
from data.network import Message, fold
from tests.tiny import make_network
from tests.writer_rl.teachers import answer, serve, taught
from writer_rl.teach import questions
from writer_rl.teach.loop import Status
from writer_rl.teach.questions import ABSTENTION, Draft, Kind, judge

BARE = replace(make_network(), questions=())
BLOCK = [*BARE.messages(), Message("m8", "u1", "  ")]
GOOD = {"kind": "current", "question": "What is Ana's locker now?", "answer": "tarvi", "evidence": [5]}


def judged(*listed: Any, asked: tuple[Kind, ...] = (Kind.CURRENT,), taken: set[str] | None = None) -> Any:
    return judge(BLOCK, asked, taken or set())(json.dumps({"questions": listed}))


def test_a_network_gets_as_many_questions_as_asked_for_with_evidence_and_without_asker(tmp_path: Path) -> None:
    with serve(lambda body, n: answer(body)) as server:
        (done,) = taught(server, tmp_path, BARE, questions=8)
    assert done.status is Status.TAUGHT and len(server.requests) == 3
    ((network, teacher),) = load_networks(tmp_path)
    assert network == done.network and teacher is not None
    assert len(network.questions) == 8 and len({one.id for one in network.questions}) == 8
    assert Counter(one.kind for one in network.questions)[Kind.WHO] == 2
    assert {one.kind for one in network.questions} == set(Kind)
    for one in network.questions:
        assert one.asker is None and one.format == "short_answer"
        assert one.evidence == (() if one.abstain else ("m1", "m2"))
        assert one.abstain == (one.kind == Kind.NOT_MENTIONED) and (not one.abstain or one.answer == ABSTENTION)
    assert not [row for row in check([network]).rows if row.level is Level.ERROR]
    shown = server.requests[2]["messages"][1]["content"]
    assert "[5] 2026-01-09T09:00:00 Ana: My locker is now tarvi." in shown and "2 who, 2 current, 1 earlier" in shown


def test_questions_are_asked_for_once_and_can_be_added_later(tmp_path: Path) -> None:
    with serve(lambda body, n: answer(body)) as server:
        taught(server, tmp_path, BARE)
        (done,) = taught(server, tmp_path, BARE, questions=2)
        assert done.status is Status.KEPT and len(done.network.questions) == 2 and len(server.requests) == 3
        (again,) = taught(server, tmp_path, BARE, questions=5)
        (bare,) = taught(server, tmp_path, BARE)
    assert again.network.questions == bare.network.questions == done.network.questions and len(server.requests) == 3


def test_faulty_questions_are_sent_back_and_the_teacher_file_stays(tmp_path: Path) -> None:
    faulty = json.dumps({"questions": [GOOD | {"evidence": [70]}]})
    broken = True

    def script(body: dict[str, Any], number: int) -> str:
        writing = body["messages"][0]["content"].startswith("You write questions")
        return faulty if broken and writing else answer(body)

    with serve(script) as server:
        (done,) = taught(server, tmp_path, BARE, questions=1)
        assert (done.status, done.reason, done.done) == (Status.UNFINISHED, "invalid", 2) and len(server.requests) == 5
        assert (tmp_path / "teacher" / "tiny.json").is_file() and not (tmp_path / "networks" / "tiny.json").exists()
        assert "evidence names message 70" in server.requests[3]["messages"][3]["content"]
        broken = False
        (done,) = taught(server, tmp_path, BARE, questions=1)
    assert len(done.network.questions) == 1 and len(server.requests) == 6


def test_long_chats_are_asked_about_in_blocks_and_all_parts_get_their_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MOST_MESSAGES", 3)

    def script(body: dict[str, Any], number: int) -> str:
        return answer(body).replace("What of", f"Part {number}: what of").replace("[2, 1]", "[1]")

    with serve(script) as server:
        (done,) = taught(server, tmp_path, BARE, questions=4)
    assert len(server.requests) == 2 + 3
    found = [(one.kind, one.evidence) for one in done.network.questions]
    assert found == [("who", ("m1",)), ("current", ("m1",)), ("earlier", ("m4",)), ("stance", ("m7",))]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kind": "where"}, "kind is 'where'"),
        ({"kind": ["who"]}, "kind is"),
        ({"question": " "}, "not empty"),
        ({"answer": 5}, "must be texts"),
        ({"answer": "\ud800"}, "must be texts"),
        ({"answer": "x" * 161}, "161 characters"),
        ({"question": "What does message 5 say?"}, "by its number"),
        ({"answer": "see [5]"}, "by its number"),
        ({"evidence": [8]}, "message 8"),
        ({"evidence": [0]}, "message 0"),
        ({"evidence": [9]}, "message 9"),
        ({"evidence": []}, "0 messages"),
        ({"evidence": [1, 2, 3, 4, 5, 6]}, "6 messages"),
        ({"evidence": ["5"]}, "list of message numbers"),
        ({"evidence": [True]}, "list of message numbers"),
        ({"evidence": None}, "list of message numbers"),
    ],
)
def test_what_does_not_hold_is_refused_with_the_reason(change: dict[str, Any], word: str) -> None:
    result = judged(GOOD | change)
    assert result.value is None and len(result.faults) == 1 and word in result.faults[0]


def test_what_holds_becomes_a_draft_with_message_ids() -> None:
    assert judged(GOOD | {"evidence": [5, 1, 5]}).value == [Draft(Kind.CURRENT, GOOD["question"], "tarvi", ("m1", "m5"))]


def test_not_mentioned_has_the_fixed_answer_and_no_evidence_and_is_no_way_out() -> None:
    absent = GOOD | {"kind": "not_mentioned", "answer": "no idea", "evidence": []}
    assert judged(absent, asked=(Kind.NOT_MENTIONED,)).value == [Draft(Kind.NOT_MENTIONED, GOOD["question"], ABSTENTION, ())]
    assert "has no evidence" in judged(absent | {"evidence": [1]}, asked=(Kind.NOT_MENTIONED,)).faults[0]
    assert "1 questions are not_mentioned where 0" in judged(absent).faults[0]


def test_another_kind_may_stand_in_for_one_that_the_chat_does_not_give() -> None:
    assert judged(GOOD, asked=(Kind.DECISION,)).value


def test_the_number_must_be_right_and_no_question_comes_twice() -> None:
    assert "2 questions where 1" in judged(GOOD, GOOD | {"question": "Other?"}).faults[0]
    twice = judged(GOOD, GOOD | {"question": GOOD["question"].upper()}, asked=(Kind.CURRENT,) * 2)
    assert twice.value is None and "more than once" in twice.faults[0]
    assert judged(GOOD, taken={fold(GOOD["question"])}).value is None


@pytest.mark.parametrize("reply", ["", "no", "[]", '{"questions": 5}', '{"questions": [5]}', '{"questions": [{"kind": "who"'])
def test_no_text_makes_the_reader_raise(reply: str) -> None:
    result = judge(BLOCK, [Kind.WHO], set())(reply)
    assert result.value is None and result.faults
