"""Question and answer pairs with evidence for networks that have none, so that one's own chats can be trained on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from string import Template
from typing import Any, TypeGuard

from data.network import Message, Network, Question, fold
from rollout.llm.errors import Unparsable
from rollout.llm.reply import json_object
from rollout.writer.prompt import WriterPrompt, one_line
from writer_rl.teach.attempts import Assignment, Judged, Teller, prompt_file
from writer_rl.teach.journal import Journal

MOST_MESSAGES = 300  # shown at once
MOST_CHARACTERS = 60_000
LONGEST_ANSWER = 160  # characters
MOST_EVIDENCE = 5
ABSTENTION = "Not mentioned in the conversation"
NUMBER = re.compile(r"\[\d+\]|\bmessages? (?:no\.? ?|number |#)?\d+\b", re.IGNORECASE)


class Kind(StrEnum):
    WHO = "who"
    CURRENT = "current"
    EARLIER = "earlier"
    STANCE = "stance"
    DECISION = "decision"
    NOT_MENTIONED = "not_mentioned"


@dataclass(frozen=True)
class Draft:
    """A validated question before it has an id. `evidence` holds message ids."""

    kind: Kind
    text: str
    answer: str
    evidence: tuple[str, ...]


def _schema() -> str:
    text, number = {"type": "string"}, {"type": "integer"}
    properties = {
        "kind": {"type": "string", "enum": [kind.value for kind in Kind]},
        "question": text,
        "answer": text,
        "evidence": {"type": "array", "items": number},
    }
    one = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    listed = {"questions": {"type": "array", "items": one}}
    whole = {"type": "object", "properties": listed, "required": ["questions"], "additionalProperties": False}
    return json.dumps(whole, ensure_ascii=False)


async def write_questions(
    network: Network, count: int, teller: Teller, prompt: WriterPrompt, journal: Journal
) -> tuple[Question, ...]:
    """`count` questions, spread over the whole network and over the kinds. Errors: as `Teller.ask`."""
    blocks = _blocks(list(network.messages()))
    kinds = [list(Kind)[number % len(Kind)] for number in range(count)]
    wanted: list[list[Kind]] = [[] for _ in blocks]
    for number, kind in enumerate(kinds):
        wanted[number * len(blocks) // count].append(kind)
    drafts: list[Draft] = []
    for number, (block, asked) in enumerate(zip(blocks, wanted, strict=True), 1):
        if not asked:
            continue
        assignment = Assignment(
            unit=f"{count} questions, block {number} of {len(blocks)}",
            stage="questions",
            system=Template(prompt_file("questions_system")).substitute(abstention=ABSTENTION),
            user=_user(network, block, asked, prompt),
            schema=_schema(),
        )
        reader = judge(block, asked, {fold(draft.text) for draft in drafts})
        written: list[Draft] = await teller.ask(assignment, reader, journal)
        drafts += written
    return tuple(
        Question(
            id=f"{network.id}_q{number:03d}",
            text=draft.text,
            answer=draft.answer,
            kind=draft.kind.value,
            evidence=draft.evidence,
            abstain=draft.kind is Kind.NOT_MENTIONED,
        )
        for number, draft in enumerate(drafts, 1)
    )


def judge(block: Sequence[Message], asked: Sequence[Kind], taken: set[str]) -> Callable[[str], Judged[list[Draft]]]:
    """Reads answers about a block of messages. `taken` holds the questions of earlier blocks, folded."""

    def judged(reply: str) -> Judged[list[Draft]]:
        try:
            listed = json_object(reply).get("questions")
        except Unparsable as error:
            return Judged(None, (f"it is not one JSON object: {error}",))
        if not isinstance(listed, list):
            return Judged(None, ("it has no list under questions",))
        read = [_read(one, block) for one in listed]
        faults = [f"question {number}: {one}" for number, one in enumerate(read, 1) if isinstance(one, str)]
        drafts = [one for one in read if isinstance(one, Draft)]
        if len(listed) != len(asked):
            faults.append(f"there are {len(listed)} questions where {len(asked)} are asked for")
        abstaining = sum(draft.kind is Kind.NOT_MENTIONED for draft in drafts)
        if abstaining > asked.count(Kind.NOT_MENTIONED):
            faults.append(f"{abstaining} questions are not_mentioned where {asked.count(Kind.NOT_MENTIONED)} are asked for")
        times = Counter(fold(draft.text) for draft in drafts) + Counter(taken)
        faults += [f"{draft.text!r} is asked more than once" for draft in drafts if times[fold(draft.text)] > 1]
        return Judged(None, tuple(faults)) if faults else Judged(drafts)

    return judged


def _read(raw: Any, block: Sequence[Message]) -> Draft | str:
    """A question, or what is wrong with it."""
    if not isinstance(raw, dict):
        return "it is not an object"
    kind, text, answer, evidence = (raw.get(key) for key in ("kind", "question", "answer", "evidence"))
    if not isinstance(kind, str) or kind not in set(Kind):
        return f"kind is {kind!r}; use one of {', '.join(Kind)}"
    if not _whole(text) or not _whole(answer):
        return "question and answer must be texts that are not empty"
    if NUMBER.search(text) or NUMBER.search(answer):
        return "it names a message by its number; nobody who is asked sees the numbers"
    if len(answer.strip()) > LONGEST_ANSWER:
        return f"the answer has {len(answer.strip())} characters where at most {LONGEST_ANSWER} are allowed"
    if not isinstance(evidence, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in evidence):
        return "evidence must be a list of message numbers"
    unknown = [one for one in evidence if not 1 <= one <= len(block) or not block[one - 1].text.strip()]
    if unknown:
        return f"evidence names message {unknown[0]}, which is not there or empty; the messages are 1 to {len(block)}"
    if kind == Kind.NOT_MENTIONED:
        return Draft(Kind.NOT_MENTIONED, text.strip(), ABSTENTION, ()) if not evidence else "not_mentioned has no evidence"
    if not 1 <= len(set(evidence)) <= MOST_EVIDENCE:
        return f"evidence names {len(set(evidence))} messages where 1 to {MOST_EVIDENCE} are needed"
    return Draft(Kind(kind), text.strip(), answer.strip(), tuple(block[one - 1].id for one in sorted(set(evidence))))


def _whole(value: object) -> TypeGuard[str]:
    """A text that says something, and that files and tokenizers take."""
    return isinstance(value, str) and bool(value.strip()) and not any("\ud800" <= char <= "\udfff" for char in value)


def _blocks(messages: Sequence[Message]) -> list[list[Message]]:
    """Consecutive messages, as many as are shown at once."""
    blocks: list[list[Message]] = []
    size = 0
    for message in messages:
        if not blocks or len(blocks[-1]) == MOST_MESSAGES or size + len(message.text) > MOST_CHARACTERS:
            blocks.append([])
            size = 0
        blocks[-1].append(message)
        size += len(message.text)
    return blocks


def _user(network: Network, block: Sequence[Message], asked: Sequence[Kind], prompt: WriterPrompt) -> str:
    """Messages as the Writer's contract shows them: each on one line whatever it holds."""
    lines = []
    for number, message in enumerate(block, 1):
        said = f"{one_line(network.roster.name(message.speaker))}: {one_line(message.text)}"
        lines.append(f"[{number}] {one_line(message.time)} {said}" if message.time else f"[{number}] {said}")
    filled = Template(prompt_file("questions_user")).substitute(
        roster=", ".join(map(one_line, network.roster.names)),
        messages="\n".join(lines),
        count=str(len(asked)),
        kinds=", ".join(f"{asked.count(kind)} {kind.value}" for kind in Kind if kind in asked),
    )
    return prompt.safe(filled)
