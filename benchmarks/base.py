"""How the embedded base came to be: the curves that its training left beside the weights, drawn.

python -m benchmarks.base     # docs/results/base.{md,json,png}, after python -m writer_rl.base.train writer_rl/base/weights
"""

from __future__ import annotations

import json

import matplotlib

from benchmarks.results import RESULTS, write_result
from writer_rl.runtime import EMBEDDED

COMMAND = (
    "python -m writer_rl.base.train FOLDER && "
    "python -m writer_rl.base.train writer_rl/base/weights --init FOLDER --seed 100 --steps 1600"
)


def main() -> None:
    curve = json.loads((EMBEDDED / "curve.json").read_text("utf-8"))
    draw(curve)
    last = curve[-1]
    judged = [row for row in curve if "exact" in row]
    result = {
        "parameters": sum((EMBEDDED / file).stat().st_size for file in ("model.safetensors",)) // 4,
        "seed": 0,
        "copying_steps": last["copying"],
        "gym_steps": last["gym"],
        "minutes": last["minutes"],
        "held_loss": last["held_loss"],
        "exact": last["exact"],
    }
    lines = [
        "| gym steps | held-out loss of completion tokens | completions with every token the most likely one |",
        "|---|---|---|",
    ]
    lines += [f"| {row['gym']} | {row['held_loss']:.3f} | {100 * row['exact']:.1f} % |" for row in judged]
    text = (
        f"A Qwen2 of {result['parameters'] / 1e6:.1f}M parameters, seed 0, {last['minutes']:.0f} minutes on two shared cores: "
        f"{last['copying']} steps of copying random tokens, then {last['gym']} steps of gym positions from networks that no "
        "later phase sees; the learning rate starts anew where the curve breaks, and so does the held-out set.\n\n"
        + "\n".join(lines)
        + "\n\n![Loss of the training batches and of held-out positions](base.png)"
    )
    write_result("base", "The embedded base", result, text, COMMAND)


def draw(curve: list[dict[str, float]]) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 4))
    steps = [row["copying"] + row["gym"] for row in curve]
    axis.plot(steps, [row["loss"] for row in curve], color="tab:grey", label="training batches")
    judged = [row for row in curve if "exact" in row]
    axis.plot(
        [row["copying"] + row["gym"] for row in judged], [row["held_loss"] for row in judged], "o-", label="held-out positions"
    )
    axis.axvline(curve[-1]["copying"], linestyle="--", color="grey")
    axis.set(yscale="log", xlabel="step (copying, then the gym)", ylabel="loss a completion token")
    axis.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "base.png", dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
