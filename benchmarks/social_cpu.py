"""The ten real networks on a CPU: what SFT and GRPO of recipes/social_cpu.yaml did, and held-out Phi before and after.

accelerate launch train_sft.py recipes/social_cpu.yaml
accelerate launch train_grpo.py recipes/social_cpu.yaml
python benchmarks/social_cpu.py            # docs/results/social_cpu.md and .json
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import write_result
from writer_rl import checkpoint
from writer_rl.cases import load_cases
from writer_rl.entry import seed_everything
from writer_rl.evaluation.evaluate import evaluate
from writer_rl.evaluation.summary import table
from writer_rl.evaluation.writers import checkpoint_writer, empty_writer, teacher_writer
from writer_rl.logbook import read_lines
from writer_rl.recipe import load
from writer_rl.runtime import Runtime
from writer_rl.selection import selected

COMMAND = "python -m benchmarks.social_cpu"


def main() -> None:
    recipe = load("recipes/social_cpu.yaml")
    seed_everything(recipe.seed)
    runtime = Runtime.of(recipe)
    cases = load_cases(recipe.data, "test")
    last = checkpoint.latest(recipe.folder / "grpo")
    assert last is not None, "run train_grpo.py recipes/social_cpu.yaml first"
    rows = []
    for name, folder in (("sft", selected(recipe.folder / "sft")), ("r1", last)):
        rows += evaluate(runtime, checkpoint_writer(runtime, runtime.policy(folder), name), cases, seeds=1)
    prompt = runtime.prompt(runtime.policy(last))
    for writer in (teacher_writer(cases, prompt), empty_writer(prompt)):
        rows += evaluate(runtime, writer, cases, seeds=1)
    rounds = read_lines(recipe.folder / "metrics-grpo.jsonl")
    steps = read_lines(recipe.folder / "metrics-sft.jsonl")
    phi = {name: _phi(rows, name) for name in ("sft", "r1")}
    result = {
        "rounds": len(rounds),
        "reward_mean": [row["reward"] for row in rounds],
        "kept_positions": [row["adv/positions_kept"] for row in rounds],
        "kl": [row.get("kl") for row in rounds],
        "heldout_phi_sft": phi["sft"],
        "heldout_phi_last": phi["r1"],
        "minutes": (sum(row["time/step"] for row in steps) + sum(_seconds(row) for row in rounds)) / 60,
        "sft_loss": [steps[0]["loss"], steps[-1]["loss"]],
        "qa_gain": [row["qa/gain"] for row in rounds],
        "phi": [row["reward/phi"] for row in rounds],
        "strict_json": [row["valid/strict_json"] for row in rounds],
        "clipped_ratio": [row["completions/clipped_ratio"] for row in rounds],
        "steps": [row["update/steps"] for row in rounds],
        "pipeline_id": runtime.pipeline.id,
        "pipeline_id_training": read_lines(recipe.folder / "trace" / "grpo" / "round-0000.jsonl")[0]["pipeline_id"],
    }
    text = "\n\n".join(
        [
            "SmolLM2-135M on eight real SocialMemBench networks, two held out (one sampled memory each). Two networks are far "
            "too few to show a gain: this shows that the whole job runs on real conversations, with every reward part.",
            table(rows, ("sft", "r1", "teacher", "empty")),
            _round_table(rounds),
            "Minutes are wall clock on a machine that did other work beside it; do not take them for the cost.",
            "QA is asked through the offline roles: deterministic and lexical, not comparable with a judged score.",
        ]
    )
    write_result("social_cpu", "SFT and GRPO on the ten real networks, on a CPU", result, text, COMMAND, Path("docs/results"))


def _phi(rows: list[dict], writer: str) -> float:
    values = [row["phi"] for row in rows if row["row"] == "memory" and row["writer"] == writer]
    return sum(values) / len(values)


def _seconds(row: dict) -> float:
    return sum(value for key, value in row.items() if key.startswith("time/"))


def _round_table(rounds: list[dict]) -> str:
    names = ("reward", "reward/phi", "reward/valid", "qa/gain", "adv/positions_kept", "kl", "kl_gate/gated", "update/steps")
    lines = ["| round | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {row['step']} | " + " | ".join(f"{row.get(name, 0):.4g}" for name in names) + " |" for row in rounds]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
