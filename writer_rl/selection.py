"""Which checkpoint of a phase is the chosen one, with the table that it was chosen by (pitfall 20: never loss or reward)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from writer_rl import checkpoint
from writer_rl.recipe import RecipeError

Table = list[dict[str, Any]]  # one row a checkpoint: `checkpoint` and what was measured of it


def best(table: Sequence[dict[str, Any]], by: str) -> str:
    """The checkpoint with the highest `by`, the earlier one of equals; by `last`: the last one."""
    if by == "last":
        return str(table[-1]["checkpoint"])
    return str(max(table, key=lambda row: row[by])["checkpoint"])  # max keeps the first of equals


def behind(table: Sequence[dict[str, Any]], by: str) -> int:
    """How many checkpoints were judged since the best one."""
    if not table:
        return 0
    names = [str(row["checkpoint"]) for row in table]
    return len(names) - 1 - names.index(best(table, by))


def within_reach(table: Table, folder: Path, by: str) -> Table:
    """The rows without the best ones whose checkpoint is not there or damaged: where a run goes on before a damaged
    checkpoint, what that one had displaced is gone."""
    while table and not checkpoint.is_whole(folder / best(table, by)):
        gone = best(table, by)
        table = [row for row in table if row["checkpoint"] != gone]
    return table


def write_selection(folder: Path, table: Table, by: str) -> None:
    """`selected.json` beside the checkpoints: the choice and its table, whole or not at all."""
    text = json.dumps({"checkpoint": best(table, by), "by": by, "table": table}, indent=1)
    partial = folder / ".selected.json.tmp"
    partial.write_text(text + "\n", "utf-8")
    partial.replace(folder / "selected.json")


def selected(folder: Path) -> Path:
    """The checkpoint that a phase's selection names. RecipeError where there is none yet."""
    path = folder / "selected.json"
    if not path.is_file():
        raise RecipeError(f"{folder}: no checkpoint was selected there yet; run train_{folder.name}.py with this recipe first")
    return folder / str(json.loads(path.read_text("utf-8"))["checkpoint"])
