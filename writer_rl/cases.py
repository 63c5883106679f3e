"""Cases: networks made ready for a Writer, with their segments, teacher actions and reference states."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from data import gym
from data.catalog import load_networks
from data.memory.actions import Action
from data.memory.state import State
from data.network import DataError, Network
from data.segments import Segment, segments
from data.splits import check_leaks, load_split
from data.teacher import Teacher, replay, resolve
from writer_rl.recipe import DataSection

Side = Literal["train", "dev", "test"]


@dataclass(frozen=True)
class Case:
    """A network and what training and evaluation need of it. `teacher` and `references` (M*_t, the states after each
    position) have shape [T]; both are None for a network without a teacher trajectory."""

    network: Network
    segments: tuple[Segment, ...]
    teacher: tuple[tuple[Action, ...], ...] | None
    references: tuple[State, ...] | None


def make_case(network: Network, teacher: Teacher | None, window: int | None) -> Case:
    parts = segments(network, window)
    if teacher is None:
        return Case(network, parts, None, None)
    actions = tuple(tuple(position) for position in resolve(teacher, parts))
    return Case(network, parts, actions, tuple(replay(teacher, parts)))


def load_cases(section: DataSection, side: Side) -> list[Case]:
    """The networks of one side of the recipe's split. Training networks must have a teacher trajectory.

    Raises DataError where the split names a network that the sources lack, or where both sides hold the same one.
    """
    if section.gym is not None:
        try:
            config = gym.GymConfig(**section.gym.config)
        except TypeError as error:
            fields = ", ".join(one.name for one in dataclasses.fields(gym.GymConfig))
            raise DataError(f"data.gym.config: {error}; its keys are {fields}, numbers or (least, most) pairs") from error
        count = getattr(section.gym, side)
        pairs = list(gym.networks(config, side, section.gym.seed, count))
        return [make_case(network, teacher, section.window) for network, teacher in pairs]
    assert section.split is not None  # the recipe's own check
    split = load_split(section.split)
    found: dict[str, tuple[Network, Teacher | None]] = {}
    for source in section.sources:
        for network, teacher in load_networks(source, section.socialmem):
            if network.id in found:
                raise DataError(f"data.sources: network {network.id} is in two of them; name each network once")
            found[network.id] = (network, teacher)
    sides = {name: _pick(found, getattr(split, name), section, name) for name in ("train", "dev", "test")}
    check_leaks([network for network, _ in sides["train"]], [network for network, _ in (*sides["dev"], *sides["test"])])
    if side == "train":
        bare = [network.id for network, teacher in sides["train"] if teacher is None]
        if bare:
            raise DataError(
                f"split {section.split}: no teacher trajectory for training network {bare[0]}; write one with writer-rl teach"
            )
    return [make_case(network, teacher, section.window) for network, teacher in sides[side]]


def _pick(
    found: dict[str, tuple[Network, Teacher | None]], ids: Sequence[str], section: DataSection, side: str
) -> list[tuple[Network, Teacher | None]]:
    missing = [one for one in ids if one not in found]
    if missing:
        raise DataError(
            f"split {section.split}, side {side}: network {missing[0]} ({len(missing)} in all) is in none of the sources "
            f"{', '.join(section.sources)}; add its folder to data.sources, or name data.socialmem"
        )
    return [found[one] for one in ids]
