"""Which part of the reward does the work? GRPO from one SFT checkpoint with a part left out, all asked through one harness.

    python -m benchmarks.reward_ablations                                   # recipes/learning.yaml, resumable
    python -m benchmarks.reward_ablations --recipe RECIPE grpo.rounds=10    # any recipe, any override
    python -m benchmarks.reward_ablations grpo.init_from=CHECKPOINT         # from an SFT checkpoint that is there

The arms are those of `writer_rl/evaluation/reward_ablations.py`; the weights that stay keep their values.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.results import RESULTS, write_result
from benchmarks.training import grpo
from writer_rl import entry
from writer_rl.evaluation import command
from writer_rl.evaluation.accuracy import accuracy, compare
from writer_rl.evaluation.reward_ablations import OVERRIDES, ablation_table, overrides
from writer_rl.evaluation.rows import Row, latest_rows
from writer_rl.recipe import Recipe, load
from writer_rl.selection import selected

WRITER = "r1"


def trained(path: str, settings: list[str]) -> dict[str, tuple[Recipe, str]]:
    """Train every arm, all from the given SFT checkpoint, or the first one's; ablation -> its recipe and checkpoint."""
    base = load(path, settings)
    start = base.grpo.init_from
    if start is None:
        first = load(path, [*settings, *overrides("full", base.run)])
        entry.run("sft", first)
        start = str(selected(first.folder / "sft"))
    found = {}
    for name in OVERRIDES:
        recipe = load(path, [*settings, *overrides(name, base.run), f"grpo.init_from={start}"])
        found[name] = (recipe, grpo(recipe))
    return found


def asked(arms: dict[str, tuple[Recipe, str]]) -> dict[str, list[Row]]:
    """ablation -> rows of its Writer on the evaluation side; what was asked before is not asked again."""
    rows = {}
    for name, (recipe, trained_to) in arms.items():
        folder = recipe.folder / "eval" / Path(trained_to).name
        command.run(recipe, command.Choice(((WRITER, f"checkpoint:{trained_to}"),), ask="off"), folder)
        rows[name] = latest_rows(folder / "rows.jsonl")
    return rows


def result_of(rows: dict[str, list[Row]]) -> dict[str, Any]:
    """Accuracy of each arm and what it lacks against the whole reward, in points."""
    made: dict[str, Any] = {"networks": len({row["network"] for row in rows["full"]}), "acc": {}, "minus_full": {}}
    for name, ones in rows.items():
        made["acc"][name] = accuracy(ones, WRITER).mean
        if name != "full":
            pair = [{**row, "writer": label} for label in ("full", name) for row in rows[label] if row["writer"] == WRITER]
            one = compare(pair, "full", name)
            assert one is not None  # both were asked the same questions
            gap = one.difference
            made["minus_full"][name] = [100 * gap.mean, 100 * gap.low, 100 * gap.high]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="recipes/learning.yaml")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("settings", nargs="*", help="overrides such as grpo.rounds=10")
    arguments = parser.parse_args()
    rows = asked(trained(arguments.recipe, ["run=ablations", *arguments.settings]))
    given = " ".join(arguments.settings)
    write_result(
        "reward_ablations",
        "GRPO with a part of the reward left out, on unseen networks",
        result_of(rows),
        ablation_table(rows, WRITER) + "\n\nOne seed an arm, the same SFT checkpoint; accuracy under offline roles (lexical).",
        f"python -m benchmarks.reward_ablations --recipe {arguments.recipe} {given}".strip(),
        arguments.out,
    )


if __name__ == "__main__":
    main()
