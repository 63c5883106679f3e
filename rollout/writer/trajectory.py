"""What one pass of a Writer over a network leaves behind: a write per position, and the trajectory of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from data.memory.executor import Report
from data.memory.state import State
from data.segments import Segment
from rollout.engines.base import Completion, RequestKey


class ParseStatus(StrEnum):
    """How a Writer's text became actions. Only STRICT counts in training and evaluation; serving may salvage."""

    STRICT = "strict"  # the whole text is the JSON object
    FENCED = "fenced"  # the object stood in a code fence
    SCANNED = "scanned"  # the object stood in prose: found by a balanced scan
    FAILED = "failed"  # no object with a list `actions`


@dataclass(frozen=True, slots=True)
class Parsed:
    """`attempts` are the decoded members of `actions`, valid or not; empty where the text holds none (or, when parsing
    strictly, where it is not strict JSON). `error` says why the status is not STRICT."""

    status: ParseStatus
    attempts: tuple[object, ...]
    error: str = ""


@dataclass(frozen=True)
class Write:
    """Position t: what was read, what came out, what became of it. `state` is the state after this write; the state
    before it is the previous write's (or empty)."""

    segment: Segment
    prompt_ids: tuple[int, ...]
    completion: Completion
    text: str
    parsed: Parsed
    report: Report
    pre_state: State
    state: State


@dataclass(frozen=True)
class Trajectory:
    """One pass over all positions of a network: `writes` has shape [T]."""

    network: str
    round: int
    visit: int
    g: int
    writes: tuple[Write, ...]
    pipeline_id: str

    def key(self, t: int) -> RequestKey:
        """Who asked at position t."""
        return RequestKey(self.round, self.network, self.visit, self.g, t)

    @property
    def final_state(self) -> State:
        return self.writes[-1].state
