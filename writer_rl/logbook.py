"""What a run writes down: metrics.jsonl, TensorBoard, and one trace file a round."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON lines to a temporary name, then rename: the file is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)


def read_lines(path: Path, torn: bool = False) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; none if it does not exist. `torn` passes over an unfinished last line, which a run
    that was killed while it wrote leaves behind."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    whole = lines[:-1] if torn else lines
    return [json.loads(line) for line in whole if line.strip()]


class Logbook:
    """Metrics of one phase (`sft` or `grpo`) of a run. Opening it at `step` forgets what was written at or after it, so
    that a resumed run leaves the same files as one that was never stopped. A rank other than 0 writes nothing."""

    def __init__(self, folder: Path, phase: str, step: int, main: bool = True) -> None:
        self._trace = folder / "trace" / phase
        self._metrics = folder / f"metrics-{phase}.jsonl"
        self._main = main
        if not main:
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_lines(self._metrics, [row for row in read_lines(self._metrics, torn=True) if row["step"] < step])
        self._board = SummaryWriter(str(folder / "tensorboard" / phase), purge_step=step)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """One row of metrics, names in TensorBoard's `group/name` form."""
        if not self._main:
            return
        with self._metrics.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": step, **values}) + "\n")
        for name, value in values.items():
            self._board.add_scalar(name, value, step)
        self._board.flush()

    def trace(self, round_index: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Every position of a round: completion, actions, their fate, reward parts."""
        if self._main:
            write_lines(self._trace / f"round-{round_index:04d}.jsonl", rows)

    def close(self) -> None:
        if self._main:
            self._board.close()
