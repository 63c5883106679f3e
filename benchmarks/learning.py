"""Does GRPO make the Writer better on networks it has never seen? Four arms a seed, then one look at the test side.

    python -m benchmarks.learning learning --seed 0   # resumable; once a seed (0, 1, 2)
    python -m benchmarks.learning learning --merge    # docs/results/learning.md, .json and .png from all seeds

The first word names the recipe and the result: `learning` (the embedded base) or `learning_smollm2` (the second model).
Arms: sft (its best dev epoch), r1 (GRPO from it), sft_more (SFT continued with r1's compute, its best dev epoch),
valid_only (GRPO with the validity reward alone). All are asked through the same frozen pipeline.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import RESULTS, write_result
from benchmarks.training import grpo
from writer_rl import entry, whole
from writer_rl.evaluation import command
from writer_rl.evaluation.rows import latest_rows
from writer_rl.evaluation.summary import LABELS, MEASURES, Row, difference, measure, table
from writer_rl.logbook import read_lines
from writer_rl.recipe import Recipe, load
from writer_rl.selection import selected

ARMS = ("sft", "r1", "sft_more", "valid_only")
FIXED = ("teacher", "empty")
PAIRS = (("sft", "r1"), ("sft_more", "r1"), ("valid_only", "r1"), ("sft", "sft_more"), ("sft", "valid_only"))
BASELINES = ("s1", "full")  # the messages alone: retrieved, and whole
MODELS = {"learning": "the embedded base", "learning_smollm2": "SmolLM2-135M"}


def recipe_of(name: str, seed: int, arm: str, *overrides: str) -> Recipe:
    return load(f"recipes/{name}.yaml", [f"seed={seed}", f"run={name}-{seed}-{arm}", *overrides])


def train(name: str, seed: int) -> dict[str, Path]:
    """Train every arm of a seed; what is done already is kept. Returns the checkpoint of each."""
    main = recipe_of(name, seed, "main")
    entry.run("sft", main)
    start = selected(main.folder / "sft")
    r1 = grpo(main)
    valid = recipe_of(name, seed, "valid_only", f"grpo.init_from={start}", "grpo.reward.w_mem=0", "grpo.reward.w_qa=0")
    valid_only = grpo(valid)  # few positions keep a signal, and they soon spend the KL that the gate allows
    more = recipe_of(
        name, seed, "sft_more", f"sft.init_from={start}", f"sft.epochs={more_epochs(main)}", "sft.schedule=constant"
    )
    entry.run("sft", more)
    trained = {"sft_more": selected(more.folder / "sft"), "r1": Path(r1), "valid_only": Path(valid_only)}
    return {"sft": start, **trained}


def more_epochs(recipe: Recipe) -> int:
    """SFT epochs that cost what r1's rounds did, in forward passes a token: rollout 1 and, for kept samples, 1 of the
    reference and 3 (forward and backward) an epoch; SFT 3."""
    rounds = read_lines(recipe.folder / "metrics-grpo.jsonl")
    spent = 0.0
    for row in rounds:
        samples = row["update/kept_samples"] + row["update/dropped_samples"]
        kept = row["num_tokens"] * row["update/kept_samples"] / samples
        epochs = sum(f"epoch/{number}/kl" in row for number in range(1, recipe.grpo.epochs + 1))
        spent += row["num_tokens"] + kept * (1 + 3 * epochs)
    steps = read_lines(recipe.folder / "metrics-sft.jsonl")
    an_epoch = 3 * sum(row["num_tokens"] for row in steps) / recipe.sft.epochs
    return max(1, math.ceil(spent / an_epoch))


def look(name: str, seed: int, folders: dict[str, Path]) -> None:
    """Ask every arm on the test side; what needs no training with the first seed. What was asked before is not asked again."""
    recipe = recipe_of(name, seed, "main")
    systems = [(arm, f"checkpoint:{folders[arm]}") for arm in ARMS]
    systems += [(one, one) for one in (*FIXED, *BASELINES) if seed == 0]
    command.run(recipe, command.Choice(tuple(systems), ask="off"), recipe.folder / "eval")


def merge(name: str, seeds: list[int]) -> None:
    """All seeds in one result. Networks are resampled; seeds of an arm are pooled within a network."""
    by_seed = {seed: latest_rows(recipe_of(name, seed, "main").folder / "eval" / "rows.jsonl") for seed in seeds}
    rows = [row for of_seed in by_seed.values() for row in of_seed]

    def accuracy(seed: int, arm: str) -> float | None:
        value = measure(by_seed[seed], arm, "accuracy")
        return None if value is None else value.mean

    over_sft, over_more = (difference(rows, first, "r1", "accuracy") for first in ("sft", "sft_more"))
    memories = len({row["seed"] for row in rows if row["writer"] == "r1"})
    teacher, r1 = accuracy(seeds[0], "teacher"), measure(rows, "r1", "accuracy")
    assert teacher is not None and r1 is not None
    result: dict[str, Any] = {
        "seeds": seeds,
        "networks": len({row["network"] for row in rows}),
        "questions": len({(row["network"], row["question"]) for row in rows if row["row"] == "question"}),
        **{f"{arm}_acc": [accuracy(seed, arm) for seed in seeds] for arm in ARMS},
        **{f"{arm}_acc": accuracy(seeds[0], arm) for arm in FIXED},
        "s1_only_acc": accuracy(seeds[0], "s1"),
        "full_context_acc": accuracy(seeds[0], "full"),
        "gain_points": 100 * over_sft.mean,
        "gain_ci": [100 * over_sft.low, 100 * over_sft.high],
        "gain_over_sft_more_ci": [100 * over_more.low, 100 * over_more.high],
        "r1_over_teacher": r1.mean / teacher,
        "pipeline_id": sorted({row["pipeline_id"] for row in rows}),
    }
    text = "\n\n".join(
        [
            f"{result['networks']} unseen networks, {result['questions']} questions, training seeds "
            f"{', '.join(map(str, seeds))}, sampled memories of a network and seed: {memories}. Mean [95 % interval]: networks "
            "are resampled, seeds pooled within a network. Offline roles: deterministic and lexical. What was tried, and "
            "why the gain is what it is: [learning](../learning.md).",
            table(rows, (*ARMS, *FIXED, *BASELINES)),
            pairs(rows),
            per_seed(by_seed),
            f"![SFT loss, reward and its parts, KL, share of positions with a signal; seed {seeds[0]}]({name}.png)",
        ]
    )
    whole.draw(recipe_of(name, seeds[0], "main"), RESULTS / f"{name}.png")
    title = f"GRPO against SFT, SFT continued and validity alone, on unseen gym networks: {MODELS[name]}"
    write_result(name, title, result, text, f"python -m benchmarks.learning {name} --seed {seeds[0]}, ..., then --merge")


def pairs(rows: Sequence[Row]) -> str:
    """Paired differences of the arms in every measure, as a Markdown table."""
    lines = ["| paired | " + " | ".join(LABELS[name] for name in MEASURES) + " |", "|---" * (len(MEASURES) + 1) + "|"]
    for first, second in PAIRS:
        found = (difference(rows, first, second, name) for name in MEASURES)
        cells = (f"{one.mean:+.3f} [{one.low:+.3f}, {one.high:+.3f}]" for one in found)
        lines.append(f"| {second} - {first} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def per_seed(by_seed: Mapping[int, Sequence[Row]]) -> str:
    """QA accuracy of every arm in each seed, as a Markdown table."""
    lines = ["| QA accuracy | " + " | ".join(ARMS) + " |", "|---" * (len(ARMS) + 1) + "|"]
    for seed, rows in by_seed.items():
        found = (measure(rows, arm, "accuracy") for arm in ARMS)
        lines.append(f"| seed {seed} | " + " | ".join(f"{one.mean:.3f}" if one else "" for one in found) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(MODELS))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--merge", action="store_true")
    arguments = parser.parse_args()
    name, seed = arguments.name, arguments.seed
    if arguments.merge:
        done = Path("checkpoints").glob(f"{name}-[0-9]*-main/eval/rows.jsonl")
        merge(name, sorted(int(path.parts[-3].split("-")[1]) for path in done))
    elif seed is None:
        parser.error("give --seed N, or --merge")
    else:
        look(name, seed, train(name, seed))


if __name__ == "__main__":
    main()
