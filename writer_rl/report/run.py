"""What a run's folder holds for its report; parts that are not there yet are left out, with a note where that matters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.network import DataError
from writer_rl import recipe as recipes
from writer_rl.cases import Case, load_cases
from writer_rl.evaluation.rows import latest_rows
from writer_rl.recipe import Recipe

Row = dict[str, Any]


class RunError(DataError):
    """A folder that is no run, or a file in it that cannot be read."""


@dataclass(frozen=True)
class Run:
    """`recipe` is None where none is saved or it no longer fits; `cases` are the training networks by id, empty where they
    are not at hand. `notes` tell a reader what the report goes without, and why. `selection` is SFT's table of epochs.
    `evaluations` holds the rows of each, by its folder, latest checkpoint first."""

    folder: Path
    recipe: Recipe | None
    cases: dict[str, Case]
    notes: tuple[str, ...]
    sft: tuple[Row, ...]
    grpo: tuple[Row, ...]
    selection: Row
    evaluations: dict[str, list[Row]]

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def rounds(self) -> Iterator[tuple[int, list[Row]]]:
        """Trace rows of each round, in order."""
        for path in sorted((self.folder / "trace" / "grpo").glob("round-*.jsonl")):
            number = re.fullmatch(r"round-(\d+)", path.stem)
            if number is not None:
                yield int(number[1]), _lines(path)


def read_run(folder: Path) -> Run:
    """Everything but the traces, which are read round by round. Raises RunError where there is nothing to report."""
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; name a run's folder, for example checkpoints/r1")
    sft, grpo = _lines(folder / "metrics-sft.jsonl"), _lines(folder / "metrics-grpo.jsonl")
    asked = {path.parent.relative_to(folder).as_posix(): latest_rows(path) for path in (folder / "eval").glob("**/rows.jsonl")}
    evaluations = {name: asked[name] for name in sorted(asked, reverse=True) if asked[name]}
    if not sft and not grpo and not evaluations:
        raise RunError(
            f"{folder}: no metrics-sft.jsonl, metrics-grpo.jsonl or eval/rows.jsonl; name the folder of a run that has begun"
        )
    notes: list[str] = []
    recipe = _recipe(folder, notes)
    cases = _cases(recipe, notes) if recipe is not None and grpo else {}
    chosen = folder / "sft" / "selected.json"
    selection = json.loads(chosen.read_text("utf-8")) if chosen.is_file() else {}
    return Run(folder, recipe, cases, tuple(notes), tuple(sft), tuple(grpo), selection, evaluations)


def _lines(path: Path) -> list[Row]:
    """The rows of a JSON-lines file; none where it does not exist. A last line that was cut off is left out: a run that is
    still going, or was killed, may be reported on."""
    if not path.is_file():
        return []
    lines = path.read_text("utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                rows.append(json.loads(line))
        except ValueError as error:
            if number < len(lines):
                raise RunError(f"{path}, line {number}: not JSON ({error}); delete the line, or the file") from error
    return rows


def _recipe(folder: Path, notes: list[str]) -> Recipe | None:
    """The recipe that the run was made with, as it is saved beside it."""
    for name in ("recipe-grpo.yaml", "recipe-sft.yaml"):
        if (folder / name).is_file():
            try:
                return recipes.load(str(folder / name))
            except DataError as error:
                notes.append(
                    f"The saved recipe no longer fits, so networks and reward weights are not known (defaults shown): {error}"
                )
                return None
    notes.append("No recipe is saved in the folder: default reward weights and KL gate are assumed.")
    return None


def _cases(recipe: Recipe, notes: list[str]) -> dict[str, Case]:
    try:
        return {case.network.id: case for case in load_cases(recipe.data, "train")}
    except (DataError, OSError) as error:
        notes.append(f"The networks are not at hand, so there are no reference states and questions: {error}")
        return {}
