"""Where teaching writes: networks and teacher files as training reads them, and the journals beside them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from data.network import DataError

LONGEST = 200  # bytes of a file's name that every file system takes


def file_name(network_id: str) -> str:
    """A network's id as the name of a file, without suffix. Errors: an id that no file can be called."""
    forbidden = set('/\\:*?"<>|') & set(network_id) or any(ord(char) < 32 for char in network_id)
    if forbidden or network_id.startswith(".") or not network_id.strip() or len(network_id.encode()) > LONGEST:
        raise DataError(
            f"network id {network_id!r} cannot be the name of a file; give the network an id of letters, digits, - and _"
        )
    return network_id


@dataclass(frozen=True)
class Folder:
    """The layout of one folder: recipes name it in `data.sources` as it is."""

    root: Path

    def network(self, network_id: str) -> Path:
        return self.root / "networks" / f"{file_name(network_id)}.json"

    def teacher(self, network_id: str) -> Path:
        return self.root / "teacher" / f"{file_name(network_id)}.json"

    def journal(self, network_id: str) -> Path:
        return self.root / "journal" / f"{file_name(network_id)}.jsonl"

    @property
    def replies(self) -> Path:
        return self.root / "journal" / "replies.sqlite"

    @property
    def statistics(self) -> Path:
        return self.root / "statistics.json"

    @property
    def review(self) -> Path:
        return self.root / "review.html"

    def make(self) -> None:
        """Errors: DataError where the folders cannot be made."""
        try:
            for name in ("networks", "teacher", "journal"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.root}: cannot be made ({error.strerror}); name a folder you may write to") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """One run at a time: two would pay twice and mix their journals. Errors: DataError where another one is at work."""
        self.make()
        with (self.root / "journal" / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataError(
                    f"{self.root}: another run is teaching into this folder; wait for it, or name another"
                ) from None
            yield


def replace_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file so that it is there whole or not at all: `write` gets a path beside it."""
    partial = path.with_name(f".{path.name}.part")
    write(partial)
    os.replace(partial, path)
