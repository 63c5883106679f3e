"""The page: the template with style, scripts and data set in, safe whatever the data says."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import zlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from rewards.weights import RewardWeights
from writer_rl.report.rounds import read_rounds
from writer_rl.report.run import Row, Run, read_run
from writer_rl.report.tables import call_tables, evaluation_tables, selection_table, time_tables

KL_GATE = 0.02  # where no recipe is saved
SCRIPTS = ("dom.js", "curves.js", "records.js", "viewer.js", "main.js")


def write_report(run_folder: Path, to: Path | None = None) -> Path:
    """Write the page of a run, by default as `report.html` in its folder; returns where it is.

    One file without outside resources, which opens from a disk. Raises DataError where the folder is no run or a file in
    it cannot be read; what is merely not there yet is left out, and the page says so.
    """
    run = read_run(run_folder)
    path = to or run_folder / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(render(run), "utf-8", errors="backslashreplace")  # JSON's own escape of half a surrogate pair
    partial.replace(path)
    return path


def render(run: Run) -> str:
    """The whole page as text."""
    viewer = read_rounds(run)
    summary = {
        "run": run.name,
        "notes": [*run.notes, *viewer.notes],
        "gate": KL_GATE if run.recipe is None else run.recipe.grpo.kl_gate,
        "weights": _weights(run),
        "recipe": "" if run.recipe is None else run.recipe.to_yaml(),
        "sft": _columns(run.sft),
        "grpo": _columns(run.grpo),
        "tables": evaluation_tables(run.evaluations) + selection_table(run.selection),
        "cost": time_tables(run.grpo) + call_tables(run.evaluations),
        "index": viewer.index,
    }
    blocks = [_block("summary", summary), _block("networks", viewer.networks)]
    blocks += [_packed(f"round-{number}", trajectories) for number, trajectories in viewer.rounds.items()]
    style = _asset("page.css")
    script = "\n".join(_asset(name) for name in SCRIPTS)
    return Template(_asset("page.html")).substitute(
        title=html.escape(f"{run.name}: run report"),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data="\n".join(blocks),
    )


def _weights(run: Run) -> dict[str, float]:
    weights = RewardWeights() if run.recipe is None else RewardWeights(**run.recipe.grpo.reward.model_dump())
    return {name: getattr(weights, name) for name in ("w_valid", "w_mem", "w_phi", "w_chain")}


def _columns(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """Metrics by name; None where a step has no such number or it is not finite (JSON has no NaN)."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [_finite(row.get(name)) for row in rows] for name in names}


def _finite(value: Any) -> float | None:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


def _block(name: str, value: Any) -> str:
    """Data as an element that no browser runs. `<` is escaped, so that no text in it can end the element or open a comment."""
    text = _json(value).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _packed(name: str, value: Any) -> str:
    """The same, as base64 of deflate: a seventh of the size, and the browser reads what is never looked at in no time."""
    packed = base64.b64encode(zlib.compress(_json(value).encode("utf-8", "backslashreplace"), 9)).decode()
    return f'<script type="application/octet-stream" id="{name}">{packed}</script>'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _asset(name: str) -> str:
    return (files("writer_rl.report") / "static" / name).read_text("utf-8").strip()


def _hash(text: str) -> str:
    """For the content security policy: nothing but this very text runs."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
