"""Attribution, coverage and partial scores on small states by hand; what a cached call says of its tokens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from data.memory.records import Layer, Record, UType
from data.memory.state import State
from data.network import Question
from rollout.llm.cache import Reply
from rollout.llm.client import Client, ClientConfig
from rollout.llm.provider import Answered, ChatCall, Transient
from tests.writer_rl.evaluations import question_row, small_recipe
from writer_rl.evaluation.attribution import attribution, coverage
from writer_rl.evaluation.partial import lacks_score, partial_score
from writer_rl.evaluation.usage import usage
from writer_rl.runtime import Runtime


def record(entry: str, content: str, owner: str = "Ann", source: str = "Ann", links: tuple[str, ...] = ()) -> Record:
    return Record(entry, content, owner, source, Layer.CORE, UType.FACT, "s1", 0, 1, "", links=links)


def state(*records: Record) -> State:
    made = State()
    for one in records:
        made.append(one)
    return made


GOLD = state(
    record("d1", "the locker code is 4412"),
    record("d2", "the locker code is 9071 now", links=("d1",)),
    record("d3", "works as a baker in the old town", "Ben", "Ben"),
)


def test_the_reference_itself_has_no_faults_and_covers_everybody() -> None:
    found = attribution(GOLD, GOLD)
    assert (found["attribution_errors"], found["stale_heads"], found["missed"]) == (0, 0, 0)
    assert (found["heads"], found["gold_heads"]) == (2, 2)
    assert coverage(GOLD, GOLD) == {"Ann": 1.0, "Ben": 1.0}
    assert coverage(State(), GOLD) == {"Ann": 0.0, "Ben": 0.0}


@pytest.mark.parametrize(("owner", "source"), [("Ann", "Ben"), ("Ben", "Ann")])
def test_right_content_under_a_wrong_owner_or_source_is_an_attribution_error(owner: str, source: str) -> None:
    found = attribution(state(record("d1", "works as a baker in the old town", owner, source)), GOLD)
    assert (found["attribution_errors"], found["missed"]) == (1, 2)


def test_what_was_superseded_is_stale() -> None:
    assert attribution(state(record("d1", "the locker code is 4412")), GOLD)["stale_heads"] == 1
    assert attribution(state(record("d1", "the locker code is 9071 now")), GOLD)["stale_heads"] == 0


def test_an_owner_is_covered_by_share_and_each_head_once() -> None:
    gold = state(record("d1", "plays chess on Monday"), record("d2", "keeps two grey cats at home"))
    twice = state(record("d1", "plays chess on Monday"), record("d2", "plays chess on Mondays"))
    assert coverage(twice, gold) == {"Ann": 0.5}


def runtime(tmp_path: Path, judge: str, client: Client) -> Runtime:
    made = Runtime.of(small_recipe(tmp_path))
    pipeline = made.recipe.pipeline.model_copy(update={"judge": judge})
    return replace(made, client=client, recipe=made.recipe.model_copy(update={"pipeline": pipeline}))


async def unreachable(call: ChatCall, deadline: float) -> Answered:
    raise Transient("HTTP 503")


def test_partial_scores_are_letters_offline_words_or_the_rubric(tmp_path: Path) -> None:
    seen: list[str] = []

    async def send(call: ChatCall, deadline: float) -> Answered:
        seen.append(call.messages[-1][1])
        return Answered(Reply('{"reason": "half", "score": 0.5}', 21, 7), "stop")

    client = Client(ClientConfig(), send)
    offline, judged = runtime(tmp_path, "offline", client), runtime(tmp_path, "litellm:test/judge", client)
    choice = Question(
        "q1", "who?", "Ben did", options=(("A", "Ann"), ("B", "Ben")), correct_option="B", format="multiple_choice"
    )
    extra = (("contamination_foil", "Cléo"),)
    plain = Question("q2", "what?", "red bicycles everywhere", "Q4", "long_form", extra=extra)

    def score(made: Runtime, question: Question, answer: str, benchmark: str = "socialmem") -> float | None:
        return asyncio.run(partial_score(made, benchmark, question, answer)).score

    assert (score(offline, choice, "B"), score(judged, choice, "C) x")) == (1.0, 0.0)
    assert seen == []
    assert score(offline, plain, "many red bicycles") == pytest.approx(2 / 3)
    assert score(offline, plain, "not mentioned") == 0.0
    partial = asyncio.run(partial_score(judged, "socialmem", plain, "red"))
    call = partial.fields([{"role": "judge"}])["calls"][1]
    assert (partial.score, call["role"], call["prompt_tokens"], call["completion_tokens"]) == (0.5, "score", 21, 7)
    assert usage([question_row("a", "n", "q2", "correct", calls=[call])], "a").total == 0  # judging is no cost of the system
    assert "KIND Q4" in seen[0] and "Cléo" in seen[0]
    down = runtime(tmp_path, "litellm:test/judge", Client(ClientConfig(retries=0), unreachable))
    row = {"benchmark": "socialmem", "answer": "red"} | asyncio.run(partial_score(down, "socialmem", plain, "red")).fields([])
    assert row["score"] is None and lacks_score(row)  # asked again when the evaluation goes on
    assert not lacks_score(row | {"answer": ""}) and not lacks_score(row | {"benchmark": "gym"})
    assert score(judged, plain, "") is None
    assert score(judged, plain, "red", "gym") is None


def test_a_cached_call_keeps_its_tokens_and_costs_nothing() -> None:
    async def send(call: ChatCall, deadline: float) -> Answered:
        return Answered(Reply("red", 21, 7), "stop", cost_usd=1.0)

    client = Client(ClientConfig(), send)
    call = ChatCall("answer", "test/m", (("user", "x"),))
    first, second = (asyncio.run(client.exchange(call, str)) for _ in range(2))
    assert [(one.cached, one.prompt_tokens, one.completion_tokens) for one in (first, second)] == [
        (False, 21, 7),
        (True, 21, 7),
    ]
    assert client.accounting.cost_usd == 1.0
