"""Which networks a checkpoint was trained on: those never stand in its evaluation unless they are asked for by name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from data import gym
from data.network import DataError
from data.splits import load_split
from writer_rl import checkpoint
from writer_rl.cases import Case
from writer_rl.recipe import DataSection


def trained_networks(folder: Path) -> frozenset[str]:
    """Ids of the networks that a checkpoint, and those that it was begun from, were trained on. None for a folder that no
    training of this project wrote: a model as it is published."""
    if not (folder / checkpoint.TRAINER / "state.json").is_file():
        return frozenset()
    recipe: dict[str, Any] = checkpoint.load_state(folder).get("recipe", {})
    found = _training_side(DataSection.model_validate(recipe["data"])) if "data" in recipe else frozenset()
    for phase in ("sft", "grpo"):
        begun_from = recipe.get(phase, {}).get("init_from")
        if begun_from and Path(begun_from) != folder:
            found |= trained_networks(Path(begun_from))
    return found


def _training_side(section: DataSection) -> frozenset[str]:
    if section.gym is not None:
        made = gym.networks(gym.GymConfig(**section.gym.config), "train", section.gym.seed, section.gym.train)
        return frozenset(network.id for network, _ in made)
    assert section.split is not None  # the recipe's own check
    return frozenset(load_split(section.split).train)


def check_heldout(writer: str, trained_on: Collection[str], cases: Collection[Case], named: Collection[str]) -> None:
    """Raise DataError where a Writer would be asked about a network that it was trained on and that nobody named."""
    known = [case.network.id for case in cases if case.network.id in trained_on and case.network.id not in named]
    if known:
        raise DataError(
            f"writer {writer}: was trained on {len(known)} of these networks ({', '.join(known[:3])}, ...); "
            "its scores there say nothing about new chats. Evaluate on other networks, or name them with --networks: the "
            "rows are then labelled"
        )
