"""Trace rows -> the states that the Writer built, by the same parser and executor, with the provenance that was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data.memory.executor import Report, execute
from data.memory.state import State
from data.network import Member, Message, Roster, Session
from data.segments import Segment, verbatim_record
from rollout.writer.parser import parse
from writer_rl.cases import Case

Row = dict[str, Any]
Group = tuple[str, int]
"""(network, visit): the trajectories of a round that were written against each other."""


@dataclass(frozen=True)
class Replayed:
    """One trajectory of a round. `rows` are its trace rows [T], `states` the memory after each position [T]; None where the
    trace does not say what was read. `agrees`: replay gave the fates and ids that the trace holds."""

    rows: tuple[Row, ...]
    segments: tuple[Segment, ...] | None
    states: tuple[State, ...] | None
    agrees: bool

    @property
    def network(self) -> str:
        return str(self.rows[0]["network"])

    @property
    def visit(self) -> int:
        return int(self.rows[0]["visit"])

    @property
    def g(self) -> int:
        return int(self.rows[0]["g"])

    def prompt(self, t: int, first: Replayed) -> str | None:
        """The whole prompt at position t; `first` is the group's first trajectory, which holds what all share."""
        row = self.rows[t]
        if "prompt" not in row:
            return None
        return str(first.rows[t]["prompt"])[: row["prompt_shared"]] + str(row["prompt"])


def replay_round(rows: Sequence[Row], cases: Mapping[str, Case]) -> list[Replayed]:
    """The trajectories of one round's trace, in its order."""
    found: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["network"], row["visit"], row["g"]), []).append(row)
    shared: dict[Group, tuple[Segment, ...] | None] = {}
    made = []
    for (network, visit, _), own in found.items():
        if (network, visit) not in shared:
            shared[network, visit] = _segments(own, cases.get(network))
        made.append(_replay(own, shared[network, visit]))
    return made


def _segments(rows: Sequence[Row], case: Case | None) -> tuple[Segment, ...] | None:
    """What the group read: from its first trajectory's rows; for a trace without them, from the network."""
    if all("segment" in row for row in rows):
        return tuple(_segment(row) for row in rows)
    return case.segments[: len(rows)] if case is not None and len(rows) <= len(case.segments) else None


def _segment(row: Row) -> Segment:
    raw = row["segment"]
    roster = Roster(tuple(Member(*member) for member in raw["roster"]))
    messages = tuple(Message(name, speaker, text, time) for name, speaker, time, text in raw["messages"])
    session = Session(row["session"], messages)
    numbered = enumerate(messages, raw["first"])
    verbatim = tuple(verbatim_record(message, session, number - raw["first"], number, roster) for number, message in numbered)
    return Segment(row["network"], row["t"], row["session"], roster, messages, verbatim)


def _replay(rows: Sequence[Row], segments: tuple[Segment, ...] | None) -> Replayed:
    if segments is None:
        return Replayed(tuple(rows), None, None, True)
    state, states, agrees = State(), [], True
    for row, segment in zip(rows, segments, strict=True):
        state = state.clone()
        given = [tuple(action["from_ids"]) for action in row["actions"] if "from_ids" in action]
        report = execute(state, parse(row["text"]).attempts, segment, _recorded(given))
        agrees = agrees and _same(report, row)
        states.append(state)
    return Replayed(tuple(rows), segments, tuple(states), agrees)


def _recorded(given: Sequence[tuple[str, ...]]) -> Any:
    """Provenance as the trace has it; filled up where replay writes more than was written then."""
    return lambda contents, segment: [*given, *[()] * len(contents)][: len(contents)]


def _same(report: Report, row: Row) -> bool:
    now = [(outcome.fate.value, outcome.entry_id) for outcome in report.outcomes]
    return now == [(action["fate"], action.get("entry_id")) for action in row["actions"]]
