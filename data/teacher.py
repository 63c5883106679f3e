"""Teacher trajectories: symbolic actions per segment, and their replay to reference states (M*_t)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from data.jsonfile import read_json, take, texts
from data.memory.actions import ADD_KEYS, Action
from data.memory.executor import Support, execute
from data.memory.state import State
from data.network import DataError
from data.segments import Segment


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
    """The teacher's steps for one network: `segments` has shape [T], each a tuple of steps. `sessions` names the
    session of each segment, shape [T], or is empty where the file names none."""

    network: str
    segments: tuple[tuple[Step, ...], ...]
    source: str = ""  # file it came from, for error messages
    sessions: tuple[str, ...] = ()


NOOP = Step("NOOP")
FIELDS = {  # of a step in a file, in the order in which they are written
    "ADD": ("action", "ref", "owner", "source", "layer", "utype", "content", "evidence"),
    "UPDATE": ("action", "target", "ref", "content", "evidence"),
    "NOOP": ("action",),
}


def load_teacher(path: Path) -> Teacher:
    """A teacher file: {"network_id", "segments": [{"session_id"?, "actions": [step]}]}.

    Errors (DataError with file, segment, ref and field): missing, mistyped or unknown field, unknown action, a ref
    used twice, a target that no earlier step wrote, a NOOP beside other steps. What the memory would reject, `replay`
    reports.
    """
    raw = read_json(path)
    listed = take(raw, "segments", list, str(path))
    steps, sessions = [], []
    refs: set[str] = set()
    for number, segment in enumerate(listed, 1):
        where = f"{path}, segment {number}"
        sessions.append(take(segment, "session_id", str, where) if "session_id" in segment else "")
        actions = take(segment, "actions", list, where)
        steps.append(tuple(_step(one, f"{where}, step {n}", refs) for n, one in enumerate(actions, 1)))
        if len(actions) > 1 and any(step.action == "NOOP" for step in steps[-1]):
            raise DataError(f"{where}: NOOP beside other steps; NOOP stands alone")
    named = tuple(sessions) if any(sessions) else ()
    return Teacher(take(raw, "network_id", str, str(path)), tuple(steps), str(path), named)


def _step(raw: object, where: str, refs: set[str]) -> Step:
    action = take(raw, "action", str, where)
    if action not in FIELDS:
        raise DataError(f"{where}: field 'action' is {action!r}; use ADD, UPDATE or NOOP")
    assert isinstance(raw, dict)  # `take` has looked
    here = f"{where} (ref {raw['ref']!r})" if "ref" in raw else where
    unknown = sorted(set(raw) - set(FIELDS[action]))
    if unknown:
        raise DataError(f"{here}: field {unknown[0]!r} does not belong to {action}; use {', '.join(FIELDS[action])}")
    values: dict[str, Any] = {key: take(raw, key, str, here) for key in FIELDS[action] if key != "evidence"}
    if action == "NOOP":
        return Step(**values)
    values["evidence"] = texts(raw, "evidence", here)
    if not values["evidence"]:
        raise DataError(f"{here}: field 'evidence' is empty; name the supporting messages")
    if action == "UPDATE" and values["target"] not in refs:
        raise DataError(f"{here}: field 'target' is {values['target']!r}, which no earlier step wrote")
    if values["ref"] in refs:
        raise DataError(f"{here}: field 'ref' names a record that exists already; refs must be unique")
    refs.add(values["ref"])
    return Step(**values)


def save_teacher(teacher: Teacher, path: Path) -> None:
    """Write the file that `load_teacher` reads back equal; characters stay as they are."""
    segments = []
    for t, steps in enumerate(teacher.segments):
        actions = [{key: getattr(step, key) for key in FIELDS[step.action]} for step in steps]
        session = {"session_id": teacher.sessions[t]} if teacher.sessions and teacher.sessions[t] else {}
        segments.append(session | {"actions": actions})
    text = json.dumps({"network_id": teacher.network, "segments": segments}, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def resolve(teacher: Teacher, segments: Sequence[Segment]) -> list[list[Action]]:
    """The actions that a Writer would have to write, refs turned into record ids. Shape [T], each at least [1]:
    a segment without steps is [Noop()]. Names are the roster's. Errors: as `replay`."""
    return [actions for actions, _ in _run(teacher, segments)]


def replay(teacher: Teacher, segments: Sequence[Segment]) -> list[State]:
    """Reference states M*_t, the memory after position t (section 3.4 of the paper). Shape [T].

    Every record's from_ids are the step's own evidence inside its segment. Errors (DataError with file, segment, ref
    and reason): a step that the executor calls invalid, evidence that is unknown, later, or all of it outside the
    segment, more steps than the budget, and a teacher cut otherwise than the segments.
    """
    return [state for _, state in _run(teacher, segments)]


def _run(teacher: Teacher, segments: Sequence[Segment]) -> list[tuple[list[Action], State]]:
    _check_fit(teacher, segments)
    state, ids, result = State(), dict[str, str](), list[tuple[list[Action], State]]()
    seen: set[str] = set()  # message ids up to here
    for segment, steps in zip(segments, teacher.segments, strict=True):
        where = f"{teacher.source or 'teacher'} [{teacher.network}], segment {segment.t + 1} ({segment.session})"
        seen.update(message.id for message in segment.messages)
        writes = [step for step in steps if step.action != "NOOP"]
        support = [_support(step, segment, seen, f"{where}, ref {step.ref!r}") for step in writes]
        # a step may update a record of its own segment: ids are counters, so they are known before the writes
        ids |= {step.ref: f"d{len(state) + n}" for n, step in enumerate(writes, 1)}
        report = execute(state, [_attempt(step, ids) for step in steps or (NOOP,)], segment, _given(support))
        for step, outcome in zip(steps, report.outcomes, strict=False):
            if outcome.rejection is not None:
                reason = f"{outcome.rejection.reason.value}: {outcome.rejection.detail}"
                raise DataError(f"{where}, ref {step.ref!r}: invalid {step.action}, {reason}")
        if report.over_budget:
            raise DataError(f"{where}: {len(writes)} steps where the budget is {segment.budget}; write fewer")
        result.append(([outcome.action for outcome in report.outcomes if outcome.action is not None], state.clone()))
    return result


def _check_fit(teacher: Teacher, segments: Sequence[Segment]) -> None:
    where = teacher.source or "teacher"
    names = {segment.network for segment in segments}
    if names != {teacher.network}:
        raise DataError(f"{where}: is for network {teacher.network!r}, not {', '.join(sorted(names)) or 'an empty one'}")
    if len(teacher.segments) != len(segments):
        raise DataError(
            f"{where} [{teacher.network}]: {len(teacher.segments)} segments where the network is cut into {len(segments)}; "
            "cut it as the teacher was written (one segment a session unless the file says otherwise)"
        )
    for segment, session in zip(segments, teacher.sessions, strict=False):
        if session and session != segment.session:
            raise DataError(
                f"{where} [{teacher.network}], segment {segment.t + 1}: session {session!r} where the network has "
                f"{segment.session!r}; both must go in the same order"
            )


def _support(step: Step, segment: Segment, seen: set[str], where: str) -> tuple[str, ...]:
    """Verbatim ids of the step's evidence inside the segment, in message order; earlier evidence stands behind the
    records that led here."""
    unknown = [one for one in step.evidence if one not in seen]
    if unknown:
        raise DataError(f"{where}: evidence {unknown[0]!r} is no message up to this segment; cite one the Writer has read")
    pairs = zip(segment.messages, segment.verbatim, strict=True)
    found = tuple(record.entry_id for message, record in pairs if message.id in step.evidence)
    if not found:
        raise DataError(f"{where}: no evidence inside the segment; cite the message that gave rise to the step")
    return found


def _given(found: Sequence[tuple[str, ...]]) -> Support:
    return lambda contents, segment: found


def _attempt(step: Step, ids: dict[str, str]) -> dict[str, str]:
    if step.action == "NOOP":
        return {"action": "NOOP"}
    if step.action == "UPDATE":
        return {"action": "UPDATE", "entry_id": ids.get(step.target, step.target), "content": step.content}
    return {key: getattr(step, key) for key in ADD_KEYS}
