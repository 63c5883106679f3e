"""A scripted teacher behind a local OpenAI-compatible server, and what its tests share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.network import Network
from rollout.llm.client import Client, ClientConfig, run
from rollout.memory.embedder import HashEmbedder
from tests.rollout.llm.server import ChatServer, Turn
from writer_rl.teach.attempts import Teller
from writer_rl.teach.contract import Contract
from writer_rl.teach.folder import Folder
from writer_rl.teach.loop import School, Taught, teach_all

CONTRACT = Contract()  # building its tokenizer takes a moment; it is never changed
FAST = {"deadline": 20.0, "retries": 1, "backoff": 0.001}


def actions(*listed: dict[str, Any]) -> str:
    return json.dumps({"actions": list(listed)}, ensure_ascii=False)


def add(content: str, owner: str = "Ana", evidence: Any = (1,), **changes: Any) -> dict[str, Any]:
    made = {"action": "ADD", "content": content, "owner": owner, "source": owner}
    made |= {"layer": "per_speaker_core", "utype": "fact", "evidence": list(evidence), **changes}
    return made


def update(entry_id: str, content: str, evidence: Any = (1,)) -> dict[str, Any]:
    return {"action": "UPDATE", "entry_id": entry_id, "content": content, "evidence": list(evidence)}


def good(body: dict[str, Any]) -> str:
    """A sound answer to any segment: the first message stored for its speaker; an UPDATE where the memory has a head."""
    user = body["messages"][1]["content"]
    name, text = re.findall(r"^\[1\] (?:\S+ )?([^:\n]+): (.*)$", user, re.MULTILINE)[0]
    heads = re.findall(r"^  (d\d+) \(", user, re.MULTILINE)
    return actions(update(heads[0], f"now {text}")) if heads else actions(add(f"{name} says {text}", name))


def asked_questions(body: dict[str, Any]) -> str:
    """As many questions as are asked for, of the kinds that are asked for."""
    last = body["messages"][1]["content"].splitlines()[-1]
    kinds = re.findall(r"(\d+) (who|current|earlier|stance|decision|not_mentioned)\b", last)
    listed = [kind for count, kind in kinds for _ in range(int(count))]
    evidence = {kind: [] if kind == "not_mentioned" else [2, 1] for kind in listed}
    made = [
        {"kind": kind, "question": f"What of {kind} {n}?", "answer": "tarvi", "evidence": evidence[kind]}
        for n, kind in enumerate(listed)
    ]
    return json.dumps({"questions": made})


def answer(body: dict[str, Any]) -> str:
    return asked_questions(body) if body["messages"][0]["content"].startswith("You write questions") else good(body)


def variant(network: Network, name: str, text: str) -> Network:
    """The network under another id, with another first message."""
    first = network.sessions[0]
    changed = replace(first, messages=(replace(first.messages[0], text=text), *first.messages[1:]))
    return replace(network, id=name, sessions=(changed, *network.sessions[1:]))


def serve(script: Callable[[dict[str, Any], int], Turn | str]) -> ChatServer:
    def turn(body: dict[str, Any], number: int) -> Turn:
        made = script(body, number)
        return Turn(made) if isinstance(made, str) else made

    return ChatServer(turn)


def school(server: ChatServer, root: Path, questions: int = 0, window: int | None = None, **config: Any) -> School:
    folder = Folder(root)
    folder.make()
    client = Client(ClientConfig(**{"cache": folder.replies, **FAST, **config}))
    return School(Teller(client, "openai/tiny", server.base), HashEmbedder(), folder, CONTRACT, window, questions)


def taught(server: ChatServer, root: Path, *networks: Network, concurrency: int = 2, **more: Any) -> list[Taught]:
    return run(teach_all(school(server, root, **more), networks, concurrency))
