"""The Writer's contract as a teacher meets it: the same system text and view, and a list of messages as evidence."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from typing import Any

from data.memory.actions import ADD_KEYS, UPDATE_KEYS
from data.memory.records import DERIVED_LAYERS, DERIVED_UTYPES
from data.memory.state import State
from data.segments import Segment
from rollout.writer.prompt import TEMPLATE_FILES, WriterPrompt
from rollout.writer.view import HEAD_TOKEN_BUDGET, TextEmbedder, build_view
from writer_rl.base.tokenizer import build
from writer_rl.teach.attempts import prompt_file

BYTES_A_TOKEN = 4  # the budget of heads is counted with a tokenizer of bytes: a teacher brings none of its own
EVIDENCE = "evidence"


def _action(name: str, keys: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    known: dict[str, Any] = {key: properties.get(key, {"type": "string"}) for key in keys}
    known["action"] = {"type": "string", "enum": [name]}
    return {"type": "object", "properties": known, "required": list(known), "additionalProperties": False}


def _schema() -> str:
    """Keys in the order of the contract: a server that decodes by the schema writes them so."""
    numbers = {"type": "array", "items": {"type": "integer"}}
    layers = {"type": "string", "enum": [layer.value for layer in DERIVED_LAYERS]}
    utypes = {"type": "string", "enum": [utype.value for utype in DERIVED_UTYPES]}
    kinds = [
        _action("ADD", (*ADD_KEYS, EVIDENCE), layer=layers, utype=utypes, evidence=numbers),
        _action("UPDATE", (*UPDATE_KEYS, EVIDENCE), evidence=numbers),
        _action("NOOP", ("action",)),
    ]
    actions = {"type": "array", "items": {"anyOf": kinds}}
    whole = {"type": "object", "properties": {"actions": actions}, "required": ["actions"], "additionalProperties": False}
    return json.dumps(whole, ensure_ascii=False)


class Contract:
    """`system` and `schema` are the same for all segments; `hash` covers every text that a teacher is shown around them."""

    def __init__(self) -> None:
        self.prompt = WriterPrompt("full", build([]))
        fixed = (files("rollout.writer") / "prompts" / TEMPLATE_FILES["full"][0]).read_text(encoding="utf-8").strip()
        self.system = f"{fixed}\n\n{prompt_file('evidence')}"
        self.schema = _schema()
        names = ("evidence", "feedback", "questions_system", "questions_user")
        parts = [self.prompt.hash, self.schema, *(prompt_file(name) for name in names)]
        self.hash = hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def user(self, segment: Segment, state: State, embedder: TextEmbedder) -> str:
        """What a Writer would be shown at this position: roster, messages, heads, instruction."""
        view = build_view(segment, state, embedder, self.prompt, head_token_budget=BYTES_A_TOKEN * HEAD_TOKEN_BUDGET)
        return self.prompt.user_text(view)
