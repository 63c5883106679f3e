"""GRPO as the benchmarks run it."""

from __future__ import annotations

from writer_rl import checkpoint, entry
from writer_rl.recipe import Recipe
from writer_rl.watch import TrainingStopped


def grpo(recipe: Recipe) -> str:
    """Run GRPO to its end; its chosen checkpoint. Where the KL gate ends the run, the last checkpoint that was saved."""
    try:
        return entry.run("grpo", recipe)
    except TrainingStopped as stopped:
        last = checkpoint.latest(recipe.folder / "grpo")
        if last is None:
            raise
        print(f"{recipe.run}: {stopped}")
        return str(last)
