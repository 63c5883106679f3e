"""The main job on the embedded base, timed: SFT, GRPO, evaluation of SFT, R1, teacher and empty on unseen networks.

python -m benchmarks.quickstart     # docs/results/quickstart.{md,json,png}; begins anew, unlike `make quickstart`
"""

from __future__ import annotations

import shutil
import time

from benchmarks.results import RESULTS, write_result
from data.network import DataError
from writer_rl import whole
from writer_rl.evaluation.rows import latest_rows
from writer_rl.recipe import load


def main() -> None:
    recipe = load("quickstart")
    if recipe.folder.exists():
        raise DataError(f"{recipe.folder}: holds a run already, and what is done would not be timed; move it away")
    begun = time.monotonic()
    folder = whole.run(recipe)
    minutes = (time.monotonic() - begun) / 60
    rows = latest_rows(folder / "rows.jsonl")
    shutil.copy(folder / "curves.png", RESULTS / "quickstart.png")
    text = (
        f"{whole.page(recipe, rows)}\nWall clock: {minutes:.1f} minutes, set-up not counted.\n\n"
        "![SFT loss, reward and its parts, KL, share of positions with a signal](quickstart.png)"
    )
    result = {"minutes": round(minutes, 1), **whole.results(rows)}
    write_result(
        "quickstart", "Quickstart: SFT, then GRPO, on synthetic networks", result, text, "python -m benchmarks.quickstart"
    )


if __name__ == "__main__":
    main()
