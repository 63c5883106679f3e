"""What the two entry scripts do: read a recipe, train, and turn errors meant for people into one paragraph."""

from __future__ import annotations

import os
import random
import sys
from typing import Literal

import numpy as np
import torch
from transformers.utils.logging import disable_progress_bar

from data.network import DataError
from writer_rl import grpo, sft
from writer_rl.recipe import Recipe, load

Phase = Literal["sft", "grpo"]


def main(phase: Phase, default: str) -> None:
    """Train with the recipe named on the command line. Exit code 2 for a DataError or OSError, after its one paragraph."""
    arguments = sys.argv[1:]
    name = default if not arguments or "=" in arguments[0] else arguments.pop(0)
    try:
        done = run(phase, load(name, arguments))
    except (DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if is_first():
        print(f"{phase}: {done}")


def is_first() -> bool:
    """Whether this process is rank 0, before anything has been set up."""
    return os.environ.get("RANK", "0") == "0"


def run(phase: Phase, recipe: Recipe) -> str:
    """One training phase."""
    seed_everything(recipe.seed)
    disable_progress_bar()  # a bar for every saved file would bury the run's own
    return str({"sft": sft.train, "grpo": grpo.train}[phase](recipe))


def seed_everything(seed: int) -> None:
    """Python, numpy and torch; what is sampled has seeds of its own, from the request."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
