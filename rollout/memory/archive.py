"""A store as JSONL, one fact a line: for backups, for moving, and for looking at with other tools."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from rollout.memory.rows import bump
from rollout.memory.store import Store, StoreError

FORMAT = 1
TABLES = ("members", "segments", "messages", "derived", "outcomes", "answers")  # parents before children


def export_lines(store: Store) -> Iterator[str]:
    """The whole store but its vectors (they are computed again where it is imported), one JSON object a line."""
    yield json.dumps({"kind": "store", "format": FORMAT, "window": store.window})
    for table in TABLES:
        order = "segment, place" if table == "outcomes" else "1"
        for row in store.rows(f"SELECT * FROM {table} ORDER BY {order}"):  # noqa: S608 (fixed names)
            yield json.dumps({"kind": table, **dict(row)}, ensure_ascii=False)


def import_lines(store: Store, lines: Iterable[str]) -> dict[str, int]:
    """Fill an empty store from exported lines, all or nothing; counts by table.

    Errors: the store holds something, a line that no export wrote (with its number).
    """
    counts = dict.fromkeys(TABLES, 0)
    with store.transaction() as db:
        if any(db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in TABLES):  # noqa: S608
            raise StoreError(f"store {store.path} is not empty; import into a new one, or ingest messages instead")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                kind = _insert(db, json.loads(line), first=number == 1)
            except (ValueError, KeyError, TypeError, AttributeError, sqlite3.Error) as error:
                raise StoreError(
                    f"import line {number} is not of an export of this program: {error}; nothing was imported"
                ) from None
            if kind in counts:
                counts[kind] += 1
        bump(db)
    return counts


def _insert(db: sqlite3.Connection, row: dict[str, Any], first: bool) -> str:
    kind: str = row.pop("kind")
    if first != (kind == "store"):
        raise ValueError("the first line, and only that, must be of kind 'store'")
    if kind == "store":
        if row["format"] != FORMAT:
            raise ValueError(f"format {row['format']} is not {FORMAT}")
        db.execute("INSERT OR REPLACE INTO meta VALUES ('window', ?)", (json.dumps(row["window"]),))
        return kind
    if kind not in TABLES:
        raise ValueError(f"unknown kind {kind!r}")
    columns = {one["name"] for one in db.execute("SELECT name FROM pragma_table_info(?)", (kind,))}
    if set(row) != columns:
        raise ValueError(f"{kind} has the keys {sorted(row)}, not {sorted(columns)}")
    names = ", ".join(row)
    db.execute(f"INSERT INTO {kind} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))  # noqa: S608 (checked)
    return kind
