"""The `vllm-server` engine against scripted servers: what it asks, how it deals requests, and what a failing server causes."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from rollout.engines.base import EngineError, Inspectable, Managed, Request, RequestKey, SamplingParams
from rollout.engines.vllm_server import ServersConfig, VLLMServers, start_command

TENSORS = [("a", torch.ones(2))]
SUMS = [{"names": ["a"], "total": 2.0, "absolute": 2.0}]


@dataclass
class Server:
    """Answers like vLLM. `answers` replaces an answer by status and body, or by a wait in seconds."""

    url: str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, Any] | float] = field(default_factory=dict)

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append((path, body))
        scripted = self.answers.get(path)
        if isinstance(scripted, float):
            time.sleep(scripted)
        elif scripted is not None:
            return scripted
        if path == "/collective_rpc":
            return 200, {"results": [SUMS if body["method"] == "weight_sums" else "1"]}
        if path == "/v1/completions":
            choice = {"token_ids": [7, 2], "logprobs": {"token_logprobs": [-1.5, -0.5]}, "finish_reason": "stop"}
            return 200, {"choices": [choice]}
        return 200, {"data": [{"id": "served"}], "success": True}

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@pytest.fixture
def servers() -> Iterator[Callable[[], Server]]:
    running: list[ThreadingHTTPServer] = []

    def start() -> Server:
        made = Server()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                status, answer = made.answer(self.path, json.loads(self.rfile.read(length) or b"null"))
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST

            def log_message(self, *args: Any) -> None:
                return None

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        running.append(http)
        made.url = f"http://127.0.0.1:{http.server_address[1]}"
        return made

    yield start
    for http in running:
        http.shutdown()
        http.server_close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[..., VLLMServers]]:
    made: list[VLLMServers] = []

    def start(*running: Server, **settings: Any) -> VLLMServers:
        values: dict[str, Any] = {"deadline": 5.0, "answer": 5.0, **settings}
        urls = tuple(one.url for one in running)
        made.append(VLLMServers(ServersConfig(urls, tmp_path, 2, torch.float32, **values)))
        return made[-1]

    yield start
    for one in made:
        one.close()


def request(g: int, t: int = 0) -> Request:
    return Request((5, 6), 2**62 + g, SamplingParams(0.7, 0.9, 3), RequestKey(1, "net", 0, g, t))


def sync(made: VLLMServers, version: int = 0) -> None:
    asyncio.run(made.sync(TENSORS, version))


def test_ids_go_in_and_ids_come_out_with_everything_said_outright(servers, engine) -> None:
    server = servers()
    made = engine(server)
    assert isinstance(made, Inspectable) and isinstance(made, Managed)
    sync(made, 4)
    completion = asyncio.run(made.generate(request(1)))
    assert (completion.token_ids, completion.logprobs) == ((7, 2), (-1.5, -0.5))
    assert (completion.finish_reason, completion.weights_version) == ("stop", 4)
    body = server.asked[-1][1]
    assert body["model"] == "served" and body["prompt"] == [5, 6] and body["seed"] == 2**62 + 1
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (0.7, 0.9, 0, 0, 1)
    assert body["stop_token_ids"] == [2] and body["ignore_eos"] and body["max_tokens"] == 3


def test_a_trajectory_stays_with_its_server_and_a_group_is_spread(servers, engine) -> None:
    made = engine(*(servers() for _ in range(3)))
    homes = [{made.server_of(request(g, t).key) for t in range(5)} for g in range(6)]
    assert all(len(one) == 1 for one in homes)
    assert sorted(home for one in homes for home in one) == [0, 0, 1, 1, 2, 2]
    assert {made.server_of(RequestKey(-1, "", 0, g, 0)) for g in range(made.replicas)} == {0, 1, 2}  # the parity gate's


def test_a_sync_writes_once_loads_everywhere_and_then_resets(servers, engine, tmp_path) -> None:
    first, second = servers(), servers()
    made = engine(first, second)
    sync(made, 1)
    sync(made, 2)
    for server in (first, second):
        assert server.paths == ["/v1/models", *["/collective_rpc", "/reset_prefix_cache"] * 2]
        files = [Path(body["args"][0]) for path, body in server.asked if path == "/collective_rpc"]
        assert [file.parent.name for file in files] == ["v000001", "v000002"] and files[1].is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["v000002"]


def test_one_rank_leads_and_the_others_only_count(servers, engine) -> None:
    server = servers()
    made = engine(server, leads=False)
    sync(made, 5)
    assert server.paths == ["/v1/models"]
    assert asyncio.run(made.generate(request(0))).weights_version == 5


def test_an_adapter_gets_a_new_name_each_version_and_no_other_run_has_it(servers, engine) -> None:
    server = servers()
    made = engine(server, adapter={"r": 8}, token="ab12")
    sync(made, 0)
    sync(made, 1)
    assert [body["lora_name"] for path, body in server.asked if "lora" in path] == [
        *("writer-ab12-0", "writer-ab12-1", "writer-ab12-0")
    ]
    assert server.paths[-1] == "/v1/unload_lora_adapter"
    asyncio.run(made.generate(request(0)))
    assert server.asked[-1][1]["model"] == "writer-ab12-1"


def test_a_server_that_answers_500_is_quoted(servers, engine) -> None:
    server = servers()
    server.answers["/collective_rpc"] = (500, {"error": "KeyError: 'model.layers.9'"})
    made = engine(server)
    with pytest.raises(EngineError, match=rf"{server.url}/collective_rpc answered 500: .*KeyError: 'model.layers.9'"):
        sync(made, 1)
    assert made.version == -1
    with pytest.raises(EngineError, match="before its first sync"):
        asyncio.run(made.generate(request(0)))


@pytest.mark.parametrize("path", ["/collective_rpc", "/reset_prefix_cache", "/v1/models"])
def test_a_server_that_never_answers_meets_the_deadline(servers, engine, path: str) -> None:
    server = servers()
    server.answers[path] = 2.0
    with pytest.raises(EngineError, match=rf"{path} did not end within 0\.3 s"):
        sync(engine(server, deadline=0.3), 1)


def test_a_completion_has_a_deadline_too(servers, engine) -> None:
    server = servers()
    made = engine(server, answer=0.3)
    sync(made)
    server.answers["/v1/completions"] = 2.0
    with pytest.raises(EngineError, match=r"completions did not end within 0\.3 s"):
        asyncio.run(made.generate(request(0)))


def test_a_server_that_is_not_there_is_named(engine) -> None:
    with pytest.raises(EngineError, match=r"http://127\.0\.0\.1:9/v1/models failed: ConnectError"):
        sync(engine(Server(url="http://127.0.0.1:9")), 1)


def test_a_server_without_development_mode_is_told_of_it(servers, engine) -> None:
    server = servers()
    server.answers["/collective_rpc"] = (404, {"detail": "Not Found"})
    with pytest.raises(EngineError, match="start the server with VLLM_SERVER_DEV_MODE=1"):
        sync(engine(server), 1)


def test_a_cache_that_is_not_reset_is_an_error(servers, engine) -> None:
    server = servers()
    server.answers["/reset_prefix_cache"] = (200, {"success": False})
    with pytest.raises(EngineError, match="could not reset its prefix cache"):
        sync(engine(server), 1)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"token_ids": None, "logprobs": {"token_logprobs": [-1.0]}, "finish_reason": "stop"}, "no token ids"),
        ({"token_ids": [7], "logprobs": None, "finish_reason": "stop"}, "no token ids"),
        ({"token_ids": [7], "logprobs": {"token_logprobs": [None]}, "finish_reason": "stop"}, "no token ids"),
        ({"token_ids": [7], "logprobs": {"token_logprobs": [-1.0]}, "finish_reason": "abort"}, "'abort' instead"),
    ],
)
def test_an_answer_without_ids_or_an_end_is_an_error(servers, engine, choice: dict[str, Any], words: str) -> None:
    server = servers()
    server.answers["/v1/completions"] = (200, {"choices": [choice]})
    made = engine(server)
    sync(made)
    with pytest.raises(EngineError, match=words):
        asyncio.run(made.generate(request(0)))


def test_servers_that_hold_different_weights_are_found(servers, engine) -> None:
    first, second = servers(), servers()
    made = engine(first, second)
    sync(made)
    assert [one.total for one in asyncio.run(made.weight_sums())] == [2.0]
    second.answers["/collective_rpc"] = (200, {"results": [[{**SUMS[0], "total": 2.5}]]})
    with pytest.raises(EngineError, match=f"{second.url} holds other weights"):
        asyncio.run(made.weight_sums())


def test_the_command_that_starts_a_server_names_what_the_engine_needs() -> None:
    full = start_command(Path("m"), 8000, "float32", 512)
    assert full[full.index("--worker-extension-cls") + 1] == "rollout.engines.worker.WeightSync"
    assert full[full.index("--logprobs-mode") + 1] == "raw_logprobs" and full[full.index("--host") + 1] == "127.0.0.1"
    adapter = start_command(Path("m"), 8000, "float32", 512, lora_rank=9)
    assert "--worker-extension-cls" not in adapter and adapter[adapter.index("--max-lora-rank") + 1] == "16"
