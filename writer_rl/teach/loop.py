"""Teaching networks: each one segment by segment on its own growing memory, several networks at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from data.memory.executor import Support
from data.memory.state import State
from data.network import DataError, Network, Question
from data.saved import save_network
from data.segments import Segment, segments
from data.socialmem import load
from data.teacher import Step, Teacher, load_teacher, replay, save_teacher
from rollout.llm.errors import BudgetExceeded, MissingReply
from rollout.memory.embedder import Embedder
from rollout.memory.provenance import support
from writer_rl.teach.attempts import Assignment, StillFaulty, Teller
from writer_rl.teach.contract import Contract
from writer_rl.teach.folder import Folder, replace_whole
from writer_rl.teach.journal import Journal, content_hash
from writer_rl.teach.judgement import judge
from writer_rl.teach.questions import write_questions

Progress = Callable[[str, int, int], None]
"""Called with a network's id, the segments that are done, and how many there are."""


class Status(StrEnum):
    TAUGHT = "taught"  # written in this run
    KEPT = "kept"  # was there already, and holds
    UNFINISHED = "unfinished"  # the next run goes on


@dataclass(frozen=True)
class Taught:
    """What became of a network. `reason` is empty, or why it is unfinished: a MissingKind, `invalid` or `budget`; `done` of
    `total` segments are written. `teacher` is there where all are, `network` carries the questions that it has."""

    network: Network
    status: Status
    segments: tuple[Segment, ...]
    teacher: Teacher | None = None
    done: int = 0
    reason: str = ""
    detail: str = ""
    fed_back: int = 0  # answers that were sent back with their faults
    by_embedder: int = 0
    not_strict: int = 0

    @property
    def total(self) -> int:
        return len(self.segments)


@dataclass(frozen=True)
class School:
    """All that teaching needs beside the networks. `questions` are written for each network that has none."""

    teller: Teller
    embedder: Embedder
    folder: Folder
    contract: Contract
    window: int | None = None
    questions: int = 0

    def support(self) -> Support:
        return support(self.embedder)


async def teach_all(
    school: School, networks: Sequence[Network], concurrency: int, progress: Progress = lambda *_: None
) -> list[Taught]:
    """Teach up to `concurrency` networks at a time; results in the order of `networks`.

    What stops one network (an outage, faulty answers, the budget) leaves it unfinished and the others alone. Errors:
    DataError for what no run can mend (a wrong model, key or folder) ends all.
    """
    places = [school.folder.network(network.id) for network in networks]
    if len({str(place).casefold() for place in places}) != len(places):
        raise DataError("teach: two networks have the same id; ids must be unique")
    empty = [network.id for network in networks if not network.sessions]
    if empty or not networks:
        raise DataError(f"teach: {f'network {empty[0]!r} has no messages' if empty else 'there are no networks'}; leave it out")
    with school.folder.held():
        return await _taught(school, networks, concurrency, progress)


async def _taught(school: School, networks: Sequence[Network], concurrency: int, progress: Progress) -> list[Taught]:
    gate = asyncio.Semaphore(concurrency)

    async def one(network: Network) -> Taught:
        async with gate:
            return await teach(school, network, progress)

    tasks = [asyncio.ensure_future(one(network)) for network in networks]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def teach(school: School, network: Network, progress: Progress = lambda *_: None) -> Taught:
    """Write a network's teacher file, its questions where they are asked for, and the network beside them.

    Each file is there whole or not at all; the network is the last one. Errors: as `teach_all`.
    """
    parts = segments(network, school.window)
    saved = _saved(school, network, parts)
    if not network.questions and saved is not None:
        network = replace(network, questions=saved.questions)
    lesson = _Lesson(school, network, parts)
    try:
        teacher, status = await lesson.teacher(progress)
        lesson.progressed = replace(lesson.progressed, teacher=teacher, status=status, done=len(parts))
        questions = await lesson.questions()
    except MissingReply as missing:
        return lesson.unfinished(missing.kind.value, str(missing))
    except StillFaulty as faulty:
        return lesson.unfinished("invalid", str(faulty))
    except BudgetExceeded as spent:
        return lesson.unfinished("budget", str(spent))
    network = replace(network, questions=questions)
    if network != saved:
        replace_whole(school.folder.network(network.id), lambda path: save_network(network, path))
    return replace(lesson.progressed, network=network)


class _Lesson:
    """One network's way to a whole teacher file; `progressed` is what can be said of it so far."""

    def __init__(self, school: School, network: Network, parts: tuple[Segment, ...]) -> None:
        self.school, self.network, self.parts = school, network, parts
        self.progressed = Taught(network, Status.UNFINISHED, parts)
        self._opened: Journal | None = None

    def unfinished(self, reason: str, detail: str) -> Taught:
        return replace(self.progressed, status=Status.UNFINISHED, reason=reason, detail=detail, fed_back=self._fed_back())

    def journal(self) -> Journal:
        if self._opened is None:
            teller = self.school.teller
            identity = {
                "network": self.network.id,
                "messages": content_hash(self.network, self.parts),
                "model": teller.model,
                "contract": self.school.contract.hash,
            }
            self._opened = Journal(self.school.folder.journal(self.network.id), identity)
        return self._opened

    async def teacher(self, progress: Progress) -> tuple[Teacher, Status]:
        """The teacher that lies there already, if it fits; else a new one, saved once its replay has held."""
        file = self.school.folder.teacher(self.network.id)
        if file.is_file():
            return self._checked(load_teacher(file)), Status.KEPT
        steps = await self._write(progress)
        sessions = tuple(part.session for part in self.parts)
        made = Teacher(self.network.id, tuple(steps), str(file), sessions)
        partial = file.with_name(f".{file.name}.part")
        save_teacher(made, partial)
        self._checked(load_teacher(partial))
        partial.replace(file)
        self.progressed = replace(self.progressed, fed_back=self._fed_back())
        return made, Status.TAUGHT

    async def questions(self) -> tuple[Question, ...]:
        if self.network.questions or not self.school.questions:
            return self.network.questions
        school = self.school
        return await write_questions(self.network, school.questions, school.teller, school.contract.prompt, self.journal())

    async def _write(self, progress: Progress) -> list[tuple[Step, ...]]:
        school, state, steps = self.school, State(), list[tuple[Step, ...]]()
        progress(self.network.id, 0, len(self.parts))
        for part in self.parts:
            assignment = Assignment(
                unit=f"segment {part.t + 1}",
                stage="teach",
                system=school.contract.system,
                user=school.contract.user(part, state, school.embedder),
                schema=school.contract.schema,
            )
            written = await school.teller.ask(assignment, judge(part, state, school.support()), self.journal())
            state = written.state
            steps.append(written.steps)
            self.progressed = replace(
                self.progressed,
                done=len(steps),
                by_embedder=self.progressed.by_embedder + written.by_embedder,
                not_strict=self.progressed.not_strict + (not written.strict),
            )
            progress(self.network.id, len(steps), len(self.parts))
        return steps

    def _checked(self, teacher: Teacher) -> Teacher:
        """The teacher, whose replay on the network's segments holds. Errors: DataError where it does not."""
        replay(teacher, self.parts)
        return teacher

    def _fed_back(self) -> int:
        return sum(bool(one.faults) for one in self._opened.attempts) if self._opened is not None else 0


def _saved(school: School, network: Network, parts: tuple[Segment, ...]) -> Network | None:
    """The network as an earlier run left it, with its questions. Errors: DataError where the file holds other messages."""
    file = school.folder.network(network.id)
    if not file.is_file():
        return None
    (found,) = load(file)
    if content_hash(found, segments(found, school.window)) != content_hash(network, parts):
        raise DataError(f"{file}: holds another network of the id {network.id!r}; name another folder with --to")
    return found
