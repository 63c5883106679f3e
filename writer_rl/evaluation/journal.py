"""What Writers wrote, kept beside the rows: an evaluation that goes on asks the same memories, to the byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from data.network import DataError
from rollout.engines.base import Completion, Request
from rollout.writer.sampler import Episode
from rollout.writer.trajectory import Trajectory
from writer_rl.evaluation.rows import Row, append_lines, read_rows

WriteKey = tuple[str, str, int, int]  # settings, network hash, seed, position


def settings_hash(parts: object) -> str:
    """sha256 over everything that decides what a Writer writes: JSON-able."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


class Journal:
    """Completions by (settings, network, seed, position), without log-probabilities. `path` None keeps none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[WriteKey, Completion] = {}
        for row in [] if path is None else read_rows(path, mend=True):
            where = (row["settings"], row["network_hash"], row["seed"], row["t"])
            usage = tuple(row["usage"]) if row.get("usage") else None
            self._found[where] = Completion(tuple(row["ids"]), (0.0,) * len(row["ids"]), row["finish"], row["version"], usage)

    def engine(self, settings: str, hashes: dict[str, str], episodes: Sequence[Episode]) -> StoredEngine | None:
        """An engine that says again what was written for all these episodes; None where any of it is missing."""
        keys = [(settings, hashes[one.segments[0].network], one.g, t) for one in episodes for t in range(len(one.segments))]
        if not keys or any(one not in self._found for one in keys):
            return None
        return StoredEngine(settings, hashes, self._found)

    def keep(self, writer: str, settings: str, hashes: dict[str, str], trajectories: Sequence[Trajectory]) -> None:
        """Append the writes of whole trajectories."""
        if self._path is None:
            return
        rows: list[Row] = []
        for one in trajectories:
            for t, write in enumerate(one.writes):
                said = write.completion
                rows.append(
                    {
                        "row": "write",
                        "writer": writer,
                        "settings": settings,
                        "network": one.network,
                        "network_hash": hashes[one.network],
                        "seed": one.g,
                        "t": t,
                        "text": write.text,
                        "ids": list(said.token_ids),
                        "finish": said.finish_reason,
                        "version": said.weights_version,
                        "prompt_tokens": len(write.prompt_ids),
                        "usage": said.usage,
                    }
                )
                self._found[settings, hashes[one.network], one.g, t] = said
        append_lines(self._path, rows)


class StoredEngine:
    """Says what a journal holds."""

    def __init__(self, settings: str, hashes: dict[str, str], found: dict[WriteKey, Completion]) -> None:
        self._settings = settings
        self._hashes = hashes
        self._found = found

    async def generate(self, request: Request) -> Completion:
        key = request.key
        return self._found[self._settings, self._hashes[key.network], key.g, key.t]

    async def sync(self, named_tensors: object, version: int) -> None:
        raise DataError("an engine that reads a journal has no weights to load")
