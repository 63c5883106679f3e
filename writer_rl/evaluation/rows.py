"""Evaluation rows on disk: JSON lines that are only ever appended to, and found again by key."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from data.network import DataError

Row = dict[str, Any]
Key = tuple[str, str, str, int, str]
JUDGED = frozenset({"correct", "incorrect"})


def key(row: Mapping[str, Any]) -> Key:
    """What a row is about: (kind, writer, network, seed, question). Rows of one key replace one another."""
    return (row["row"], row["writer"], row["network"], row["seed"], row.get("question", ""))


def judged(row: Mapping[str, Any]) -> bool:
    """Whether the row holds a verdict; a missing or unreadable one is none."""
    return row["verdict"] in JUDGED


class RowFile:
    """The rows of evaluations in one file. `path` None keeps them in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._latest = _latest([] if path is None else read_rows(path, mend=True))

    @property
    def rows(self) -> list[Row]:
        """The latest row of every key, in the order in which the keys first came."""
        return list(self._latest.values())

    def of(self, writers: Sequence[str]) -> list[Row]:
        """The latest rows of some writers, in the order of the writers."""
        return [row for writer in writers for row in self.rows if row["writer"] == writer]

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows; they are on the disk when this returns."""
        self._latest |= _latest(rows)
        if self._path is not None and rows:
            append_lines(self._path, rows)


def latest_rows(path: Path) -> list[Row]:
    """The latest row of every key in a file, as `RowFile.rows`, for readers that add nothing. Errors as `read_rows`."""
    return list(_latest(read_rows(path)).values())


def _latest(rows: Iterable[Row]) -> dict[Key, Row]:
    return {key(row): row for row in rows}


def append_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append JSON lines in one write and sync them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with path.open("ab") as out:
        out.write(text.encode("utf-8"))
        out.flush()
        os.fsync(out.fileno())


def read_rows(path: Path, mend: bool = False) -> list[Row]:
    """All lines of a file, superseded ones too; none where it does not exist. The unfinished last line of a killed run is
    passed over (and cut off the file where `mend`). Raises DataError with file and line where any other line is not JSON."""
    if not path.exists():
        return []
    whole = path.read_bytes()
    end = whole.rfind(b"\n") + 1
    if mend and end < len(whole):
        with path.open("r+b") as out:
            out.truncate(end)
    rows: list[Row] = []
    for number, line in enumerate(whole[:end].split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not JSON ({error}); take the line out, or use another file") from error
        if not isinstance(row, dict) or "row" not in row or "writer" not in row:
            raise DataError(f"{path}, line {number}: no evaluation row (`row` and `writer` are missing); use another file")
        rows.append(row)
    return rows
