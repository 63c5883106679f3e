"""Replies on disk, addressed by the content of the request. SQLite and JSON only: nothing read back is ever executed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BUSY_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Reply:
    """A usable reply as it came: the text, and what it used."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    served_model: str = ""  # the provider's own name for what answered


def content_key(request: Mapping[str, Any]) -> str:
    """The address of a request: SHA-256 over its canonical JSON (sorted keys, original characters)."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class ReplyCache:
    """A key-value store in one SQLite file, safe for several processes and threads. Path None keeps it in memory."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
        self._db.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID")

    def get(self, key: str) -> Reply | None:
        with self._lock:
            row = self._db.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        return None if row is None else Reply(**json.loads(row[0]))

    def put(self, key: str, reply: Reply) -> None:
        """Keep the first reply to a request: a second one of a race is dropped, so later readers agree."""
        with self._lock:
            self._db.execute(
                "INSERT OR IGNORE INTO replies (key, reply) VALUES (?, ?)", (key, json.dumps(asdict(reply), ensure_ascii=False))
            )

    def drop(self, key: str) -> None:
        """Forget a reply that cannot be read any more."""
        with self._lock:
            self._db.execute("DELETE FROM replies WHERE key = ?", (key,))

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM replies").fetchone()[0])

    def close(self) -> None:
        with self._lock:
            self._db.close()
