"""The durable memory: verbatim messages, segments and derived records in one SQLite file (WAL), safe for processes."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from data.memory.records import Record
from data.memory.state import State
from data.network import DataError, Member, Roster
from data.segments import Segment
from rollout.memory.embedder import Embedder
from rollout.memory.incoming import Incoming
from rollout.memory.migrations import migrate
from rollout.memory.rows import bump, insert_message, meet, stored_derived, stored_message, stored_verbatim

BUSY_TIMEOUT_MS = 60_000
WINDOW = 25  # messages of one channel that a Writer reads at once


class StoreError(DataError):
    """A store that cannot be used as asked."""


class EmbedderMismatch(StoreError):
    """The store's vectors come from another embedder."""


class UnknownEntry(StoreError):
    """An id that the store does not hold."""


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a batch: `new` entry ids in order, `repeated` messages that were there already, and `conflicts`:
    (channel, message id) pairs that came again with another text or speaker. The first text stays."""

    new: tuple[str, ...]
    repeated: int = 0
    conflicts: tuple[tuple[str, str], ...] = ()


class Store:
    """One memory. Every write is one transaction; what one process has written the next read of any other sees."""

    def __init__(self, path: Path, window: int | None = WINDOW, create: bool = True) -> None:
        """Open, or create with `window` messages a segment (None: a segment a session); an existing store keeps its own.

        Errors: no such store (where `create` is false), a file that is no store, a window below 2.
        """
        if window is not None and window < 2:
            raise StoreError(f"segment window is {window}; use 2 or more, or none for one segment a session")
        if not create and not path.is_file():
            raise StoreError(f"store {path} does not exist. Make one: writer-rl memory ingest FILE --store {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = threading.RLock()
        self._state, self._epoch = State(), ""
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        try:
            self._db.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")  # with WAL: a power cut may lose the last writes, never part of one
            self._db.execute("PRAGMA foreign_keys=ON")
            migrate(self._db, str(path))
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StoreError(f"{path} is not a memory store: {error}") from None
        with self.transaction():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('window', ?)", (json.dumps(window),))

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, one writer at a time over all processes."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def rows(self, query: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def meta(self, key: str) -> str | None:
        found = self.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return found[0]["value"] if found else None

    @property
    def epoch(self) -> str:
        """Changes when somebody is called by another name, and when vectors are dropped."""
        return self.meta("epoch") or ""

    @property
    def window(self) -> int | None:
        value: int | None = json.loads(self.meta("window") or "null")
        return value

    # Embedder

    def use(self, embedder: Embedder) -> None:
        """Bind the store to an embedder the first time; EmbedderMismatch for another one later."""
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('embedder', ?)", (embedder.id,))
            db.execute("INSERT OR IGNORE INTO meta VALUES ('dim', ?)", (str(embedder.dim),))
        stored, dim = self.meta("embedder"), int(self.meta("dim") or 0)
        if (stored, dim) != (embedder.id, embedder.dim):
            raise EmbedderMismatch(
                f"store {self.path} holds vectors of embedder {stored} ({dim} dimensions), not of {embedder.id} "
                f"({embedder.dim}): they do not compare. Embed everything again with: "
                f"writer-rl memory reindex --store {self.path} --embedder NAME"
            )

    def reindex(self, embedder: Embedder) -> None:
        """Forget all vectors and bind to another embedder; they are computed again when next read."""
        with self.transaction() as db:
            db.execute("DELETE FROM vectors")
            for key, value in (("embedder", embedder.id), ("dim", str(embedder.dim))):
                db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
            bump(db)

    # People and messages

    def roster(self) -> Roster:
        rows = self.rows("SELECT id, label, bot FROM members ORDER BY place")
        return Roster(tuple(Member(row["id"], row["label"], bool(row["bot"])) for row in rows))

    def add(self, messages: Iterable[Incoming]) -> Added:
        """Write messages into the verbatim track, in the order given, all or none. Idempotent (see `Incoming.key`)."""
        new: list[str] = []
        repeated = 0
        conflicts: list[tuple[str, str]] = []
        repeats: Counter[str] = Counter()
        with self.transaction() as db:
            number = int(db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()[0])
            turns: dict[str, int] = {}
            people: dict[str, str] = {row["id"]: row["label"] for row in db.execute("SELECT id, label FROM members")}
            before = self.roster()
            for message in messages:
                plain = f"{message.channel}\0{message.key(0)}"
                key = message.key(repeats[plain])
                repeats[plain] += not message.id
                held = db.execute(
                    "SELECT speaker, text FROM messages WHERE channel = ? AND key = ?", (message.channel, key)
                ).fetchone()
                if held is not None:
                    repeated += 1
                    if (held["speaker"], held["text"]) != (message.member_id, message.text):
                        conflicts.append((message.channel, message.id))
                    continue
                meet(db, message, people)
                number += 1
                session = message.session_id
                if session not in turns:
                    latest = db.execute("SELECT coalesce(max(turn), -1) FROM messages WHERE session = ?", (session,)).fetchone()
                    turns[session] = int(latest[0])
                turns[session] += 1
                insert_message(db, message, key, number, turns[session])
                new.append(f"v{number}")
            self._renamed(db, before)
        return Added(tuple(new), repeated, tuple(conflicts))

    def _renamed(self, db: sqlite3.Connection, before: Roster) -> None:
        """Names are part of what is embedded: vectors of records that name a renamed member are dropped."""
        after = self.roster()
        changed = [one.id for one in before.members if before.name(one.id) != after.name(one.id)]
        for member in changed:
            for query in (
                "SELECT 'v' || number FROM messages WHERE speaker = ?1",
                "SELECT entry_id FROM derived WHERE owner = ?1 OR source = ?1",
            ):
                db.execute(f"DELETE FROM vectors WHERE entry_id IN ({query})", (member,))  # noqa: S608 (fixed texts)
        if changed:
            bump(db)

    # Segments

    def close_segments(self, flush: bool = False) -> None:
        """Cut pending messages into segments: full windows, sessions that their channel has left, with `flush` the rest."""
        window = self.window
        with self.transaction() as db:
            pending: dict[str, list[sqlite3.Row]] = {}
            for row in db.execute("SELECT number, channel, session FROM messages WHERE segment IS NULL ORDER BY number"):
                pending.setdefault(row["session"], []).append(row)
            for session, rows in pending.items():
                newest = db.execute("SELECT max(number) FROM messages WHERE channel = ?", (rows[-1]["channel"],)).fetchone()[0]
                ended = flush or newest != rows[-1]["number"]
                size = len(rows) if window is None else window
                whole = len(rows) if ended else (0 if window is None else len(rows) // size * size)
                for start in range(0, whole, size):
                    t = int(db.execute("SELECT coalesce(max(t), -1) + 1 FROM segments").fetchone()[0])
                    db.execute("INSERT INTO segments (t, session) VALUES (?, ?)", (t, session))
                    numbers = [(t, row["number"]) for row in rows[start : min(start + size, whole)]]
                    db.executemany("UPDATE messages SET segment = ? WHERE number = ?", numbers)

    def pending(self) -> int:
        """Messages that no segment holds yet."""
        return int(self.rows("SELECT count(*) FROM messages WHERE segment IS NULL")[0][0])

    def next_segment(self) -> Segment | None:
        """The first segment whose derived records are not written yet."""
        found = self.rows("SELECT t FROM segments WHERE written = 0 ORDER BY t LIMIT 1")
        return self.segment(found[0]["t"]) if found else None

    def segment(self, t: int) -> Segment:
        rows = self.rows("SELECT * FROM messages WHERE segment = ? ORDER BY number", (t,))
        if not rows:
            raise UnknownEntry(f"store {self.path} has no segment {t}")
        roster = self.roster()
        return Segment(
            network=self.path.stem,
            t=t,
            session=rows[0]["session"],
            roster=roster,
            messages=tuple(stored_message(row) for row in rows),
            verbatim=tuple(stored_verbatim(row, roster) for row in rows),
        )

    # Derived

    def state(self) -> State:
        """All derived records, with people named as the roster names them now. A copy; only what is new is read."""
        with self._moment():
            if self.epoch != self._epoch:
                self._epoch, self._state = self.epoch, State()
            rows = self.rows("SELECT * FROM derived ORDER BY place LIMIT -1 OFFSET ?", (len(self._state),))
            roster = self.roster() if rows else Roster(())
            for row in rows:  # the links mark what is superseded
                self._state.append(replace(stored_derived(row, roster), superseded_by=None))
            return self._state.clone()

    @contextmanager
    def _moment(self) -> Iterator[None]:
        """Several reads of one moment."""
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")

    def entry(self, entry_id: str) -> Record:
        """A record of either track. Errors: UnknownEntry."""
        roster = self.roster()
        for row in self.rows("SELECT * FROM derived WHERE entry_id = ?", (entry_id,)):
            return stored_derived(row, roster)
        if entry_id[:1] == "v" and entry_id[1:].isdecimal() and len(entry_id) < 19:
            for row in self.rows("SELECT * FROM messages WHERE number = ?", (int(entry_id[1:]),)):
                return stored_verbatim(row, roster)
        raise UnknownEntry(f"store {self.path} has no record {entry_id!r}; `writer-rl memory show` lists the derived ones")

    def keep_answer(self, question: str, row: str) -> int:
        """Keep what an answer was made of (JSON) for `explain`; its number."""
        with self.transaction() as db:
            return int(db.execute("INSERT INTO answers (question, row) VALUES (?, ?)", (question, row)).lastrowid or 0)
