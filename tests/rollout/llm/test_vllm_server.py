"""Client and roles against vLLM's own server with a real small model: what no scripted server can vouch for."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from rollout.llm.client import Client, ClientConfig, run
from rollout.llm.errors import MissingKind, MissingReply
from rollout.llm.provider import ChatCall
from rollout.llm.reply import field, json_object
from rollout.llm.roles import build_roles
from rollout.query.config import RoleNames
from rollout.query.evidence import Evidence, Tense
from rollout.query.roles import Gold, Missing, Projected, Query, Reply, Roles, Verdict
from tests.vllm_process import SETTINGS, needs_vllm
from writer_rl.smollm2 import INSTALL, PACKAGE, convert
from writer_rl.vllm_server import free_port, running

pytestmark = [
    needs_vllm,
    pytest.mark.skipif(
        importlib.util.find_spec(PACKAGE) is None, reason=f"{PACKAGE}, the package of the model, is not installed: {INSTALL}"
    ),
]

SERVED = "smollm2"
CONFIG = ClientConfig(deadline=120.0, retries=0)  # the longest reply, 1024 tokens, takes a minute on one core
WEAK = frozenset({"empty", "cut_off", "unreadable"})  # what a small model may do; an outage or a rejection is ours
QUERY = Query("When does Ann want to leave?", asker="Ben")
EVIDENCE = Evidence(
    'MESSAGES\n[v1 2025-01-01T10:00:00] Ann: "I would like to leave on Friday at nine."\n\nMEMORY\n(none)', (), Tense.HEAD, None
)


@dataclass(frozen=True)
class Server:
    base: str
    model: Path


@dataclass(frozen=True)
class Replies:
    """One answer, one verdict and one projection, each asked once, and the client they went through."""

    client: Client
    answer: Reply[str]
    verdict: Reply[Verdict]
    projected: Reply[Projected]


def arguments(model: Path, port: int) -> list[str]:
    # A small model under a JSON schema else writes white space, which is legal, up to the token limit.
    structured = json.dumps({"backend": "xgrammar", "disable_any_whitespace": True})
    made = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", SERVED]
    made += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048"]
    return [*made, "--structured-outputs-config", structured]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:  # 270 MB: not left behind as tmp_path would be
        model, log, port = convert(Path(folder, "model")), Path(folder, "server.log"), free_port()
        with running(arguments(model, port), port, log, SETTINGS) as url:
            yield Server(f"{url}/v1", model)


@pytest.fixture(scope="module")
def replies(server: Server) -> Replies:
    client, name = Client(CONFIG), f"litellm:openai/{SERVED}"
    offline = Roles(*("offline role",) * 5)  # type: ignore[arg-type]
    roles = build_roles(RoleNames(project=name, answer=name, judge=name), offline, client, server.base)

    async def work() -> tuple[Reply[str], Reply[Verdict], Reply[Projected]]:  # together: the server batches them
        return await asyncio.gather(
            roles.answer.answer(QUERY, EVIDENCE),
            roles.judge.judge(QUERY, Gold("Friday at nine"), "She wants to leave on Friday at nine."),
            roles.project.project(QUERY, ["Ann", "Ben"]),
        )

    return Replies(client, *run(work()))


def choice(server: Server, model: str = SERVED, words: int = 4) -> ChatCall:
    """A call that any model answers in the form asked for, because the server lets it write nothing else."""
    schema = {
        "type": "object",
        "properties": {"day": {"enum": ["Friday", "Monday"]}},
        "required": ["day"],
        "additionalProperties": False,
    }
    messages = (("system", "You name days."), ("user", "The trip is on Friday. " * words + "When is the trip?"))
    return ChatCall("choice", f"openai/{model}", messages, 64, schema=json.dumps(schema), api_base=server.base)


def read_day(text: str) -> str:
    return field(json_object(text), "day", str)


def usable(replies: Replies, reply: Reply[Any]) -> bool:
    """Whether a reply is of use; checks that it was counted, and if it is not of use, that it is typed."""
    use = replies.client.accounting.stages[reply.call.role]
    assert (use.calls, use.attempts, use.cached) == (1, 1, 0)
    assert use.prompt_tokens > 100 and use.completion_tokens > 0 and use.cost_usd == 0.0 and use.unpriced == 0
    if isinstance(reply.value, Missing):
        assert reply.value.reason in WEAK
        assert use.missing.total() == 1
        return False
    assert (reply.call.prompt_tokens, reply.call.completion_tokens) in (
        (use.prompt_tokens, use.completion_tokens),
        (0, 0),  # an unparsed verdict
    )
    return True


def test_an_answer_is_text_and_its_tokens_are_counted(replies: Replies) -> None:
    if usable(replies, replies.answer):
        assert isinstance(replies.answer.value, str) and replies.answer.value.strip()


def test_a_judge_gives_a_verdict_or_a_typed_missing(replies: Replies) -> None:
    if usable(replies, replies.verdict):
        assert isinstance(replies.verdict.value, Verdict)


def test_a_projection_follows_its_schema_or_is_a_typed_missing(replies: Replies) -> None:
    if usable(replies, replies.projected):
        assert isinstance(replies.projected.value, Projected)


def test_the_schema_binds_the_model_the_tokens_are_the_tokenizers_and_a_repeat_costs_nothing(server: Server) -> None:
    client, call = Client(CONFIG), choice(server)
    first = run(client.exchange(call, read_day))
    assert first.value in ("Friday", "Monday") and not first.cached and first.attempts == 1
    messages = [{"role": role, "content": text} for role, text in call.messages]
    tokenizer: Any = AutoTokenizer.from_pretrained(server.model)
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    assert first.prompt_tokens == len(prompt["input_ids"])
    spent = client.accounting.tokens
    assert spent == first.prompt_tokens + first.completion_tokens
    again = run(client.exchange(call, read_day))
    assert again.value == first.value and again.cached and again.attempts == 0
    assert client.accounting.tokens == spent and client.accounting.stages["choice"].attempts == 1


def test_a_request_longer_than_the_models_window_is_rejected_and_typed(server: Server) -> None:
    with pytest.raises(MissingReply) as caught:
        run(Client(CONFIG).ask(choice(server, words=600), read_day))
    assert caught.value.kind is MissingKind.REJECTED
