"""How well-formed one Writer output is: JSON, schema, duplicates, where it stops (Eq. 19)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from data.memory.actions import Action, Add, Noop, Update
from data.memory.executor import Report
from data.memory.state import State
from data.network import fold
from rewards.weights import RewardWeights

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Validity:
    """R_valid in [0, 1], its four parts, and n, the number of attempted actions."""

    json: float
    schema: float
    dup: float
    stop: float
    total: float
    n: int


def validity(
    json_valid: bool,
    report: Report,
    pre_state: State,
    attempts: Sequence[object],
    cut_off: bool,
    weights: RewardWeights | None = None,
) -> Validity:
    """0.25 json + 0.35 schema + 0.25 dup + 0.15 stop over n attempted actions; n = 0 makes all of them 0 (Eq. 19).

    `attempts` are the decoded members of `actions`, `report` what the executor made of them, `pre_state` the memory
    before, `json_valid` the strict parse's verdict, `cut_off` the engine's finish reason `length`.
    ValueError where report and attempts differ in length.
    """
    weights = weights or RewardWeights()
    n = len(attempts)
    if len(report.outcomes) != n:
        raise ValueError(f"the report has {len(report.outcomes)} outcomes for {n} attempted actions")
    if n == 0:
        return Validity(0.0, 0.0, 0.0, 0.0, 0.0, 0)
    keys = action_keys(attempts, report)
    schema = report.valid / n if json_valid else 0.0
    dup = len(set(keys)) / n
    stop = float(json_valid and not cut_off and _ends_novel(keys, report, pre_state))
    parsed = float(json_valid)
    total = weights.w_json * parsed + weights.w_schema * schema + weights.w_dup * dup + weights.w_stop * stop
    return Validity(parsed, schema, dup, stop, total, n)


def action_keys(attempts: Sequence[object], report: Report) -> tuple[Key, ...]:
    """What makes two attempts the same. ADD: action, owner, source, layer, content identity; UPDATE: action, entry_id,
    content identity; NOOP: its type. Names are the roster's where the executor could read the action. Shape [n]."""
    pairs = zip(attempts, report.outcomes, strict=True)
    return tuple(
        _raw_key(attempt, outcome.index) if outcome.action is None else _key(outcome.action) for attempt, outcome in pairs
    )


def _key(action: Action) -> Key:
    match action:
        case Add():
            return _add_key(action.owner, action.source, action.layer.value, action.content)
        case Update():
            return ("UPDATE", action.entry_id, fold(action.content))
        case Noop():
            return ("NOOP",)


def _add_key(owner: str, source: str, layer: str, content: str) -> Key:
    return ("ADD", fold(owner), fold(source), layer, fold(content))


def _raw_key(attempt: object, index: int) -> Key:
    """The key of an action that the executor could not read: two equally broken attempts are still one and the same."""
    fields = attempt if isinstance(attempt, dict) else {}
    match fields.get("action"):
        case "ADD":
            names: tuple[str, ...] = ("owner", "source", "layer", "content")
        case "UPDATE":
            names = ("entry_id", "content")
        case "NOOP":
            names = ()
        case _:
            return ("?", _plain(attempt, index))
    values = [fields.get(name) for name in names]
    if not all(isinstance(value, str) for value in values):
        return ("?", _plain(attempt, index))
    texts = [str(value) for value in values]
    match names:
        case ():
            return ("NOOP",)
        case ("entry_id", _):
            return ("UPDATE", texts[0], fold(texts[1]))
        case _:
            return _add_key(*texts)


def _plain(attempt: object, index: int) -> str:
    try:
        return json.dumps(attempt, ensure_ascii=False, sort_keys=True)
    except RecursionError:  # nested as deep as the parser could just read: known by its place alone
        return f"too deep: {index}"


def _ends_novel(keys: tuple[Key, ...], report: Report, pre_state: State) -> bool:
    """Whether the last action is novel: whatever follows the last novel action should not have been written.

    An action that could not be read has no coordinates and is never novel.
    """
    match report.outcomes[-1].action:
        case Add():
            held = {_add_key(record.owner, record.source, record.layer, record.content) for record in pre_state}
            return keys[-1] not in keys[:-1] and keys[-1] not in held
        case Update(entry_id, content):
            old = pre_state.get(entry_id)
            return old is not None and old.head and fold(old.content) != fold(content)
        case Noop():
            return len(keys) == 1
        case None:
            return False
