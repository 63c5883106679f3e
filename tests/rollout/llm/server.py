"""A small server on loopback that speaks the OpenAI chat API, well or badly: the script says how each request ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[[dict[str, Any], int], "Turn"]


class Turn:
    """How one request ends: a text, or a fault."""

    def __init__(self, text: str | None = "", status: int = 200, finish: str = "stop", **more: Any) -> None:
        self.text, self.status, self.finish = text, status, finish
        self.headers: dict[str, str] = more.get("headers", {})
        self.hang: float = more.get("hang", 0.0)
        self.cut: bool = more.get("cut", False)
        self.body: Any = more.get("body")
        self.usage: tuple[int, int] = more.get("usage", (7, 3))


class ChatServer:
    """`script(request body, number of the request)` decides each turn. Context manager; `base` is the api_base."""

    def __init__(self, script: Script) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.active = self.most_active = 0
        lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    number = len(outer.requests)
                    outer.requests.append(body)
                    outer.keys.append(self.headers.get("authorization", ""))
                    outer.active += 1
                    outer.most_active = max(outer.most_active, outer.active)
                try:
                    self.respond(script(body, number), body)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                finally:
                    with lock:
                        outer.active -= 1

            def respond(self, turn: Turn, body: dict[str, Any]) -> None:
                if turn.hang:
                    time.sleep(turn.hang)
                message = {"role": "assistant", "content": turn.text}
                reply = {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 1,
                    "model": body["model"],
                    "choices": [{"index": 0, "message": message, "finish_reason": turn.finish}],
                    "usage": {
                        "prompt_tokens": turn.usage[0],
                        "completion_tokens": turn.usage[1],
                        "total_tokens": sum(turn.usage),
                    },
                }
                data = json.dumps(reply if turn.body is None else turn.body).encode()
                if turn.cut:
                    self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 5000\r\n\r\n" + data[:20])
                    return
                self.send_response(turn.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in turn.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.base = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
