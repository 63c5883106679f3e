"""Asking the teacher until its answer holds: up to three attempts, each shown what was wrong with the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from types import MappingProxyType
from typing import Generic, TypeVar

from rollout.llm.client import Client
from rollout.llm.errors import MissingKind, MissingReply, Unparsable
from rollout.llm.provider import ChatCall
from rollout.llm.reply import final_text
from writer_rl.teach.journal import Attempt, Journal

T = TypeVar("T")
ATTEMPTS = 3
MAX_TOKENS = 8192  # of one answer; reasoning before it counts
AGAIN_TEMPERATURE = 0.7  # of later conversations about the same thing: at 0 they would go as the first one went
MOST_FAULTS = 12  # shown to the teacher at once
NO_ANSWER = "(no usable answer)"  # stands for one that did not arrive whole
UNUSABLE = MappingProxyType(
    {
        MissingKind.CUT_OFF: f"it was cut off at {MAX_TOKENS} tokens; write less",
        MissingKind.EMPTY: "it was empty",
        MissingKind.UNPARSABLE: "it holds half a character (a lone surrogate)",
    }
)


class StillFaulty(Exception):
    """No attempt held. The next run asks anew, with another seed."""

    def __init__(self, unit: str, faults: tuple[str, ...]) -> None:
        super().__init__(f"{unit}: after {ATTEMPTS} attempts: {'; '.join(faults[:3])}")
        self.unit = unit
        self.faults = faults


@dataclass(frozen=True)
class Judged(Generic[T]):
    """What an answer is worth: a value, or faults in words that its author can act on."""

    value: T | None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """What is asked: `unit` names it in the journal, `schema` is the JSON schema of the answer."""

    unit: str
    stage: str
    system: str
    user: str
    schema: str


@dataclass(frozen=True)
class Teller:
    """The model that teaches, and how it is reached."""

    client: Client
    model: str
    api_base: str | None = None

    async def ask(self, assignment: Assignment, judge: Callable[[str], Judged[T]], journal: Journal) -> T:
        """The first value that `judge` accepts. Answers in the journal are judged again instead of paid again.

        Errors: StillFaulty; MissingReply where no answer came (outage, refusal, ...), BudgetExceeded, SetupError: then
        the conversation goes on at this place in the next run.
        """
        conversation = journal.next_conversation(assignment.unit, ATTEMPTS)
        said: list[Attempt] = []
        known = journal.of(assignment.unit, conversation)
        for number in range(ATTEMPTS):
            if number < len(known):
                attempt, judged = known[number], _again(known[number], judge)
            else:
                reply, unusable = await self._reply(assignment, conversation, said)
                judged = judge(reply) if reply is not None else Judged[T](None, (unusable,))
                attempt = Attempt(assignment.unit, conversation, number, reply, judged.faults)
                journal.append(attempt)
            if judged.value is not None:
                return judged.value
            said.append(attempt)
        raise StillFaulty(assignment.unit, said[-1].faults)

    async def _reply(self, assignment: Assignment, conversation: int, said: list[Attempt]) -> tuple[str | None, str]:
        """The model's text; or None, and what is wrong with an answer that cannot be read at all."""
        messages = [("system", assignment.system), ("user", assignment.user)]
        for attempt in said:
            messages += [("assistant", _shown(attempt.reply)), ("user", feedback(attempt.faults))]
        call = ChatCall(
            stage=assignment.stage,
            model=self.model,
            messages=tuple(messages),
            max_tokens=MAX_TOKENS,
            temperature=AGAIN_TEMPERATURE if conversation else 0.0,
            seed=conversation,
            schema=assignment.schema,
            api_base=self.api_base,
        )
        try:
            # Any text is kept, one without JSON too: it is answered with feedback, not asked for again blindly.
            return await self.client.ask(call, _text), ""
        except MissingReply as missing:
            if missing.kind not in UNUSABLE:
                raise
            return None, UNUSABLE[missing.kind]


def _text(reply: str) -> str:
    """The reply, unless it holds what no file and no request can (JSON may escape half a character)."""
    if any("\ud800" <= char <= "\udfff" for char in reply):
        raise Unparsable("half a surrogate pair in the reply")
    return reply


def feedback(faults: tuple[str, ...]) -> str:
    """What the teacher is told about an answer."""
    listed = [f"- {fault}" for fault in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        listed.append(f"- and {len(faults) - MOST_FAULTS} more")
    return Template(prompt_file("feedback")).substitute(faults="\n".join(listed)).strip()


def prompt_file(name: str) -> str:
    """The text of a file in prompts/, without the end of its last line."""
    return files("writer_rl.teach").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip()


def _shown(reply: str | None) -> str:
    return NO_ANSWER if reply is None else final_text(reply) or NO_ANSWER


def _again(attempt: Attempt, judge: Callable[[str], Judged[T]]) -> Judged[T]:
    return Judged(None, attempt.faults) if attempt.reply is None else judge(attempt.reply)
