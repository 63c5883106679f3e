"""The Writer `server:URL` against a scripted server: training-time prompt, proof of what is served, order, retries."""

from __future__ import annotations

import asyncio
import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from data.memory.state import State
from data.network import DataError
from data.segments import segments
from rollout.llm.client import run
from rollout.llm.errors import MissingKind, MissingReply, SetupError
from rollout.memory.embedder import load_embedder
from rollout.writer.prompt import WriterPrompt
from rollout.writer.sampler import PromptTooLong
from rollout.writer.view import build_view
from tests.tiny import make_network, make_tokenizer
from tests.writer_rl.serving import checkpoints
from tests.writer_rl.serving.fake import FakeVLLM, Turn
from writer_rl import Memory
from writer_rl.action_schema import action_grammar
from writer_rl.cli import app
from writer_rl.contract import ContractMismatch
from writer_rl.evaluation.rows import latest_rows
from writer_rl.evaluation.writers import open_writer
from writer_rl.export import export
from writer_rl.recipe import load
from writer_rl.runtime import Runtime
from writer_rl.served import ServedConfig
from writer_rl.serving import ServerWriter, named_writer

QUICK = ServedConfig(backoff=0.01, retries=3, deadline=20.0)
ADD = {
    "action": "ADD",
    "content": "A thing was said.",
    "owner": "GROUP",
    "source": "GROUP",
    "layer": "group_insight",
    "utype": "fact",
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    return export(checkpoints.full(folder / "run" / "grpo" / "round-0003"), folder / "writer", "float32").folder


def written(content: str) -> str:
    return json.dumps({"actions": [ADD | {"content": content}]})


def chat(count: int, name: str = "c") -> list[dict[str, Any]]:
    return [{"speaker": "u1", "label": "Ana", "text": f"{name} says {n}", "id": str(n)} for n in range(count)]


def test_a_write_asks_with_the_training_prompt_greedily_and_returns_the_text(exported: Path) -> None:
    segment = segments(make_network())[0]
    with FakeVLLM(exported, lambda body, number: Turn("salvage ```json\n" + written("x") + "\n```")) as server:
        text = run(ServerWriter(f"{server.url}#{exported}", config=QUICK).write(segment, State()))
    prompt = WriterPrompt("compact", make_tokenizer())
    view = build_view(segment, State(), load_embedder("hash"), prompt, head_token_budget=512)
    body = server.writes[0]
    assert tuple(body["prompt"]) == prompt.prompt_ids(view)
    assert (body["model"], body["temperature"], body["max_tokens"]) == (server.terms.id, 0.0, checkpoints.NEW_TOKENS)
    assert (body["stop_token_ids"], body["ignore_eos"], body["repetition_penalty"]) == ([2], True, 1.0)
    assert "structured_outputs" not in body
    assert text == prompt.decode(prompt.target_ids("salvage ```json\n" + written("x") + "\n```")[: checkpoints.NEW_TOKENS])


def test_structured_output_binds_the_write_to_the_grammar_of_its_budget(exported: Path) -> None:
    segment = segments(make_network())[0]
    with FakeVLLM(exported) as server:
        run(ServerWriter(f"{server.url}#{exported}", structured=True, config=QUICK).write(segment, State()))
    assert server.writes[0]["structured_outputs"] == {"grammar": action_grammar(segment.budget)}
    assert server.writes[0]["ignore_eos"] is False


def test_the_export_is_found_through_the_server_where_both_share_a_disk(exported: Path) -> None:
    with FakeVLLM(exported) as server:
        folder, terms = run(ServerWriter(f"{server.url}/v1/", config=QUICK).served.open())
    assert folder == exported and terms.id == server.card["id"] and server.probes == 1


def test_a_server_elsewhere_needs_the_export_to_be_named(exported: Path) -> None:
    with FakeVLLM(exported, root="/models/writer") as server, pytest.raises(DataError, match=r"server:URL#FOLDER"):
        run(ServerWriter(server.url, config=QUICK).served.open())


@pytest.mark.parametrize(
    ("card", "shift", "said"),
    [
        ({"id": "other"}, 0.0, "serves 'other', not Writer tiny-"),
        ({"max_model_len": 1539}, 0.0, r"--max-model-len 1540"),
        ({}, 0.002, "serves other weights"),
        ({}, -0.002, "serves other weights"),
        ({}, float("nan"), "serves other weights"),
    ],
)
def test_a_server_of_something_else_is_an_error(exported: Path, card: dict[str, Any], shift: float, said: str) -> None:
    with FakeVLLM(exported, shift=shift, **card) as server:
        writer = ServerWriter(f"{server.url}#{exported}", config=QUICK)
        with pytest.raises(ContractMismatch, match=said):
            run(writer.write(segments(make_network())[0], State()))
    assert server.writes == []


def test_rounding_within_the_bound_of_the_dtype_is_no_mismatch(exported: Path) -> None:
    with FakeVLLM(exported, shift=0.0005) as server:
        run(ServerWriter(f"{server.url}#{exported}", config=QUICK).write(segments(make_network())[0], State()))
    assert len(server.writes) == 1


def test_a_prompt_beyond_the_training_limit_is_never_sent(tmp_path: Path, exported: Path) -> None:
    long = [{"speaker": "u1", "label": "Ana", "text": "x" * 3000, "id": str(n)} for n in range(3)]
    with FakeVLLM(exported) as server:
        writer = ServerWriter(f"{server.url}#{exported}", config=QUICK)
        with Memory.open(tmp_path / "m", writer, embedder="hash", window=3) as memory:
            with pytest.raises(PromptTooLong, match="was trained for 1500"):
                memory.add(long)
            assert memory.counts()["messages"] == 3  # safe all the same
    assert server.writes == []


def test_a_passing_fault_is_asked_again_and_the_same_request_is_sent(exported: Path) -> None:
    turns = [Turn(status=503), Turn(status=429, headers={"Retry-After": "0.02"}), Turn(lost=True), Turn(written("x"))]
    with FakeVLLM(exported, lambda body, number: turns[number]) as server:
        run(ServerWriter(f"{server.url}#{exported}", config=QUICK).write(segments(make_network())[0], State()))
    assert len(server.writes) == 4
    assert all(body == server.writes[0] for body in server.writes)


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (Turn(status=500), MissingKind.OUTAGE),
        (Turn(status=503, headers={"Retry-After": "3600"}), MissingKind.OUTAGE),
        (Turn(status=400), MissingKind.REJECTED),
    ],
)
def test_a_write_that_cannot_be_had_is_missing_and_typed(exported: Path, turn: Turn, kind: MissingKind) -> None:
    with FakeVLLM(exported, lambda body, number: turn) as server, pytest.raises(MissingReply) as caught:
        run(ServerWriter(f"{server.url}#{exported}", config=QUICK).write(segments(make_network())[0], State()))
    assert caught.value.kind is kind
    assert len(server.writes) == (4 if turn.status == 500 else 1)


def test_a_key_is_sent_and_a_wrong_one_is_an_error_that_says_where_it_is_read(
    exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRITER_RL_API_KEY", "secret-1234")
    with (
        FakeVLLM(exported, lambda body, number: Turn(status=401)) as server,
        pytest.raises(SetupError, match="WRITER_RL_API_KEY") as caught,
    ):
        run(ServerWriter(f"{server.url}#{exported}", config=QUICK).write(segments(make_network())[0], State()))
    assert server.keys == ["Bearer secret-1234"] and "secret" not in str(caught.value)


def test_while_the_server_is_away_messages_are_kept_and_the_next_call_goes_on(tmp_path: Path, exported: Path) -> None:
    back = [False]
    with FakeVLLM(exported, lambda body, number: Turn("{}") if back[0] else Turn(status=503)) as server:
        writer = ServerWriter(f"{server.url}#{exported}", config=QUICK)
        with Memory.open(tmp_path / "m", writer, embedder="hash", window=2) as memory:
            report = memory.add(chat(4))
            assert report.progress.segments == () and "outage" in report.progress.delayed
            back[0] = True
            again = memory.add(chat(4))
            assert again.added.new == () and [one.written.t for one in again.progress.segments] == [0, 1]


def test_many_conversations_wait_for_an_absent_server_together(tmp_path: Path, exported: Path) -> None:
    with FakeVLLM(exported) as server:
        server.away = True
        writer = ServerWriter(f"{server.url}#{exported}", config=QUICK)

        async def everyone() -> list[Any]:
            segment = segments(make_network())[0]
            return await asyncio.gather(*(writer.write(segment, State()) for _ in range(20)), return_exceptions=True)

        assert all(isinstance(one, MissingReply) for one in run(everyone()))
        assert server.asked == QUICK.retries + 1
        server.away = False
        assert all(isinstance(one, str) for one in run(everyone()))
        assert server.asked == QUICK.retries + 2 and server.probes == 1


def test_an_answer_that_was_lost_is_written_once(tmp_path: Path, exported: Path) -> None:
    def script(body: dict[str, Any], number: int) -> Turn:
        return Turn('{"actions": []}', lost=number == 0)

    with (
        FakeVLLM(exported, script) as server,
        Memory.open(tmp_path / "m", ServerWriter(f"{server.url}#{exported}", config=QUICK), embedder="hash", window=2) as one,
    ):
        report = one.add(chat(2))
        assert [segment.written.t for segment in report.progress.segments] == [0]
        assert one.add(chat(2)).progress.segments == ()
    assert len(server.writes) == 2 and server.writes[0] == server.writes[1]


def test_two_callers_of_one_memory_share_a_call_and_write_once(tmp_path: Path, exported: Path) -> None:
    with FakeVLLM(exported, lambda body, number: Turn(wait=0.2)) as server:
        writer = ServerWriter(f"{server.url}#{exported}", config=QUICK)
        with Memory.open(tmp_path / "m", writer, embedder="hash", window=2) as memory:

            async def both() -> list[Any]:
                return await asyncio.gather(memory.add_async(chat(2)), memory.add_async(chat(2)))

            reports = run(both())
            repeated = sorted(one.written.repeated for report in reports for one in report.progress.segments)
            assert repeated == [False, True]
    assert len(server.writes) == 1


def waits(body: dict[str, Any], number: int) -> Turn:
    """An answer after 0 to 30 ms, by the prompt."""
    return Turn(wait=zlib.crc32(str(body["prompt"]).encode()) % 31 / 1000)


@pytest.mark.parametrize("conversations", [1, 8, 64])
def test_conversations_keep_their_order_and_no_more_than_allowed_are_with_the_server(
    tmp_path: Path, exported: Path, conversations: int
) -> None:
    """Windows of 2 messages, 3 segments each: prompt t of a conversation holds its messages 2t and 2t+1."""
    limit = 6
    with FakeVLLM(exported, waits) as server:
        writer = ServerWriter(f"{server.url}#{exported}", config=ServedConfig(concurrency=limit, backoff=0.01))
        memories = [Memory.open(tmp_path / f"c{n}", writer, embedder="hash", window=2) for n in range(conversations)]

        async def everyone() -> None:
            await asyncio.gather(*(memory.add_async(chat(6, f"c{n}z")) for n, memory in enumerate(memories)))

        run(everyone())
        for memory in memories:
            assert [row["t"] for row in memory.store.rows("SELECT t FROM segments WHERE written = 1 ORDER BY t")] == [0, 1, 2]
            memory.close()
    asked = server.prompts()
    assert len(asked) == 3 * conversations  # none twice
    for n in range(conversations):
        own = [text for text in asked if f"c{n}z says" in text]
        assert [f"says {2 * t}" in text for t, text in enumerate(own)] == [True] * 3
    assert server.most <= limit
    assert (writer.served.most > 1) == (conversations > 1)  # side by side


def test_one_writer_serves_threads_and_event_loops_alike(tmp_path: Path, exported: Path) -> None:
    with FakeVLLM(exported, waits) as server:
        writer = ServerWriter(f"{server.url}#{exported}", config=ServedConfig(concurrency=3))

        def one(n: int) -> int:
            with Memory.open(tmp_path / f"c{n}", writer, embedder="hash", window=2) as memory:
                return sum(len(memory.add(chat(2 * k, f"c{n}z")).progress.segments) for k in (1, 2))

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(one, range(8))) == [2] * 8
    assert len(server.writes) == 16 and server.most <= 3 and server.probes == 1


def test_the_memory_command_writes_through_the_server(tmp_path: Path, exported: Path) -> None:
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, chat(4))), "utf-8")

    def ingest(*more: str) -> Any:
        writer = ["--writer", f"server:{server.url}#{exported}", *more]
        store = ["--store", str(tmp_path / f"m{len(more)}"), "--embedder", "hash", "--json"]
        return CliRunner().invoke(app, ["memory", "ingest", str(tmp_path / "chat.jsonl"), *store, *writer])

    with FakeVLLM(exported, lambda body, number: Turn('{"actions": []}')) as server:
        done = ingest()
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["segments"] == 1 and "structured_outputs" not in server.writes[0]
        assert ingest("--structured").exit_code == 0
        assert "grammar" in server.writes[1]["structured_outputs"]
        server.card["id"] = "other"
        refused = ingest("--structured", "--keep-pending", "--window", "2")
        assert refused.exit_code == 2 and "not Writer" in refused.output and refused.output.strip().count("\n") == 0


def evaluate(tmp_path: Path, url: str, *more: str) -> Any:
    sizes = ["data.gym.test=2", "data.gym.config={segments:[2,2],messages:[2,3],members:[2,3]}", "eval.max_new_tokens=64"]
    checkpoints.make_model().save_pretrained(tmp_path / "model")
    make_tokenizer().save_pretrained(tmp_path / "model")
    recipe = ["tiny", f"model.path={tmp_path / 'model'}", f"checkpoints={tmp_path}", *sizes, *more]
    return CliRunner().invoke(app, ["eval", *recipe, "--writers", f"x=server:{url},none=empty", "--to", str(tmp_path / "to")])


def test_an_evaluation_asks_the_server_for_every_position(tmp_path: Path, exported: Path) -> None:
    with FakeVLLM(exported) as server:
        done = evaluate(tmp_path, f"{server.url}#{exported}")
    assert done.exit_code == 0, done.output
    rows = [row for row in latest_rows(tmp_path / "to" / "rows.jsonl") if row["writer"] == "x"]
    assert {row["writer_id"] for row in rows} == {f"server:{server.terms.id}"}
    assert len(server.writes) == 4 and server.writes[0]["temperature"] == 0.8
    assert len({body["seed"] for body in server.writes}) == 4
    assert all(row["valid"] == 1.0 for row in rows if row["row"] == "memory")


def test_an_evaluation_that_would_show_another_memory_than_in_training_is_refused(tmp_path: Path, exported: Path) -> None:
    with FakeVLLM(exported) as server:
        done = evaluate(tmp_path, f"{server.url}#{exported}", "writer.head_tokens=100")
    assert done.exit_code == 2 and "add writer.head_tokens=512" in done.output
    assert server.writes == []


def test_the_networks_of_the_training_come_with_the_contract(tmp_path: Path, exported: Path) -> None:
    runtime = Runtime.of(load("tiny", [f"checkpoints={tmp_path}"]))
    prompt = WriterPrompt("compact", make_tokenizer())
    with FakeVLLM(exported) as server:
        writer = open_writer(f"server:{server.url}#{exported}", "x", runtime, [], prompt)
    assert writer.trained_on == frozenset(server.terms.trained_on) and len(writer.trained_on) == 4
    assert writer.samples and writer.prompt.hash == prompt.hash


def test_an_evaluation_without_a_server_says_so(tmp_path: Path, exported: Path) -> None:
    done = evaluate(tmp_path, "http://127.0.0.1:9#x")
    assert done.exit_code == 2 and "is it running?" in done.output


@pytest.mark.parametrize(
    ("name", "said"), [("server:", "is not known"), ("server:localhost:8000", "give the server's address")]
)
def test_an_address_that_is_none_is_told(name: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        named_writer(name)


def test_structured_output_is_for_servers_only() -> None:
    with pytest.raises(DataError, match="option of server:URL"):
        named_writer("empty", structured=True)
