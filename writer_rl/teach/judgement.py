"""Judging a teacher's answer about a segment: parsed, executed strictly, its evidence turned into message ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from data.memory.actions import JsonObject
from data.memory.executor import Outcome, Support, execute
from data.memory.records import Record
from data.memory.state import State
from data.segments import Segment
from data.teacher import NOOP, Step
from rollout.writer.parser import parse
from rollout.writer.trajectory import ParseStatus
from writer_rl.teach.attempts import Judged
from writer_rl.teach.contract import EVIDENCE


@dataclass(frozen=True)
class Written:
    """An accepted answer: its steps (refs are the ids of the records), the memory after it, and how it came."""

    steps: tuple[Step, ...]
    state: State
    by_embedder: int  # steps whose evidence was found by similarity, because the teacher named no message that exists
    strict: bool  # whether the answer was the JSON object and nothing else


def judge(segment: Segment, state: State, support: Support) -> Callable[[str], Judged[Written]]:
    """Reads answers about a segment, `state` being the memory before it, which stays as it is.

    An object in a code fence or in prose is taken too; everything else is as strict as the executor. Messages that
    do not exist are no evidence, and where none is left `support` says which messages the record rests on.
    """

    def judged(reply: str) -> Judged[Written]:
        parsed = parse(reply, salvage=True)
        if parsed.status is ParseStatus.FAILED:
            return Judged(None, (f"it is not one JSON object with a list under actions: {parsed.error}",))
        bare = [_without_evidence(attempt) for attempt in parsed.attempts]
        trial = state.clone()
        report = execute(trial, bare, segment, lambda contents, _: [()] * len(contents))
        faults = tuple(_fault(outcome) for outcome in report.outcomes if not outcome.valid)
        if report.over_budget:
            faults += (f"{len(bare)} actions where at most {segment.budget} are allowed; keep the most important ones",)
        if faults:
            return Judged(None, faults)
        fresh = [record for record in trial if record.entry_id not in state]  # in the order of the actions
        named = [_named(attempt, segment) for attempt in parsed.attempts][: len(fresh)]  # a NOOP stands alone
        bereft = [record.content for record, ids in zip(fresh, named, strict=True) if not ids]
        found = iter(support(bereft, segment) if bereft else ())
        cited = [ids or tuple(next(found)) for ids in named]
        after = state.clone()
        execute(after, bare, segment, lambda contents, _: cited)
        message_of = {record.entry_id: message.id for record, message in zip(segment.verbatim, segment.messages, strict=True)}
        steps = tuple(_step(record, tuple(message_of[one] for one in ids)) for record, ids in zip(fresh, cited, strict=True))
        return Judged(Written(steps or (NOOP,), after, len(bereft), parsed.status is ParseStatus.STRICT))

    return judged


def _without_evidence(attempt: object) -> object:
    """The action as a Writer writes it, for the executor."""
    if not isinstance(attempt, dict):
        return attempt
    bare = JsonObject((key, value) for key, value in attempt.items() if key != EVIDENCE)
    bare.repeated = getattr(attempt, "repeated", ())
    return bare


def _named(attempt: object, segment: Segment) -> tuple[str, ...]:
    """Verbatim ids of the messages that an action names by number, in message order; empty where it names none."""
    listed = attempt.get(EVIDENCE) if isinstance(attempt, dict) else None
    listed = listed if isinstance(listed, list) else [listed]
    numbers = {number for number in map(_number, listed) if 1 <= number <= len(segment.messages)}
    return tuple(segment.verbatim[number - 1].entry_id for number in sorted(numbers))


def _number(value: object) -> int:
    """3 of 3, "3" and "[3]"; 0, which is no message, of anything else."""
    if isinstance(value, str):
        digits = value.strip().strip("[]")
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else 0
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _fault(outcome: Outcome) -> str:
    assert outcome.rejection is not None
    return f"action {outcome.index + 1}: {outcome.rejection.reason.value}: {outcome.rejection.detail}"


def _step(record: Record, evidence: Sequence[str]) -> Step:
    """The step that writes a record again; its ref is the record's id, which a replay gives it too."""
    if record.links:
        return Step("UPDATE", record.content, ref=record.entry_id, target=record.links[0], evidence=tuple(evidence))
    layer, utype = record.layer.value, record.utype.value
    return Step("ADD", record.content, record.owner, record.source, layer, utype, record.entry_id, evidence=tuple(evidence))
