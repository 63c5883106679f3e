"""The whole job in one call: SFT, GRPO, evaluation of both beside teacher and empty, a table and a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from writer_rl import checkpoint, entry, sft
from writer_rl.cases import Case, load_cases
from writer_rl.evaluation.evaluate import Row, evaluate
from writer_rl.evaluation.summary import difference, measure, table
from writer_rl.evaluation.writers import Writer, checkpoint_writer, empty_writer, teacher_writer
from writer_rl.logbook import read_lines, write_lines
from writer_rl.recipe import Recipe, RecipeError
from writer_rl.runtime import Runtime

WRITERS = ("sft", "r1", "teacher", "empty")


def run(recipe: Recipe) -> Path:
    """Everything a recipe describes; returns the folder with rows.jsonl, results.json, table.md and curves.png.

    What is done already is not repeated: phases go on from their checkpoints, rows are kept by Writer.
    """
    entry.run("sft", recipe)
    entry.run("grpo", recipe)
    folder = recipe.folder / "eval"
    rows = evaluate_all(recipe, folder)
    (folder / "table.md").write_text(page(recipe, rows), "utf-8")
    (folder / "results.json").write_text(json.dumps(results(rows), indent=1) + "\n", "utf-8")
    draw(recipe.folder, folder / "curves.png")
    return folder


def evaluate_all(recipe: Recipe, folder: Path) -> list[Row]:
    """Rows of the four Writers on the recipe's evaluation side; a Writer with rows there is not asked again."""
    path = folder / "rows.jsonl"
    rows: list[Row] = read_lines(path)
    runtime = Runtime.of(recipe)
    cases = load_cases(recipe.data, recipe.eval.side)[: recipe.eval.limit]
    for name in WRITERS:
        if not any(row["writer"] == name for row in rows):
            rows += evaluate(runtime, _open(name, runtime, cases), cases, recipe.eval.seeds)
            write_lines(path, rows)
    return rows


def _open(name: str, runtime: Runtime, cases: Sequence[Case]) -> Writer:
    folder = runtime.recipe.folder
    if name == "r1":
        last = checkpoint.latest(folder / "grpo")
        if last is None:
            raise RecipeError(f"{folder}: no GRPO checkpoint to evaluate; run train_grpo.py with this recipe")
        return checkpoint_writer(runtime, runtime.policy(last), name)
    policy = runtime.policy(sft.selected(folder / "sft"))
    if name == "sft":
        return checkpoint_writer(runtime, policy, name)
    prompt = runtime.prompt(policy)
    return teacher_writer(cases, prompt) if name == "teacher" else empty_writer(prompt)


def results(rows: Sequence[Row]) -> dict[str, Any]:
    """The numbers of the table by name, with the paired differences of r1 over sft."""
    made: dict[str, Any] = {
        "networks": len({row["network"] for row in rows}),
        "questions": len({(row["network"], row["question"]) for row in rows if row["row"] == "question"}),
        "pipeline_id": rows[0]["pipeline_id"],
        "offline": rows[0]["offline"],
    }
    for name in ("sft", "r1"):
        for key, label in (("return", "reward"), ("phi", "phi")):
            value = measure(rows, name, key)
            made[f"{name}_{label}"] = None if value is None else value.mean
    for key, label in (("return", "reward"), ("phi", "phi"), ("accuracy", "acc")):
        gain = difference(rows, "sft", "r1", key)
        made[f"{label}_gain"], made[f"{label}_ci"] = gain.mean, [gain.low, gain.high]
    for name in WRITERS:
        value = measure(rows, name, "accuracy")
        made[f"{name}_acc"] = None if value is None else value.mean
    return made


def page(recipe: Recipe, rows: Sequence[Row]) -> str:
    """The table in Markdown, with what it is made of."""
    made = results(rows)
    gain = {key: (made[f"{key}_gain"], *made[f"{key}_ci"]) for key in ("reward", "phi", "acc")}
    lines = [
        f"Run `{recipe.run}`, {recipe.eval.side} side: {made['networks']} networks, {made['questions']} questions, "
        f"{recipe.eval.seeds} sampled memories each. Mean [95 % interval, bootstrap over networks].",
        table(rows, WRITERS),
        "R1 minus SFT, paired: "
        + "; ".join(f"{key} {mean:+.3f} [{low:+.3f}, {high:+.3f}]" for key, (mean, low, high) in gain.items())
        + ".",
    ]
    if made["offline"]:
        lines.append("Answers and verdicts are of the offline roles: deterministic and lexical.")
    return "\n\n".join(lines) + "\n"


def draw(run: Path, to: Path) -> None:
    """Curves of both phases as a PNG: SFT loss; reward, Phi, validity and QA gain; KL with its gate; kept positions."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps, rounds = read_lines(run / "metrics-sft.jsonl"), read_lines(run / "metrics-grpo.jsonl")
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7))
    axes[0][0].plot([row["epoch"] for row in steps], [row["loss"] for row in steps])
    axes[0][0].set(title="SFT: loss of completion tokens", xlabel="epoch")
    for name, label in (("reward", "reward"), ("reward/phi", "Phi"), ("reward/valid", "validity"), ("qa/gain", "QA gain")):
        axes[0][1].plot([row["step"] for row in rounds], [row[name] for row in rounds], label=label)
    axes[0][1].set(title="GRPO: reward and its parts (training networks)", xlabel="round")
    axes[0][1].legend()
    measured = [row for row in rounds if "epoch/1/kl" in row]
    axes[1][0].plot([row["step"] for row in measured], [row["epoch/1/kl"] for row in measured], label="before the update")
    axes[1][0].axhline(0.02, linestyle="--", color="grey", label="gate")
    axes[1][0].set(title="GRPO: mean KL to the SFT policy", xlabel="round")
    axes[1][0].legend()
    axes[1][1].plot([row["step"] for row in rounds], [1 - row["adv/frac_positions_dropped"] for row in rounds])
    axes[1][1].set(title="GRPO: share of positions with a signal", xlabel="round", ylim=(0, 1.05))
    figure.tight_layout()
    figure.savefig(to, dpi=110)
    pyplot.close(figure)
