"""The store's schema as ordered steps: a database at version n has run the first n of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from data.network import DataError


def _tables(db: sqlite3.Connection) -> None:
    """Members, verbatim messages, segments, derived records, outcomes, vectors, answers.

    `owner`, `source` and `speaker` hold member ids (NULL is GROUP), never names: a later member with the same label
    renames people in prompts, not in history. Derived records are append-only: triggers hold that for every program.
    """
    for statement in (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE members (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, platform TEXT NOT NULL,
           account TEXT NOT NULL, label TEXT NOT NULL, bot INTEGER NOT NULL, UNIQUE (platform, account))""",
        """CREATE TABLE segments (t INTEGER PRIMARY KEY, session TEXT NOT NULL, written INTEGER NOT NULL DEFAULT 0,
           writer TEXT NOT NULL DEFAULT '', parse TEXT NOT NULL DEFAULT '', text TEXT NOT NULL DEFAULT '')""",
        """CREATE TABLE messages (number INTEGER PRIMARY KEY, channel TEXT NOT NULL, key TEXT NOT NULL, id TEXT NOT NULL,
           session TEXT NOT NULL, turn INTEGER NOT NULL, speaker TEXT NOT NULL REFERENCES members (id), text TEXT NOT NULL,
           time TEXT NOT NULL, instant TEXT, zone_assumed INTEGER NOT NULL, reply_to TEXT,
           segment INTEGER REFERENCES segments (t), UNIQUE (channel, key), UNIQUE (session, turn))""",
        "CREATE INDEX messages_segment ON messages (segment)",
        "CREATE INDEX messages_channel ON messages (channel)",
        "CREATE INDEX segments_unwritten ON segments (t) WHERE written = 0",
        """CREATE TABLE derived (place INTEGER PRIMARY KEY, entry_id TEXT NOT NULL UNIQUE, content TEXT NOT NULL,
           owner TEXT REFERENCES members (id), source TEXT REFERENCES members (id), layer TEXT NOT NULL, utype TEXT NOT NULL,
           session TEXT NOT NULL, turn INTEGER NOT NULL, turn_created INTEGER NOT NULL, ts TEXT NOT NULL,
           from_ids TEXT NOT NULL, links TEXT NOT NULL, superseded_by TEXT, confidence REAL NOT NULL,
           segment INTEGER NOT NULL REFERENCES segments (t))""",
        """CREATE TABLE outcomes (segment INTEGER NOT NULL REFERENCES segments (t), place INTEGER NOT NULL,
           fate TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, entry_id TEXT, attempt TEXT NOT NULL,
           PRIMARY KEY (segment, place)) WITHOUT ROWID""",
        "CREATE TABLE vectors (entry_id TEXT PRIMARY KEY, vector BLOB NOT NULL)",
        "CREATE TABLE answers (id INTEGER PRIMARY KEY, question TEXT NOT NULL, row TEXT NOT NULL)",
        """CREATE TRIGGER derived_stays BEFORE DELETE ON derived
           BEGIN SELECT RAISE(ABORT, 'derived records are never deleted'); END""",
        """CREATE TRIGGER derived_is_written_once BEFORE UPDATE ON derived
           WHEN OLD.superseded_by IS NOT NULL OR NEW.content IS NOT OLD.content OR NEW.entry_id IS NOT OLD.entry_id
             OR NEW.owner IS NOT OLD.owner OR NEW.source IS NOT OLD.source OR NEW.links IS NOT OLD.links
           BEGIN SELECT RAISE(ABORT, 'derived records are never overwritten'); END""",
    ):
        db.execute(statement)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_tables,)


def migrate(db: sqlite3.Connection, name: str) -> None:
    """Bring a database to the newest version, each step in a transaction of its own. Safe for several processes.

    Errors: a database of a newer program.
    """
    while True:
        db.execute("BEGIN IMMEDIATE")
        try:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            if version > len(MIGRATIONS):
                raise DataError(
                    f"store {name} has schema version {version}; this program knows up to {len(MIGRATIONS)}. Update the program"
                )
            if version < len(MIGRATIONS):
                MIGRATIONS[version](db)
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        if version >= len(MIGRATIONS):
            return
