"""The Writer's actions and what makes one valid (design section 4). Pure: no model, no I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from data.memory.records import DERIVED_LAYERS, DERIVED_UTYPES, Layer, UType
from data.network import GROUP, AmbiguousMember, Roster, UnknownMember, fold

ADD_KEYS = ("action", "content", "owner", "source", "layer", "utype")  # content first: small models attribute better
UPDATE_KEYS = ("action", "entry_id", "content")
NOOP_KEYS = ("action",)


@dataclass(frozen=True, slots=True)
class Add:
    content: str
    owner: str
    source: str
    layer: Layer
    utype: UType

    @property
    def key(self) -> tuple[str, ...]:
        """Identity of an ADD: action, owner, source, layer, content identity (utype is not part of it)."""
        return ("ADD", self.owner, self.source, self.layer.value, fold(self.content))


@dataclass(frozen=True, slots=True)
class Update:
    entry_id: str
    content: str

    @property
    def key(self) -> tuple[str, ...]:
        return ("UPDATE", self.entry_id, fold(self.content))


@dataclass(frozen=True, slots=True)
class Noop:
    @property
    def key(self) -> tuple[str, ...]:
        return ("NOOP",)


Action = Add | Update | Noop


class Invalid(StrEnum):
    """Why an attempted action is invalid."""

    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_ACTION = "unknown_action"
    MISSING_KEY = "missing_key"
    EXTRA_KEY = "extra_key"
    REPEATED_KEY = "repeated_key"
    WRONG_TYPE = "wrong_type"
    BAD_LAYER = "bad_layer"
    BAD_UTYPE = "bad_utype"
    UNKNOWN_OWNER = "unknown_owner"
    AMBIGUOUS_OWNER = "ambiguous_owner"
    UNKNOWN_SOURCE = "unknown_source"
    AMBIGUOUS_SOURCE = "ambiguous_source"
    SCOPE = "scope"
    EMPTY_CONTENT = "empty_content"
    UNKNOWN_ENTRY = "unknown_entry"
    NOT_A_HEAD = "not_a_head"
    UNCHANGED = "unchanged"
    DUPLICATE_ADD = "duplicate_add"
    NOOP_NOT_ALONE = "noop_not_alone"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why an action is invalid, with a detail for people and for a teacher's next attempt."""

    reason: Invalid
    detail: str


class JsonObject(dict[str, Any]):
    """A JSON object that remembers which of its keys were written more than once."""

    repeated: tuple[str, ...] = ()

    @classmethod
    def from_pairs(cls, pairs: list[tuple[str, Any]]) -> JsonObject:
        """For `json.loads(..., object_pairs_hook=JsonObject.from_pairs)`."""
        made = cls(pairs)
        if len(made) != len(pairs):
            keys = [key for key, _ in pairs]
            made.repeated = tuple(sorted({key for key in keys if keys.count(key) > 1}))
        return made


def read_action(attempt: object, roster: Roster) -> Action | Rejection:
    """Turn one attempted action into a typed one: exactly its keys, known coordinates, canonical names.

    What depends on the memory state (entry_id, duplicates, a lone NOOP) is the executor's to judge.
    """
    if not isinstance(attempt, dict):
        return Rejection(Invalid.NOT_AN_OBJECT, f"an action must be a JSON object, not {type(attempt).__name__}")
    kind = attempt.get("action")
    if kind not in ("ADD", "UPDATE", "NOOP"):
        return Rejection(Invalid.UNKNOWN_ACTION, f"action is {kind!r}; use ADD, UPDATE or NOOP")
    keys = {"ADD": ADD_KEYS, "UPDATE": UPDATE_KEYS, "NOOP": NOOP_KEYS}[kind]
    repeated = getattr(attempt, "repeated", ())
    if repeated:
        return Rejection(Invalid.REPEATED_KEY, f"{kind} has the key {repeated[0]!r} twice")
    missing = [key for key in keys if key not in attempt]
    if missing:
        return Rejection(Invalid.MISSING_KEY, f"{kind} lacks {', '.join(missing)}")
    extra = [key for key in attempt if key not in keys]
    if extra:
        return Rejection(Invalid.EXTRA_KEY, f"{kind} has {', '.join(map(repr, extra))}, which it must not have")
    wrong = [key for key in keys if not isinstance(attempt[key], str)]
    if wrong:
        return Rejection(Invalid.WRONG_TYPE, f"{kind}: {wrong[0]} must be a string, not {type(attempt[wrong[0]]).__name__}")
    broken = [key for key in keys if not _is_text(attempt[key])]
    if broken:
        return Rejection(Invalid.WRONG_TYPE, f"{kind}: {broken[0]} holds half of a surrogate pair, which is no text")
    if kind == "NOOP":
        return Noop()
    if not attempt["content"].strip():
        return Rejection(Invalid.EMPTY_CONTENT, f"{kind} has empty content")
    if kind == "UPDATE":
        return Update(attempt["entry_id"], attempt["content"])
    return _read_add(attempt, roster)


def _is_text(value: str) -> bool:
    """JSON may escape a lone surrogate; it is a Python str, but no file, database or tokenizer takes it."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _read_add(attempt: dict[str, str], roster: Roster) -> Add | Rejection:
    if attempt["layer"] not in {layer.value for layer in DERIVED_LAYERS}:
        names = ", ".join(layer.value for layer in DERIVED_LAYERS)
        return Rejection(Invalid.BAD_LAYER, f"layer is {attempt['layer']!r}; use one of {names}")
    if attempt["utype"] not in {utype.value for utype in DERIVED_UTYPES}:
        names = ", ".join(utype.value for utype in DERIVED_UTYPES)
        return Rejection(Invalid.BAD_UTYPE, f"utype is {attempt['utype']!r}; use one of {names}")
    layer = Layer(attempt["layer"])
    owner = GROUP if fold(attempt["owner"]) == fold(GROUP) else None
    if layer.group != (owner is not None):
        want = "GROUP as owner" if layer.group else "a roster member as owner"
        return Rejection(Invalid.SCOPE, f"{layer.value} takes {want}, not {attempt['owner']!r}")
    source = GROUP if layer.group and fold(attempt["source"]) == fold(GROUP) else None
    try:
        owner = owner or roster.canonical(attempt["owner"])
    except AmbiguousMember as error:
        return Rejection(Invalid.AMBIGUOUS_OWNER, f"owner {error}")
    except UnknownMember as error:
        return Rejection(Invalid.UNKNOWN_OWNER, f"owner {error}")
    try:
        source = source or roster.canonical(attempt["source"])
    except AmbiguousMember as error:
        return Rejection(Invalid.AMBIGUOUS_SOURCE, f"source {error}")
    except UnknownMember as error:
        return Rejection(Invalid.UNKNOWN_SOURCE, f"source {error}")
    return Add(attempt["content"], owner, source, layer, UType(attempt["utype"]))


def to_json(action: Action) -> dict[str, str]:
    """The action as the Writer writes it, keys in the order of design section 4."""
    match action:
        case Add():
            values = ("ADD", action.content, action.owner, action.source, action.layer.value, action.utype.value)
            return dict(zip(ADD_KEYS, values, strict=True))
        case Update():
            return dict(zip(UPDATE_KEYS, ("UPDATE", action.entry_id, action.content), strict=True))
        case Noop():
            return {"action": "NOOP"}


def render(actions: Sequence[Action]) -> str:
    """A whole Writer output: one JSON object with the key `actions`; characters stay as they are."""
    return json.dumps({"actions": [to_json(action) for action in actions]}, ensure_ascii=False)
