"""The derived write of one segment: judged by the one executor, never stale, exactly once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from data.memory.executor import Outcome, Support, execute
from data.memory.records import Record
from data.memory.state import State
from data.network import GROUP
from data.segments import Segment
from rollout.memory.rows import insert_derived
from rollout.memory.store import Store, StoreError

STALE = "stale_update"


class SegmentOrder(StoreError):
    """A segment was to be written before an earlier one."""


@dataclass(frozen=True, slots=True)
class Fated:
    """What became of one attempted action: `fate` and `reason` as the executor gives them, or rejected as
    `stale_update`. `entry_id` is the record it wrote."""

    place: int
    fate: str
    reason: str
    detail: str
    entry_id: str | None
    attempt: str  # JSON


@dataclass(frozen=True, slots=True)
class Written:
    """A segment's derived write. `repeated`: it was there already and nothing changed."""

    t: int
    outcomes: tuple[Fated, ...]
    over_budget: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Where attempts came from: the Writer's name, its text, and how the text parsed."""

    writer: str
    text: str
    parse: str


def write_segment(store: Store, segment: Segment, attempts: Sequence[object], support: Support, source: Source) -> Written:
    """Execute a Writer's attempts on the store's state and keep the result, in one transaction.

    A segment that is written already stays as it is. An UPDATE whose evidence is older than the evidence of the head
    that it would replace is rejected as `stale_update`. Errors: SegmentOrder.
    """
    while True:
        epoch, state = store.epoch, store.state()
        fated, added, over = _judge(store, state, segment, attempts, support)  # embeds: outside the transaction
        with store.transaction() as db:
            if db.execute("SELECT written FROM segments WHERE t = ?", (segment.t,)).fetchone()["written"]:
                return Written(segment.t, outcomes(store, segment.t), repeated=True)
            earlier = db.execute("SELECT min(t) AS t FROM segments WHERE written = 0").fetchone()["t"]
            if earlier != segment.t:
                raise SegmentOrder(f"store {store.path}: segment {segment.t} was to be written before segment {earlier}")
            if store.epoch != epoch:
                continue  # somebody goes by another name since: judge again
            ids: dict[str, str | None] = {GROUP: None}
            roster = store.roster()
            ids.update({roster.name(member.id): member.id for member in roster.members})
            for record in added:
                insert_derived(db, record, ids, segment.t)
            for one in fated:
                values = (segment.t, one.place, one.fate, one.reason, one.detail, one.entry_id, one.attempt)
                db.execute("INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            db.execute(
                "UPDATE segments SET written = 1, writer = ?, text = ?, parse = ? WHERE t = ?",
                (source.writer, _clean(source.text), source.parse, segment.t),
            )
        return Written(segment.t, tuple(fated), over)


def outcomes(store: Store, t: int) -> tuple[Fated, ...]:
    """What became of the attempts of a segment, in the order attempted."""
    rows = store.rows("SELECT * FROM outcomes WHERE segment = ? ORDER BY place", (t,))
    names = ("place", "fate", "reason", "detail", "entry_id", "attempt")
    return tuple(Fated(*(row[name] for name in names)) for row in rows)


def _judge(
    store: Store, state: State, segment: Segment, attempts: Sequence[object], support: Support
) -> tuple[list[Fated], list[Record], bool]:
    """Execute on a copy; where stale updates show, again without them (each pass has fewer, so it ends)."""
    stale: dict[int, str] = {}
    while True:
        trial = state.clone()
        kept = [None if place in stale else attempt for place, attempt in enumerate(attempts)]
        report = execute(trial, kept, segment, support)
        found = {
            one.index: problem
            for one in report.outcomes
            if one.entry_id is not None and (problem := _stale(store, trial, one.entry_id, segment))
        }
        if not found:
            break
        stale.update(found)
    fated = []
    for outcome in report.outcomes:
        reason, detail = _reason(outcome)
        if outcome.index in stale:
            reason, detail = STALE, stale[outcome.index]
        attempt = _clean(json.dumps(attempts[outcome.index], ensure_ascii=False, default=repr))
        fated.append(Fated(outcome.index, outcome.fate.value, reason, _clean(detail), outcome.entry_id, attempt))
    return fated, list(trial)[len(state) :], report.over_budget


def _reason(outcome: Outcome) -> tuple[str, str]:
    return ("", "") if outcome.rejection is None else (outcome.rejection.reason.value, outcome.rejection.detail)


def _stale(store: Store, trial: State, entry_id: str, segment: Segment) -> str:
    """Why the record must not become head: the head that it replaces rests on later messages ("" where it does not).

    Within a session the source's order decides; across sessions the time, where both are known, because an old
    session may be put in late. What the same segment wrote is never stale.
    """
    record = trial.get(entry_id)
    assert record is not None
    inside = {message.entry_id for message in segment.verbatim}
    for older in record.links:
        head = trial.get(older)
        assert head is not None
        if not head.from_ids or set(head.from_ids) <= inside:
            continue
        new, old = _latest(store, record), _latest(store, head)
        if _before(new, old):
            return (
                f"{older} rests on {_name(old)} ({old['time'] or 'no time'}); this update rests on "
                f"{_name(new)} ({new['time'] or 'no time'}), which is older"
            )
    return ""


def _latest(store: Store, record: Record) -> sqlite3.Row:
    numbers = max(int(one[1:]) for one in record.from_ids)
    return store.rows("SELECT number, session, instant, time FROM messages WHERE number = ?", (numbers,))[0]


def _before(new: sqlite3.Row, old: sqlite3.Row) -> bool:
    if new["session"] != old["session"] and new["instant"] and old["instant"] and new["instant"] != old["instant"]:
        return datetime.fromisoformat(new["instant"]) < datetime.fromisoformat(old["instant"])
    return bool(new["number"] < old["number"])


def _name(row: sqlite3.Row) -> str:
    return f"v{row['number']}"


def _clean(text: str) -> str:
    """Text that SQLite can hold: a Writer's lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()
