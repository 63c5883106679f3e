"""Chats in a table of one's own: JSONL or CSV with one message a row, and a map from our columns to its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from data.importers.chat import ChatBuilder, finish, sound
from data.importers.csvrows import CsvRows, Lines
from data.importers.imported import Imported, Quarantined
from data.importers.lines import decoded_lines
from data.network import DataError, Message, fold

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
JSONL, CSV = (".jsonl", ".ndjson"), {".csv": ",", ".tsv": "\t"}
BOT = {"true", "1", "yes", "bot"}


@dataclass(frozen=True, slots=True)
class Columns:
    """The table's name for each column of ours. Needed: speaker and text. With a `label` (what people see), `speaker`
    is an id; without one it is a name, whose folded form is the identity. `time` is ISO 8601 or epoch seconds; without
    `session`, sessions are cut."""

    speaker: str = "speaker"
    text: str = "text"
    label: str = "label"
    id: str = "id"
    time: str = "time"
    channel: str = "channel"
    session: str = "session"
    reply_to: str = "reply_to"
    bot: str = "bot"

    @classmethod
    def from_map(cls, names: Mapping[str, str]) -> Columns:
        """From our names to the table's. Errors: a name that is none of ours."""
        known = [one.name for one in fields(cls)]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise DataError(f"column map: {unknown[0]!r} is no column of ours; use {', '.join(known)}")
        return cls(**names)

    def renamed(self) -> list[str]:
        """The table's columns that somebody named on purpose."""
        return [getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default]


def load(path: Path, columns: Columns | None = None) -> Imported:
    """One network from a .jsonl, .ndjson, .csv or .tsv file. A row that does not fit is quarantined with the reason.

    Rows without an id are numbered (`m7` for line 7). Errors (DataError): unreadable file, another suffix, a CSV
    without the needed or the named columns.
    """
    names = columns or Columns()
    builder = ChatBuilder(f"chat-{path.stem}", str(path))
    quarantined: list[Quarantined] = []
    read = 0
    for line, row in _rows(path, names):
        read += 1
        reason = row if isinstance(row, str) else _take(line, row, names, builder)
        if reason is not None:
            quarantined.append(Quarantined(line, reason, path.name))
    return finish([builder], quarantined, read)


def _rows(path: Path, names: Columns) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """(line, row) or (line, why it is none)."""
    suffix = path.suffix.lower()
    if suffix not in (*JSONL, *CSV):
        raise DataError(f"{path}: a table of messages ends in {', '.join((*JSONL, *CSV))}; rename the file or convert it")
    try:
        with path.open("rb") as handle:
            lines = decoded_lines(handle)
            yield from _jsonl(lines) if suffix in JSONL else _csv(lines, CSV[suffix], names, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def _jsonl(lines: Lines) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for number, line in lines:
        if line is None:
            yield number, "not UTF-8 text"
        elif line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                yield number, "not JSON"
                continue
            yield number, row if isinstance(row, dict) else "not a JSON object"


def _csv(lines: Lines, delimiter: str, names: Columns, path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    rows = CsvRows(lines, delimiter)
    missing = [name for name in (names.speaker, names.text, *names.renamed()) if name not in rows.header]
    if missing:
        there = ", ".join(rows.header) or "none"
        raise DataError(f"{path}, line 1: no column {missing[0]!r} (it has {there}); map the columns")
    yield from rows


def _take(line: int, row: dict[str, Any], names: Columns, builder: ChatBuilder) -> str | None:
    """Make a row a message; else say why not."""
    cells: dict[str, str] = {}
    for column in fields(names):
        value = row.get(getattr(names, column.name))
        if value is not None and not isinstance(value, str | int | float):
            return f"{column.name} is neither a text nor a number"
        cells[column.name] = "" if value is None else str(value).strip()
    if not cells["speaker"]:
        return "no speaker"
    if not cells["text"]:
        return "no text"
    if not sound(*cells.values()):
        return "holds half a surrogate pair"
    try:
        instant, assumed, day = read_time(cells["time"])
    except (ValueError, OverflowError):
        return "time is neither ISO 8601 nor epoch seconds"
    name = cells["speaker"]
    speaker = name if cells["label"] else fold(name)
    if not builder.member(speaker, cells["label"] or name, cells["bot"].lower() in BOT):
        return "speaker id differs from another's only in case or spaces"
    message_id, reply, session = cells["id"] or f"m{line}", cells["reply_to"] or None, cells["session"] or None
    message = Message(message_id, speaker, cells["text"], cells["time"], instant, assumed, reply)
    return None if builder.add(message, cells["channel"], day, session) else "message id twice"


def read_time(text: str) -> tuple[datetime | None, bool, date | None]:
    """(UTC instant, zone assumed, the day as written) of an ISO time or epoch seconds; nothing is known of "".

    Errors: ValueError or OverflowError for anything else. A time without a zone is taken as UTC and flagged.
    """
    if not text:
        return None, True, None
    whole, point, fraction = text.partition(".")
    if whole.isascii() and whole.isdigit() and len(whole) in (9, 10) and (fraction.isdigit() or not point):
        instant = EPOCH + timedelta(seconds=float(text))
        return instant, False, instant.date()
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC), True, time.date()
    return time.astimezone(UTC), False, time.date()
