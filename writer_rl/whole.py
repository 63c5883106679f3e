"""The whole job in one call: SFT, GRPO, evaluation of both beside teacher, empty and messages alone, a table, a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from writer_rl import checkpoint, entry
from writer_rl.evaluation import command
from writer_rl.evaluation.rows import Row, latest_rows
from writer_rl.evaluation.summary import difference, measure, table
from writer_rl.logbook import read_lines
from writer_rl.recipe import Recipe, RecipeError
from writer_rl.selection import selected

MEMORIES = ("sft", "r1", "teacher", "empty")
BASELINES = ("s1", "full")  # the messages alone, retrieved and whole


def run(recipe: Recipe) -> Path:
    """Everything a recipe describes; returns the folder with rows.jsonl, table.md, results.json and curves.png.

    What is done already is not repeated: phases go on from their checkpoints, evaluation from its rows.
    """
    entry.run("sft", recipe)
    entry.run("grpo", recipe)
    folder = evaluate(recipe)
    rows = latest_rows(folder / "rows.jsonl")
    summary = folder / "summary.md"
    summary.write_text(page(recipe, rows), "utf-8")
    (folder / "summary.json").write_text(json.dumps(results(rows), indent=1) + "\n", "utf-8")
    draw(recipe, folder / "curves.png")
    return folder


def evaluate(recipe: Recipe) -> Path:
    """Rows and tables of all systems on the recipe's evaluation side, in a folder of the GRPO checkpoint that was asked."""
    grpo = recipe.folder / "grpo"
    last = selected(grpo) if recipe.grpo.eval_every else checkpoint.latest(grpo)
    if last is None:
        raise RecipeError(f"{recipe.folder}: no GRPO checkpoint to evaluate; run train_grpo.py with this recipe")
    trained = {"sft": selected(recipe.folder / "sft"), "r1": last}
    specs = [(name, f"checkpoint:{trained[name]}" if name in trained else name) for name in (*MEMORIES, *BASELINES)]
    folder = recipe.folder / "eval" / last.name
    command.run(recipe, command.Choice(tuple(specs), reference="sft"), folder)
    return folder


def results(rows: Sequence[Row]) -> dict[str, Any]:
    """The numbers of the summary by name, with the paired differences of r1 over sft."""
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
    for name in (*MEMORIES, *BASELINES):
        value = measure(rows, name, "accuracy")
        made[f"{name}_acc"] = None if value is None else value.mean
    return made


def page(recipe: Recipe, rows: Sequence[Row]) -> str:
    """The summary in Markdown, with what it is made of."""
    made = results(rows)
    gain = {key: (made[f"{key}_gain"], *made[f"{key}_ci"]) for key in ("reward", "phi", "acc")}
    lines = [
        f"Run `{recipe.run}`, {recipe.eval.side} side: {made['networks']} networks, {made['questions']} questions, "
        f"{recipe.eval.seeds} sampled memories each. Mean [95 % interval, bootstrap over networks].",
        table(rows, (*MEMORIES, *BASELINES)),
        "R1 minus SFT, paired: "
        + "; ".join(f"{key} {mean:+.3f} [{low:+.3f}, {high:+.3f}]" for key, (mean, low, high) in gain.items())
        + ".",
    ]
    if made["offline"]:
        lines.append("Answers and verdicts are of the offline roles: deterministic and lexical.")
    return "\n\n".join(lines) + "\n"


def draw(recipe: Recipe, to: Path) -> None:
    """Curves of both phases as a PNG: SFT loss; reward, Phi, validity and QA gain; KL with its gate; kept positions."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps, rounds = (read_lines(recipe.folder / f"metrics-{phase}.jsonl") for phase in ("sft", "grpo"))
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7))
    axes[0][0].plot([row["epoch"] for row in steps], [row["loss"] for row in steps])
    axes[0][0].set(title="SFT: loss of completion tokens", xlabel="epoch")
    for name, label in (("reward", "reward"), ("reward/phi", "Phi"), ("reward/valid", "validity"), ("qa/gain", "QA gain")):
        axes[0][1].plot([row["step"] for row in rounds], [row[name] for row in rounds], label=label)
    axes[0][1].set(title="GRPO: reward and its parts (training networks)", xlabel="round")
    axes[0][1].legend()
    measured = [row for row in rounds if "epoch/1/kl" in row]
    axes[1][0].plot([row["step"] for row in measured], [row["epoch/1/kl"] for row in measured], label="before the update")
    axes[1][0].axhline(recipe.grpo.kl_gate, linestyle="--", color="grey", label="gate")
    axes[1][0].set(title="GRPO: mean KL to the SFT policy", xlabel="round")
    axes[1][0].legend()
    axes[1][1].plot([row["step"] for row in rounds], [1 - row["adv/frac_positions_dropped"] for row in rounds])
    axes[1][1].set(title="GRPO: share of positions with a signal", xlabel="round", ylim=(0, 1.05))
    figure.tight_layout()
    figure.savefig(to, dpi=110)
    pyplot.close(figure)
