"""A server on loopback that answers as vLLM does for one export, well or badly: the script says how each write ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from rollout.writer.prompt import WriterPrompt
from writer_rl import contract

NOOP = '{"actions": [{"action": "NOOP"}]}'


@dataclass
class Turn:
    """How one request ends: with a text (cut off where it is long), or with a fault. `lost`: the work is done, and the answer
    never arrives."""

    text: str = NOOP
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    lost: bool = False


Script = Callable[[dict[str, Any], int], Turn]


class FakeVLLM:
    """`shift` is added to the log-probabilities of the fixed chat, `card` replaces fields of the model's card. `writes` are
    the bodies of all writes in order of arrival; `most` is the largest number of requests that were open together."""

    def __init__(self, folder: Path, script: Script = lambda body, number: Turn(), shift: float = 0.0, **card: Any) -> None:
        self.terms = contract.read(folder)
        self.prompt = WriterPrompt(self.terms.prompt.style, AutoTokenizer.from_pretrained(folder))
        limits = self.terms.limits
        window = limits.prompt_tokens + limits.new_tokens
        self.card = {"id": self.terms.id, "root": str(folder), "max_model_len": window} | card
        self.script, self.shift = script, shift
        self.writes: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.probes = self.asked = self.open = self.most = 0
        self.away = False  # whether its first page says 503
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeVLLM:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def prompts(self) -> list[str]:
        """The prompt of every write, as text."""
        return [self.prompt.tokenizer.decode(body["prompt"]) for body in self.writes]

    def completion(self, text: str, most: int) -> dict[str, Any]:
        ids = self.prompt.target_ids(text)
        kept = ids[:most]
        return {
            "finish_reason": "stop" if len(kept) == len(ids) else "length",
            "token_ids": list(kept),
            "logprobs": {"token_logprobs": [-0.5] * len(kept)},
        }

    def probe(self, prompt: list[int]) -> dict[str, Any]:
        known = self.terms.probe
        start = len(known.prompt_ids)
        assert tuple(prompt) == (*known.prompt_ids, *known.greedy_ids)
        read: list[Any] = [None, *({str(token): {"logprob": -1.0}} for token in prompt[1:start])]
        for ids, values in zip(known.top_ids, known.top_logprobs, strict=True):
            read.append({str(one): {"logprob": value + self.shift} for one, value in zip(ids, values, strict=True)})
        return {"finish_reason": "length", "token_ids": [0], "prompt_logprobs": read}


def _handler(fake: FakeVLLM) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            fake.asked += 1
            self.send({"data": [fake.card]}, 503 if fake.away else 200 if self.path == "/v1/models" else 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "prompt_logprobs" in body:
                fake.probes += 1
                self.send({"choices": [fake.probe(body["prompt"])]})
                return
            with fake.lock:
                number = len(fake.writes)
                fake.writes.append(body)
                fake.keys.append(self.headers.get("authorization"))
                fake.open += 1
                fake.most = max(fake.most, fake.open)
            turn = fake.script(body, number)
            time.sleep(turn.wait)
            with fake.lock:
                fake.open -= 1
            if turn.lost:
                self.close_connection = True
                return
            made = {"choices": [fake.completion(turn.text, body["max_tokens"])]} if turn.status == 200 else {"error": "no"}
            self.send(made, turn.status, turn.headers)

        def send(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            for name, text in {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data)

    return Handler
