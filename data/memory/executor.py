"""The one executor for training, evaluation and serving: action by action, valid ones applied, invalid ones reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from data.memory.actions import ADD_KEYS, Action, Add, Invalid, Noop, Rejection, Update, read_action
from data.memory.records import CONFIDENCE_NEW, CONFIDENCE_STEP, Record
from data.memory.state import State
from data.network import Roster, fold
from data.segments import Segment

Support = Callable[[Sequence[str], Segment], Sequence[tuple[str, ...]]]
"""Provenance: contents [n] and their segment -> for each content the ids of the verbatim records that support it."""


class Fate(StrEnum):
    APPLIED = "applied"
    APPLIED_AS_ADD = "applied_as_add"  # an invalid UPDATE with complete valid coordinates; counts as invalid
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of attempt `index`: the typed action where it could be read, the rejection where it is invalid,
    and the record it wrote (None for NOOP and rejected ones)."""

    index: int
    action: Action | None
    fate: Fate
    rejection: Rejection | None = None
    entry_id: str | None = None

    @property
    def valid(self) -> bool:
        return self.rejection is None


@dataclass(frozen=True, slots=True)
class Report:
    """One executed output. `outcomes` has one entry per attempted action; `over_budget` is due a penalty, but all
    valid actions apply."""

    outcomes: tuple[Outcome, ...]
    over_budget: bool

    @property
    def valid(self) -> int:
        return sum(outcome.valid for outcome in self.outcomes)


def execute(state: State, attempts: Sequence[object], segment: Segment, support: Support) -> Report:
    """Apply a Writer's attempted actions to `state` in place (Appendix B.2, design sections 4 and 8).

    `attempts` are the decoded members of `actions`, valid or not. Provenance is asked for once, for all contents that
    are written. UPDATE appends a node with the old one's coordinates; a NOOP beside other actions is invalid.
    """
    lone = len(attempts) == 1
    planned: list[tuple[int, Action | None, Rejection | None, Add | Update | None]] = []
    seen: set[tuple[str, ...]] = set()
    written: list[Add | Update] = []
    draft = state.clone()  # what later actions of the same output see
    for index, attempt in enumerate(attempts):
        action = read_action(attempt, segment.roster)
        write: Add | Update | None
        if isinstance(action, Rejection):
            rescued = _as_add(attempt, segment.roster)
            write = rescued if rescued is not None and rescued.key not in seen else None
            planned.append((index, None, action, write))
        else:
            rejection = _judge(action, draft, seen, lone)
            write = action if rejection is None and not isinstance(action, Noop) else None
            planned.append((index, action, rejection, write))
        if write is not None:
            written.append(write)
            draft.append(_record(write, draft, segment, ()))
        if isinstance(write, Add):
            seen.add(write.key)

    supports = iter(support([write.content for write in written], segment)) if written else iter(())
    outcomes = []
    for index, attempted, rejection, write in planned:
        entry_id = None
        if write is not None:
            record = _record(write, state, segment, tuple(next(supports)))
            state.append(record)
            entry_id = record.entry_id
        rescued_fate = Fate.APPLIED_AS_ADD if write is not None else Fate.REJECTED
        fate = Fate.APPLIED if rejection is None else rescued_fate
        outcomes.append(Outcome(index, attempted, fate, rejection, entry_id))
    return Report(tuple(outcomes), over_budget=len(attempts) > segment.budget)


def _judge(action: Action, state: State, seen: set[tuple[str, ...]], lone: bool) -> Rejection | None:
    match action:
        case Noop():
            return None if lone else Rejection(Invalid.NOOP_NOT_ALONE, "NOOP must be the only action")
        case Add():
            return Rejection(Invalid.DUPLICATE_ADD, "the same ADD is in this output already") if action.key in seen else None
        case Update():
            old = state.get(action.entry_id)
            if old is None:
                heads = ", ".join(record.entry_id for record in state.heads()[-5:]) or "none"
                return Rejection(Invalid.UNKNOWN_ENTRY, f"no record {action.entry_id!r}; newest heads: {heads}")
            if not old.head:
                detail = f"{action.entry_id} was superseded by {old.superseded_by}; update the head of its chain"
                return Rejection(Invalid.NOT_A_HEAD, detail)
            if fold(old.content) == fold(action.content):
                return Rejection(Invalid.UNCHANGED, f"{action.entry_id} already says this")
            return None


def _as_add(attempt: object, roster: Roster) -> Add | None:
    """An UPDATE that carries complete valid coordinates is written as an ADD (paper B.2: "treated as Add")."""
    if not isinstance(attempt, dict) or attempt.get("action") != "UPDATE" or getattr(attempt, "repeated", ()):
        return None
    if set(attempt) - {"entry_id"} != set(ADD_KEYS):
        return None
    fields = {key: value for key, value in attempt.items() if key != "entry_id"} | {"action": "ADD"}
    read = read_action(fields, roster)
    return read if isinstance(read, Add) else None


def _record(write: Add | Update, state: State, segment: Segment, from_ids: tuple[str, ...]) -> Record:
    supporting = [record for record in segment.verbatim if record.entry_id in from_ids] or [segment.verbatim[-1]]
    latest = supporting[-1]
    new = Record(
        entry_id=state.next_id(),
        content=write.content,
        owner="",
        source="",
        layer=segment.verbatim[-1].layer,
        utype=segment.verbatim[-1].utype,
        session=segment.session,
        turn=latest.turn,
        turn_created=segment.verbatim[-1].turn_created,
        ts=latest.ts,
        from_ids=from_ids,
        confidence=CONFIDENCE_NEW,
    )
    if isinstance(write, Add):
        return replace(new, owner=write.owner, source=write.source, layer=write.layer, utype=write.utype)
    old = state.get(write.entry_id)
    assert old is not None  # judged before
    confidence = min(1.0, round(old.confidence + CONFIDENCE_STEP, 10))
    inherited = replace(new, owner=old.owner, source=old.source, layer=old.layer, utype=old.utype)
    return replace(inherited, links=(old.entry_id,), confidence=confidence)
