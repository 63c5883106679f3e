"""Teacher trajectories: symbolic actions per segment, and their replay to reference states (M*_t)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Step:
    """One symbolic teacher action. `ref` names the record that it writes; `target` is the ref that an UPDATE
    supersedes (coordinates are inherited, so an UPDATE leaves owner, source, layer and utype empty); `evidence` holds
    the ids of the supporting messages."""

    action: Literal["ADD", "UPDATE", "NOOP"]
    content: str = ""
    owner: str = ""
    source: str = ""
    layer: str = ""
    utype: str = ""
    ref: str = ""
    target: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Teacher:
    """The teacher's steps for one network: `segments` has shape [T], each a tuple of steps."""

    network: str
    segments: tuple[tuple[Step, ...], ...]
    source: str = ""  # file it came from, for error messages
