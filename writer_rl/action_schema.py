"""The Writer's output as a JSON schema with bounded strings: for constrained decoding when serving, never in training.

Training rewards validity, so nothing may force it there. What a schema cannot say (roster names, heads, duplicates) stays
the executor's to judge.
"""

from __future__ import annotations

from typing import Any

from data.memory.actions import ADD_KEYS, NOOP_KEYS, UPDATE_KEYS
from data.memory.records import DERIVED_LAYERS, DERIVED_UTYPES

CONTENT = 400  # characters: a record is one sentence
NAME = 120  # of a roster name
ENTRY_ID = 16


def action_schema(budget: int | None = None) -> dict[str, Any]:
    """The schema of one output, keys in the order that the Writer was trained to write them (design section 4).

    `budget` is the most actions; None leaves it open. A NOOP stands alone, as the executor wants it.
    """
    actions: dict[str, Any] = {"type": "array", "items": {"anyOf": [_add(), _update()]}, "minItems": 1}
    if budget is not None:
        actions["maxItems"] = budget
    noop = _action(NOOP_KEYS, {"action": {"const": "NOOP"}})
    alone = {"type": "array", "items": noop, "minItems": 1, "maxItems": 1}
    return _action(("actions",), {"actions": {"anyOf": [actions, alone]}})


def _add() -> dict[str, Any]:
    return _action(
        ADD_KEYS,
        {
            "action": {"const": "ADD"},
            "content": _text(CONTENT),
            "owner": _text(NAME),
            "source": _text(NAME),
            "layer": {"enum": [layer.value for layer in DERIVED_LAYERS]},
            "utype": {"enum": [utype.value for utype in DERIVED_UTYPES]},
        },
    )


def _update() -> dict[str, Any]:
    fields = {"action": {"const": "UPDATE"}, "entry_id": _text(ENTRY_ID), "content": _text(CONTENT)}
    return _action(UPDATE_KEYS, fields)


def _action(keys: tuple[str, ...], fields: dict[str, Any]) -> dict[str, Any]:
    """An object of exactly these keys, in this order: a constrained decoder writes properties as they are listed."""
    properties = {key: fields[key] for key in keys}
    return {"type": "object", "properties": properties, "required": list(keys), "additionalProperties": False}


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most}


GRAMMAR = r"""root ::= "{{\"actions\": [" (noop | action (", " action){{0,{more}}}) "]}}"
noop ::= "{{\"action\": \"NOOP\"}}"
action ::= add | update
add ::= "{{\"action\": \"ADD\", \"content\": " content ", \"owner\": " name ", \"source\": " name scope "}}"
scope ::= ", \"layer\": \"" ({layers}) "\", \"utype\": \"" ({utypes}) "\""
update ::= "{{\"action\": \"UPDATE\", \"entry_id\": \"" [A-Za-z0-9_-]{{1,{entry_id}}} "\", \"content\": " content "}}"
content ::= "\"" char{{1,{content}}} "\""
name ::= "\"" char{{1,{name}}} "\""
char ::= [^"\\\x00-\x1f] | "\\" ["\\/nrt]
"""


def action_grammar(budget: int) -> str:
    """The schema as an EBNF grammar, in the very bytes of the training targets (`render`): no free white space.

    A schema's bounded strings will not do: the decoder's compiler gives them no escapes, so a quotation inside a content
    would end it. At most `budget` actions.
    """
    return GRAMMAR.format(
        more=budget - 1,
        layers=" | ".join(f'"{layer.value}"' for layer in DERIVED_LAYERS),
        utypes=" | ".join(f'"{utype.value}"' for utype in DERIVED_UTYPES),
        entry_id=ENTRY_ID,
        content=CONTENT,
        name=NAME,
    )
