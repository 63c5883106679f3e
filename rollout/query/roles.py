"""The roles of the frozen pipeline: what an LLM, or an offline stand-in, is asked and what it answers (Table 24).

Each role is one async call. What could not be had (an outage, a refusal, an answer that cannot be read) is `Missing`,
a value that travels to the result row: it is never scored, and never becomes "incorrect". An exception is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from data.memory.records import Record
from data.network import DataError
from rollout.query.evidence import Evidence, Tense

T = TypeVar("T")


class BlankQuery(DataError):
    """A question without text would match everything or nothing."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a role gave nothing usable: `outage`, `refusal`, `empty`, `cut_off`, `unreadable`; and the detail."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One role call for the books. `cached`: nothing was computed for it, a stored or shared reply served; the tokens are
    those of the reply either way. `seconds` is how long the caller waited."""

    role: str
    model: str
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    value: T | Missing
    call: Call


@dataclass(frozen=True, slots=True)
class Query:
    """What the pipeline may know of a question: never its gold, its evidence or its category. `asker` is a roster
    name; `options` are (letter, text) of a multiple choice."""

    text: str
    format: str = "short_answer"
    options: tuple[tuple[str, str], ...] = ()
    asker: str | None = None


@dataclass(frozen=True, slots=True)
class Projected:
    """Project's raw output. `rows` as the role wrote them (names, ALL, GROUP): resolved against the roster later."""

    issue: str
    rows: tuple[str, ...]
    tense: Tense
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A verbatim record that System 1 recalled, with its cosine to the question."""

    record: Record
    cosine: float


@dataclass(frozen=True, slots=True)
class Selected:
    """Select's necessity ranking and the anchors whose neighbours it wants, as record ids, best first."""

    order: tuple[str, ...]
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """Whether the cut evidence is enough, and else the one term to recall more by."""

    enough: bool
    term: str = ""


class VerdictKind(StrEnum):
    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNPARSED = "unparsed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`judged` verdicts count; unparsed and missing ones never do."""

    kind: VerdictKind
    reason: str = ""

    @property
    def judged(self) -> bool:
        return self.kind in (VerdictKind.CORRECT, VerdictKind.INCORRECT)

    @property
    def correct(self) -> bool:
        return self.kind is VerdictKind.CORRECT


@dataclass(frozen=True, slots=True)
class Gold:
    """What Judge compares with: the answer, the letter of a multiple choice, and whether it is an abstention."""

    answer: str
    option: str = ""
    abstain: bool = False


class Role(Protocol):
    """`name` is `offline` or `litellm:MODEL`; `fingerprint` covers its prompt and parameters and goes into the pipeline id."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...


class ProjectRole(Role, Protocol):
    async def project(self, query: Query, names: Sequence[str]) -> Reply[Projected]: ...


class SelectRole(Role, Protocol):
    async def select(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Selected]:
        """`candidates` come best cosine first."""
        ...


class AskRole(Role, Protocol):
    async def ask(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Sufficiency]:
        """`candidates` are the evidence as it would be cut."""
        ...


class AnswerRole(Role, Protocol):
    async def answer(self, query: Query, evidence: Evidence) -> Reply[str]: ...


class JudgeRole(Role, Protocol):
    async def judge(self, query: Query, gold: Gold, answer: str) -> Reply[Verdict]: ...


@dataclass(frozen=True, slots=True)
class Roles:
    project: ProjectRole
    select: SelectRole
    ask: AskRole
    answer: AnswerRole
    judge: JudgeRole

    def fingerprints(self) -> dict[str, str]:
        """What goes into the pipeline id, by role."""
        roles: dict[str, Role] = {
            "project": self.project,
            "select": self.select,
            "ask": self.ask,
            "answer": self.answer,
            "judge": self.judge,
        }
        return {role: f"{one.name} {one.fingerprint}" for role, one in roles.items()}
