"""Reading a reply: reasoning set aside, one JSON object found, a verdict read. Nothing from a model is ever evaluated."""

from __future__ import annotations

import json
import re
from typing import Any

from rollout.llm.errors import Unparsable

_REASONING = re.compile(r"\s*<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_CLOSED_ONLY = re.compile(r"\A(?:(?!<think>).)*</think>", re.DOTALL | re.IGNORECASE)  # the opening stood in the prompt
_WORD = re.compile(r"[a-z]+(?:['’]t)?")
_NEGATORS = frozenset({"not", "never", "no", "nor", "neither", "hardly", "cannot", "without"})
CORRECT = frozenset({"correct", "yes"})
INCORRECT = frozenset({"incorrect", "wrong", "no"})


def final_text(text: str) -> str:
    """The reply without leading reasoning blocks; an unclosed one leaves nothing."""
    text = _CLOSED_ONLY.sub("", text, count=1)
    while (block := _REASONING.match(text)) is not None:
        text = text[block.end() :]
    return text.strip()


def json_object(text: str) -> dict[str, Any]:
    """The one JSON object of a reply, in prose or a code fence too; of several the last one (drafts come first).

    A last object that is cut off or broken makes the reply Unparsable: nothing inside it is taken for the whole.
    """
    text = final_text(text)
    decoder = json.JSONDecoder()
    found: dict[str, Any] | None = None
    start = text.find("{")
    while start != -1:
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            found, end = None, _balanced_end(text, start)
        start = text.find("{", end)
    if found is None:
        raise Unparsable(f"no whole JSON object in the reply: {text[-80:]!r}")
    return found


def _balanced_end(text: str, start: int) -> int:
    """Where the brace at `start` is closed (strings skipped); the end of the text where it never is."""
    depth, quoted, at = 0, False, start
    while at < len(text):
        char = text[at]
        if quoted:
            at += char == "\\"
            quoted = char != '"'
        else:
            quoted = char == '"'
            depth += (char == "{") - (char == "}")
            if depth == 0:
                return at + 1
        at += 1
    return len(text)


def field(reply: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """A field of the given type; Unparsable where it is absent or another type (a bool is no number)."""
    value = reply.get(name)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if name not in reply or not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(one.__name__ for one in kinds)
        raise Unparsable(f"{name!r} must be {wanted}, the reply has {value!r}"[:200])
    return value


def names(reply: dict[str, Any], name: str) -> tuple[str, ...]:
    """A list of strings, or a single string, as a tuple."""
    value = field(reply, name, (list, str))
    items = [value] if isinstance(value, str) else value
    if not all(isinstance(item, str) for item in items):
        raise Unparsable(f"{name!r} must hold strings only")
    return tuple(items)


def verdict(text: str) -> bool:
    """A judge's verdict: JSON `{"verdict": "correct" | "incorrect"}`, else the last word of the last `Final:` line
    (in a reply without such a line: of the reply, where that is a single word).

    A negated verdict is the opposite ("not correct" is incorrect); what stays open raises Unparsable.
    """
    try:
        return _word_verdict(field(json_object(text), "verdict", (str, bool)))
    except Unparsable:
        lines = [line.strip(" *_#>`") for line in final_text(text).splitlines()]
        finals = [line[len("final:") :] for line in lines if line.casefold().startswith("final:")]
        if finals:
            return _word_verdict(finals[-1])
        if len(_WORD.findall(final_text(text).casefold())) <= 2:
            return _word_verdict(final_text(text))
        raise


def _word_verdict(value: str | bool) -> bool:
    if isinstance(value, bool):
        return value
    words = _WORD.findall(value.casefold())
    if not words or words[-1] not in CORRECT | INCORRECT:
        raise Unparsable(f"no verdict in {value[:80]!r}")
    said = words[-1] in CORRECT
    if len(words) > 1 and words[-1] not in {"yes", "no"}:
        if words[-2] == "not" or words[-2].endswith(("n't", "n’t")):
            if (len(words) > 2 and set(words[:-2]) & _NEGATORS) or not said:
                raise Unparsable(f"a verdict negated in more ways than one: {value[:80]!r}")
            return False
        if set(words[:-1]) & _NEGATORS or any(word.endswith(("n't", "n’t")) for word in words[:-1]):
            raise Unparsable(f"a verdict with a negation: {value[:80]!r}")
    return said
