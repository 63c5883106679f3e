"""The client against a real HTTP server, a good one and a faulty one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rollout.llm.accounting import Accounting
from rollout.llm.cache import Reply, ReplyCache, content_key
from rollout.llm.client import Client, ClientConfig, run
from rollout.llm.errors import BudgetExceeded, MissingKind, MissingReply, SetupError
from rollout.llm.provider import LOCAL_KEY, Answered, ChatCall, Transient, redact
from rollout.llm.reply import json_object, verdict
from tests.rollout.llm.server import ChatServer, Turn

FAST = {"deadline": 5.0, "retries": 2, "backoff": 0.001}


def make_call(server: ChatServer, text: str = "hello", **more: Any) -> ChatCall:
    return ChatCall("judge", "openai/tiny", (("user", text),), api_base=server.base, **more)


def ask(client: Client, call: ChatCall, read: Any = str) -> Any:
    return run(client.ask(call, read))


def missing(client: Client, call: ChatCall, read: Any = str) -> MissingReply:
    with pytest.raises(MissingReply) as caught:
        ask(client, call, read)
    return caught.value


def test_a_reply_comes_back_is_counted_and_then_costs_nothing(tmp_path: Path) -> None:
    with ChatServer(lambda body, n: Turn(f"hi {n} é")) as server:
        client = Client(ClientConfig(cache=tmp_path / "c.sqlite", **FAST))
        assert [ask(client, make_call(server)) for _ in range(3)] == ["hi 0 é"] * 3
        again = Client(ClientConfig(cache=tmp_path / "c.sqlite", **FAST))
        assert ask(again, make_call(server)) == "hi 0 é"
    assert len(server.requests) == 1
    use = client.accounting.stages["judge"]
    assert (use.calls, use.cached, use.attempts, use.prompt_tokens, use.completion_tokens) == (3, 2, 1, 7, 3)
    assert again.accounting.tokens == 0
    assert server.requests[0]["temperature"] == 0 and server.requests[0]["seed"] == 0


def test_every_part_of_a_request_is_in_its_key() -> None:
    base = ChatCall("judge", "openai/a", (("system", "s"), ("user", "u")))
    others = [
        ChatCall("judge", "openai/b", base.messages),
        ChatCall("judge", "openai/a", (("system", "s"), ("user", "u "))),
        ChatCall("judge", "openai/a", (("user", "s"), ("user", "u"))),
        ChatCall("judge", "openai/a", base.messages, max_tokens=9),
        ChatCall("judge", "openai/a", base.messages, temperature=0.5),
        ChatCall("judge", "openai/a", base.messages, seed=1),
        ChatCall("judge", "openai/a", base.messages, schema="{}"),
        ChatCall("judge", "openai/a", base.messages, api_base="http://127.0.0.1:1/v1"),
    ]
    keys = [content_key(one.content()) for one in (base, *others)]
    assert len(set(keys)) == len(keys)
    assert content_key(ChatCall("answer", "openai/a", base.messages).content()) == keys[0]


def test_a_schema_reaches_the_server() -> None:
    with ChatServer(lambda body, n: Turn('{"a": 1}')) as server:
        client = Client(ClientConfig(**FAST))
        schema = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}})
        assert ask(client, make_call(server, schema=schema), json_object) == {"a": 1}
    assert server.requests[0]["response_format"]["json_schema"]["schema"] == json.loads(schema)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # litellm's, about the wrong type
@pytest.mark.parametrize(
    "fault",
    [
        Turn(status=429, headers={"Retry-After": "0.01"}),
        Turn(status=500),
        Turn(status=503),
        Turn("x", cut=True),
        Turn(body={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}),
        Turn(body={"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": 5}}]}),
        Turn(body=["not", "an", "object"]),
        Turn("   "),
        Turn("no json here"),
    ],
    ids=["429", "500", "503", "cut", "no choices", "wrong content type", "list", "empty", "prose"],
)
def test_a_passing_fault_is_retried_and_the_good_reply_kept(fault: Turn) -> None:
    with ChatServer(lambda body, n: fault if n == 0 else Turn('{"a": 1}')) as server:
        client = Client(ClientConfig(**FAST))
        assert ask(client, make_call(server), json_object) == {"a": 1}
        assert ask(client, make_call(server), json_object) == {"a": 1}
    assert len(server.requests) == 2
    assert client.accounting.stages["judge"].retries == 1
    assert not client.accounting.stages["judge"].missing


@pytest.mark.parametrize(
    ("fault", "kind", "attempts"),
    [
        (Turn(status=500), MissingKind.OUTAGE, 3),
        (Turn(status=429, headers={"Retry-After": "0"}), MissingKind.OUTAGE, 3),
        (Turn(status=429, headers={"Retry-After": "7200"}), MissingKind.OUTAGE, 1),
        (Turn("x", cut=True), MissingKind.OUTAGE, 3),
        (Turn(status=400), MissingKind.REJECTED, 1),
        (Turn(None), MissingKind.EMPTY, 3),
        (Turn('<think>{"a": 1}'), MissingKind.UNPARSABLE, 3),
        (Turn('so: {"a": 1', finish="stop"), MissingKind.UNPARSABLE, 3),
        (Turn('{"a": 1}', finish="length"), MissingKind.CUT_OFF, 1),
        (Turn('{"a": 1}', finish="content_filter"), MissingKind.REFUSAL, 1),
    ],
)
def test_a_lasting_fault_is_missing_by_its_kind_and_never_cached(fault: Turn, kind: MissingKind, attempts: int) -> None:
    with ChatServer(lambda body, n: fault if n < attempts else Turn('{"a": 1}')) as server:
        client = Client(ClientConfig(**FAST))
        assert missing(client, make_call(server), json_object).kind is kind
        assert len(server.requests) == attempts
        assert ask(client, make_call(server), json_object) == {"a": 1}  # nothing of the fault was kept
    assert client.accounting.stages["judge"].missing == {kind: 1}


def test_a_server_that_hangs_ends_by_the_deadline() -> None:
    with ChatServer(lambda body, n: Turn("late", hang=0.6)) as server:
        client = Client(ClientConfig(deadline=0.1, retries=1, backoff=0.001))
        assert missing(client, make_call(server)).kind is MissingKind.OUTAGE
    assert len(server.requests) == 2


def test_no_server_at_all_is_an_outage_and_a_refused_key_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(ClientConfig(**FAST))
    gone = ChatCall("answer", "openai/tiny", (("user", "x"),), api_base="http://127.0.0.1:9/v1")
    assert missing(client, gone).kind is MissingKind.OUTAGE
    monkeypatch.setenv(LOCAL_KEY, "very-secret-value")
    refusal = {"error": {"message": "Incorrect API key provided: very-secret-value", "type": "invalid_request_error"}}
    with ChatServer(lambda body, n: Turn(status=401, body=refusal)) as server, pytest.raises(SetupError) as caught:
        ask(client, make_call(server))
    assert server.keys == ["Bearer very-secret-value"]
    assert "very-secret-value" not in str(caught.value) and LOCAL_KEY in str(caught.value)


def test_a_providers_key_is_never_sent_to_a_server_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-provider-secret")
    monkeypatch.delenv(LOCAL_KEY, raising=False)
    with ChatServer(lambda body, n: Turn("hi")) as server:
        ask(Client(ClientConfig(**FAST)), make_call(server))
    assert server.keys == ["Bearer none"]
    assert redact("key sk-provider-secret and sk-other12345") == "key [key] and [key]"


def test_retry_after_is_waited_for_and_backoff_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def no_sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("rollout.llm.client.asyncio.sleep", no_sleep)

    async def send(call: ChatCall, deadline: float) -> Answered:
        raise Transient("busy", 7.0 if len(waits) == 0 else None)

    client = Client(ClientConfig(retries=3, backoff=1.0), send)
    assert missing(client, ChatCall("judge", "m", (("user", "x"),), api_base="here")).kind is MissingKind.OUTAGE
    assert waits[0] == 7.0 and waits[2] == 2 * waits[1] and 1.0 <= waits[1] <= 3.0


def test_no_more_than_the_limit_are_in_flight_and_equal_requests_share_one() -> None:
    async def many(client: Client, server: ChatServer) -> list[str]:
        return await asyncio.gather(*(client.ask(make_call(server, f"q{i % 6}"), str) for i in range(24)))

    with ChatServer(lambda body, n: Turn(body["messages"][0]["content"], hang=0.03)) as server:
        client = Client(ClientConfig(concurrency=2, **FAST))
        assert run(many(client, server)) == [f"q{i % 6}" for i in range(24)]
        assert run(many(client, server)) == [f"q{i % 6}" for i in range(24)]  # a second loop works too
    assert server.most_active == 2 and len(server.requests) == 6
    assert client.accounting.stages["judge"].shared == 18


def test_the_cap_stops_cleanly_and_the_next_run_goes_on_from_the_cache(tmp_path: Path) -> None:
    config = ClientConfig(cache=tmp_path / "c.sqlite", budget_tokens=25, **FAST)
    with ChatServer(lambda body, n: Turn("hi")) as server:
        client = Client(config)
        for i in range(3):
            ask(client, make_call(server, f"q{i}"))
        with pytest.raises(BudgetExceeded, match="25 tokens"):
            ask(client, make_call(server, "q3"))
        assert len(server.requests) == 3
        again = Client(config)
        assert [ask(again, make_call(server, f"q{i}")) for i in range(4)] == ["hi"] * 4
        assert len(server.requests) == 4


def test_a_usd_cap_needs_a_price_and_counts_it() -> None:
    async def send(call: ChatCall, deadline: float) -> Answered:
        return Answered(Reply("hi", 10, 10), "stop", cost_usd=0.4)

    client = Client(ClientConfig(budget_usd=1.0), send)
    with pytest.raises(SetupError, match="budget_tokens"):
        ask(client, ChatCall("judge", "openai/no-such-model-here", (("user", "x"),)))
    for i in range(3):
        ask(client, ChatCall("judge", "gpt-4o-mini", (("user", str(i)),)))
    with pytest.raises(BudgetExceeded):
        ask(client, ChatCall("judge", "gpt-4o-mini", (("user", "more"),)))
    assert client.accounting.cost_usd == pytest.approx(1.2)


def test_accounting_is_per_stage_and_plain_json() -> None:
    book = Accounting()
    book.spend("judge", 5, 2, None)
    book.spend("answer", 1, 1, 0.5)
    book.stage("judge").missing[MissingKind.OUTAGE] += 2
    rows = json.loads(json.dumps(book.table()))
    assert [row["stage"] for row in rows] == ["answer", "judge"]
    assert rows[1]["missing"] == {"outage": 2} and rows[1]["unpriced"] == 1


def test_the_first_reply_of_a_race_stays(tmp_path: Path) -> None:
    one, two = ReplyCache(tmp_path / "c"), ReplyCache(tmp_path / "c")
    one.put("k", Reply("first"))
    two.put("k", Reply("second"))
    assert one.get("k") == two.get("k") == Reply("first") and len(two) == 1


def test_with_outages_no_verdict_of_the_rest_changes_and_every_missing_one_is_counted() -> None:
    count = 100

    def truth(body: dict[str, Any]) -> Turn:
        return Turn(f"Final: {'correct' if int(body['messages'][0]['content']) % 3 else 'incorrect'}")

    async def judge(client: Client, server: ChatServer) -> dict[int, bool | MissingKind]:
        async def one(i: int) -> bool | MissingKind:
            try:
                return await client.ask(make_call(server, str(i)), verdict)
            except MissingReply as gone:
                return gone.kind

        return dict(enumerate(await asyncio.gather(*(one(i) for i in range(count)))))

    down = {7, 23, 41, 66, 90}
    with ChatServer(lambda body, n: truth(body)) as server:
        healthy = run(judge(Client(ClientConfig(**FAST)), server))
    with ChatServer(lambda body, n: Turn(status=500) if int(body["messages"][0]["content"]) in down else truth(body)) as server:
        client = Client(ClientConfig(**FAST))
        faulty = run(judge(client, server))
    assert {i for i, value in faulty.items() if value is MissingKind.OUTAGE} == down
    assert all(faulty[i] is healthy[i] for i in range(count) if i not in down)
    assert client.accounting.stages["judge"].missing == {MissingKind.OUTAGE: len(down)}


def test_run_works_inside_a_busy_loop() -> None:
    async def inner() -> int:
        return 5

    async def outer() -> int:
        return run(inner())

    assert asyncio.run(outer()) == 5
