"""Rows of the store's tables, to and from the types of the project."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime

from data.memory.records import Layer, Record, UType
from data.network import GROUP, Message, Roster, Session
from data.segments import verbatim_record
from rollout.memory.incoming import Incoming


def bump(db: sqlite3.Connection) -> None:
    """Tell readers that hold records in memory to read them all again."""
    db.execute("INSERT OR IGNORE INTO meta VALUES ('epoch', '0')")
    db.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'epoch'")


def meet(db: sqlite3.Connection, message: Incoming, people: dict[str, str]) -> None:
    """The speaker joins the roster, or goes by a new label from now on."""
    member = message.member_id
    label = message.label if message.label.strip() else message.speaker
    if member not in people:
        db.execute(
            "INSERT INTO members (id, platform, account, label, bot) VALUES (?, ?, ?, ?, ?)",
            (member, message.platform, message.speaker, label, message.bot),
        )
        people[member] = label
    elif message.label.strip() and people[member] != label:
        db.execute("UPDATE members SET label = ? WHERE id = ?", (label, member))
        people[member] = label


def insert_message(db: sqlite3.Connection, message: Incoming, key: str, number: int, turn: int) -> None:
    instant, assumed = message.instant()
    db.execute(
        "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (
            number,
            message.channel,
            key,
            message.id,
            message.session_id,
            turn,
            message.member_id,
            message.text,
            message.time,
            None if instant is None else instant.isoformat(),
            assumed,
            message.reply_to,
        ),
    )


def stored_message(row: sqlite3.Row) -> Message:
    instant = None if row["instant"] is None else datetime.fromisoformat(row["instant"])
    name = row["id"] or f"v{row['number']}"
    return Message(name, row["speaker"], row["text"], row["time"], instant, bool(row["zone_assumed"]), row["reply_to"])


def stored_verbatim(row: sqlite3.Row, roster: Roster) -> Record:
    message = Message(str(row["number"]), row["speaker"], row["text"], row["time"])
    return verbatim_record(message, Session(row["session"], ()), row["turn"], row["number"], roster)


def stored_derived(row: sqlite3.Row, roster: Roster) -> Record:
    return Record(
        entry_id=row["entry_id"],
        content=row["content"],
        owner=GROUP if row["owner"] is None else roster.name(row["owner"]),
        source=GROUP if row["source"] is None else roster.name(row["source"]),
        layer=Layer(row["layer"]),
        utype=UType(row["utype"]),
        session=row["session"],
        turn=row["turn"],
        turn_created=row["turn_created"],
        ts=row["ts"],
        from_ids=tuple(json.loads(row["from_ids"])),
        links=tuple(json.loads(row["links"])),
        superseded_by=row["superseded_by"],
        confidence=row["confidence"],
    )


def insert_derived(db: sqlite3.Connection, record: Record, ids: dict[str, str | None], segment: int) -> None:
    """Append a derived record and mark the one it replaces. `ids` maps roster names to member ids, GROUP to None."""
    db.execute(
        """INSERT INTO derived (entry_id, content, owner, source, layer, utype, session, turn, turn_created, ts, from_ids,
           links, superseded_by, confidence, segment) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)""",
        (
            record.entry_id,
            record.content,
            ids[record.owner],
            ids[record.source],
            record.layer.value,
            record.utype.value,
            record.session,
            record.turn,
            record.turn_created,
            record.ts,
            json.dumps(record.from_ids),
            json.dumps(record.links),
            record.confidence,
            segment,
        ),
    )
    for older in record.links:
        db.execute("UPDATE derived SET superseded_by = ? WHERE entry_id = ?", (record.entry_id, older))
