"""A store in memory, for queries: records and vectors are read once, then only what is new."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data.memory.records import Record
from data.memory.state import State
from rollout.memory.embedder import Embedder, Thresholds
from rollout.memory.rows import stored_verbatim
from rollout.memory.store import Store
from rollout.memory.vectors import memory_text
from rollout.query.view import MemoryView

CHUNK = 4096  # messages read, or embedded and written, at once


class RememberingEmbedder:
    """An embedder that serves texts of stored records from their stored vectors, and computes the others."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, np.ndarray] = {}

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def dim(self) -> int:
        return self._inner.dim

    @property
    def thresholds(self) -> Thresholds:
        return self._inner.thresholds

    def remember(self, text: str, vector: np.ndarray) -> None:
        self._known[text] = vector

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """[n] -> float32 [n, dim]."""
        fresh = [text for text in texts if text not in self._known]
        if len(fresh) == len(texts):
            return self._inner.embed(texts)
        computed = iter(self._inner.embed(fresh)) if fresh else iter(())
        return np.stack([self._known[text] if text in self._known else next(computed) for text in texts]).astype(np.float32)


class Reader:
    """What a query sees of a store: always its newest content. Vectors that the store lacks are computed and kept."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        """Errors: EmbedderMismatch."""
        store.use(embedder)
        self._store = store
        self.embedder = RememberingEmbedder(embedder)
        self._forget("")

    def _forget(self, epoch: str) -> None:
        self._epoch = epoch
        self._verbatim: list[Record] = []
        self._ids: list[str] = []
        self._vectors = np.zeros((0, self.embedder.dim), dtype=np.float32)  # [capacity, dim]
        self._view: MemoryView | None = None
        self._seen = (0, 0)

    def view(self) -> MemoryView:
        """Roster, verbatim track with its vectors, and derived state, as they are now."""
        epoch = self._store.epoch
        if epoch != self._epoch:  # somebody is called by another name, or the embedder changed
            self._forget(epoch)
        newest = self._store.rows("SELECT coalesce(max(number), 0) FROM messages")[0][0]
        derived = self._store.rows("SELECT count(*) FROM derived")[0][0]
        if self._view is not None and self._seen == (newest, derived):
            return self._view
        self._read_messages()
        state = self._store.state()
        self._remember(state)
        count = len(self._verbatim)
        # copies of the lists and a slice of the matrix: a view handed out never changes
        self._view = MemoryView(self._store.roster(), tuple(self._verbatim), state, tuple(self._ids), self._vectors[:count])
        self._seen = (count, len(state))
        return self._view

    def _read_messages(self) -> None:
        roster = self._store.roster()
        while True:
            rows = self._store.rows(
                """SELECT m.*, v.vector FROM messages m LEFT JOIN vectors v ON v.entry_id = 'v' || m.number
                   WHERE m.number > ? ORDER BY m.number LIMIT ?""",
                (len(self._verbatim), CHUNK),
            )
            if not rows:
                return
            records = [stored_verbatim(row, roster) for row in rows]
            start, stop = len(self._verbatim), len(self._verbatim) + len(rows)
            if stop > len(self._vectors):
                grown = np.zeros((max(stop, 2 * len(self._vectors), CHUNK), self.embedder.dim), dtype=np.float32)
                grown[:start] = self._vectors[:start]
                self._vectors = grown
            self._vectors[start:stop] = self._complete(records, [row["vector"] for row in rows])
            self._verbatim += records
            self._ids += [row["id"] or f"v{row['number']}" for row in rows]

    def _remember(self, state: State) -> None:
        records = list(state)
        stored = {
            row["entry_id"]: row["vector"]
            for row in self._store.rows("SELECT entry_id, vector FROM vectors WHERE entry_id >= 'd' AND entry_id < 'e'")
        }
        vectors = self._complete(records, [stored.get(record.entry_id) for record in records])
        for record, vector in zip(records, vectors, strict=True):
            self.embedder.remember(memory_text(record), vector)

    def _complete(self, records: Sequence[Record], blobs: Sequence[bytes | None]) -> np.ndarray:
        """Stored vectors of records [n], the missing ones computed and written -> float32 [n, dim]."""
        result = np.zeros((len(records), self.embedder.dim), dtype=np.float32)
        missing = [index for index, blob in enumerate(blobs) if blob is None]
        for index, blob in enumerate(blobs):
            if blob is not None:
                result[index] = np.frombuffer(blob, dtype="<f4")
        if missing:
            computed = self.embedder.embed([memory_text(records[index]) for index in missing])
            result[missing] = computed
            values = [
                (records[index].entry_id, vector.astype("<f4").tobytes())
                for index, vector in zip(missing, computed, strict=True)
            ]
            with self._store.transaction() as db:
                if self._store.epoch == self._epoch:  # else the texts are of older names
                    db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", values)
        return result
