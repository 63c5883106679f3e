"""How far the gym tells a good memory from none: teacher, empty, messages alone and the whole chat on its dev networks.

python -m benchmarks.gym_reference        # docs/results/gym_reference.md and .json
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.results import write_result
from writer_rl.base.tokenizer import build
from writer_rl.base.train import make_model
from writer_rl.evaluation.command import Choice, run
from writer_rl.recipe import load

SYSTEMS = (("teacher", "teacher"), ("empty", "empty"), ("s1", "s1"), ("full", "full"), ("bm25", "bm25"), ("abstain", "abstain"))
SEED = 101  # of the networks: looked at by nobody while the gym and the offline roles were made
COUNT = 64


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tokenizer = build([])  # no Writer samples here: the model only lends its tokenizer
        make_model(len(tokenizer), 1, 128, 0, int(tokenizer.eos_token_id)).save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        recipe = load(
            "recipes/quickstart.yaml",
            [
                f"model.path={folder / 'model'}",
                f"checkpoints={folder}",
                f"data.gym.seed={SEED}",
                f"data.gym.dev={COUNT}",
                "eval.side=dev",
                "eval.max_new_tokens=2048",
                "writer.max_prompt_tokens=8192",
            ],
        )
        text = run(recipe, Choice(SYSTEMS, ask="off", reference="teacher"), folder / "eval")
        found = json.loads((folder / "eval" / "results.json").read_text("utf-8"))
    said = (
        f"{COUNT} dev networks of seed {SEED}. The gym's questions were worded so that the frozen pipeline can answer them "
        "from the teacher's memory (on other seeds), so the teacher's score is by construction; what is shown is the room "
        "between a memory and none."
    )
    command = f"python -m benchmarks.{Path(sys.argv[0]).stem}"
    write_result("gym_reference", "The gym: teacher, empty and baselines", found, f"{said}\n\n{text}", command)


if __name__ == "__main__":
    main()
