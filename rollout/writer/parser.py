"""The one parser of Writer outputs: strict first, then a code fence, then a scan of the prose (pitfall 26).

Only STRICT counts in training and evaluation; serving may salvage, and counts it. Nothing here evaluates anything, and
no text makes it raise: whatever cannot be read is a `Parsed` with the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from data.memory.actions import JsonObject
from rollout.writer.trajectory import Parsed, ParseStatus

MAX_DEPTH = 16  # an action list needs 3; deeper values would break recursive readers of the trace
MAX_STARTS = 256  # objects tried in one scan: bounds the work on hostile text

_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_REASONING_END = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*\s*(?=\{)")
_OBJECT = re.compile(r"\{(?=\s*\")")


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} does not fit")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=JsonObject.from_pairs, parse_constant=_reject_constant, parse_float=_finite)


def parse(text: str, salvage: bool = False) -> Parsed:
    """Read a Writer's text.

    `attempts` holds the decoded members of `actions`, valid actions or not. Without `salvage` they are empty unless
    the status is STRICT; the status still says where the object was found. Strict means: the text is one JSON object
    (white space around it allowed) whose only key is `actions`, once, with a list; no NaN or Infinity, no lone
    surrogates, nesting up to MAX_DEPTH.
    """
    try:
        decoded = _decode(text.strip(" \t\r\n"))
    except ValueError as error:
        problem = str(error)
    else:
        problem = _wrong_shape(decoded)
        if not problem:
            return Parsed(ParseStatus.STRICT, tuple(decoded["actions"]))
    visible = _REASONING_END.sub("", _REASONING.sub("", text))
    for status, starts in ((ParseStatus.FENCED, _FENCE), (ParseStatus.SCANNED, _OBJECT)):
        found = _last_actions(visible, starts)
        if found is not None:
            return Parsed(status, found if salvage else (), problem)
    return Parsed(ParseStatus.FAILED, (), problem)


def _decode(text: str) -> JsonObject:
    """The text as one checked JSON object; ValueError (JSONDecodeError is one) for everything else."""
    value, end = _decode_at(text, 0)
    if end != len(text):
        raise ValueError(f"text goes on behind the JSON object, at character {end}")
    return value


def _decode_at(text: str, start: int) -> tuple[JsonObject, int]:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("JSON is nested too deeply to read") from None
    if not isinstance(value, JsonObject):
        raise ValueError(f"the top level is {type(value).__name__}, not an object")
    _check_values(value)
    return value, end


def _check_values(value: object) -> None:
    """Refuse what JSON can spell but records and traces cannot hold: deep nesting and lone surrogates."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below += [*one.keys(), *one.values()]
            elif isinstance(one, list):
                below += one
            elif isinstance(one, str) and any("\ud800" <= char <= "\udfff" for char in one):
                raise ValueError("a string holds a lone surrogate (half a character)")
        level = below
    if level:
        raise ValueError(f"JSON is nested deeper than {MAX_DEPTH}")


def _wrong_shape(decoded: JsonObject) -> str:
    if decoded.repeated:
        return f"the key {decoded.repeated[0]!r} is there twice"
    if list(decoded) != ["actions"]:
        return "the object must have the key 'actions' and no other"
    if not isinstance(decoded["actions"], list):
        return f"'actions' is {type(decoded['actions']).__name__}, not a list"
    return ""


def _last_actions(text: str, starts: re.Pattern[str]) -> tuple[object, ...] | None:
    """The list `actions` of the last object that has one: an answer comes after its drafts."""
    found = None
    for decoded in _objects(text, starts):
        if isinstance(decoded.get("actions"), list) and "actions" not in decoded.repeated:
            found = tuple(decoded["actions"])
    return found


def _objects(text: str, starts: re.Pattern[str]) -> Iterator[JsonObject]:
    """Complete JSON objects in text order. The JSON reader itself finds where each ends, so braces and quotes inside
    strings do not confuse it. Inside an object with `actions` no other is looked for."""
    position = 0
    for _ in range(MAX_STARTS):
        begin = starts.search(text, position)
        if begin is None:
            return
        brace = begin.end() if text[begin.end() : begin.end() + 1] == "{" else begin.start()
        try:
            decoded, end = _decode_at(text, brace)
        except ValueError:
            position = brace + 1
            continue
        yield decoded
        position = end if "actions" in decoded else brace + 1
