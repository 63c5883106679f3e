"""LoCoMo (CC BY-NC 4.0): `locomo10.json`, two speakers a conversation, sessions months apart, five question categories.

Category ids decide what a question is; their names mislead (papers mix two schemes). 5 asks for what was never said:
its gold is abstention and its `adversarial_answer` is the trap.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.jsonfile import describe, take
from data.network import DataError, Member, Message, Network, Question, Roster, Session
from data.socialmem import clean

BENCHMARK = "locomo"
CATEGORIES = {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop", "5": "adversarial"}
ADVERSARIAL = "5"
ABSTENTION = "Not mentioned in the conversation"
MONTHS = "january february march april may june july august september october november december"
TIME = re.compile(r"(\d{1,2}):(\d\d) (am|pm) on (\d{1,2}) ([A-Za-z]+), (\d{4})")
SESSION = re.compile(r"session_(\d+)")


def load(path: Path) -> list[Network]:
    """One network a conversation. Speaker ids carry the conversation: the "John" of three of them is three people.

    A caption joins its turn's text. Turns have no time of their own: each carries its session's. Date keys without a
    session are passed over. Evidence that does not resolve as it stands is kept in `extra` under
    `unresolved_evidence`; ids written together in one string are told apart.
    Errors (DataError with file, conversation, row, field): a missing or mistyped field, an unreadable session time.
    """
    file = path / "locomo10.json" if path.is_dir() else path
    try:
        samples = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); name locomo10.json or its folder") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: not JSON ({error}); fetch the file again") from error
    if not isinstance(samples, list):
        raise DataError(f"{file}: holds {describe(samples)} where a list of conversations is expected")
    return [_network(sample, f"{file}, conversation {number}", str(file)) for number, sample in enumerate(samples, 1)]


def unresolved(networks: list[Network]) -> list[tuple[str, str, str]]:
    """(network, question, evidence as written) for each evidence string that is no message id."""
    pairs = [(network, question) for network in networks for question in network.questions]
    return [
        (network.id, question.id, value)
        for network, question in pairs
        for key, value in question.extra
        if key == "unresolved_evidence"
    ]


def _network(sample: Any, where: str, file: str) -> Network:
    sample_id = take(sample, "sample_id", str, where)
    where = f"{file}, conversation {sample_id!r}"
    conversation = take(sample, "conversation", dict, where)
    labels = [take(conversation, key, str, f"{where}, conversation").strip() for key in ("speaker_a", "speaker_b")]
    roster = Roster(tuple(Member(f"{sample_id}:{label}", label) for label in labels))
    numbers = sorted(int(match[1]) for key in conversation if (match := SESSION.fullmatch(key)))
    sessions = tuple(_session(conversation, number, sample_id, labels, where) for number in numbers)
    known = {message.id for session in sessions for message in session.messages}
    rows = take(sample, "qa", list, where)
    questions = tuple(_question(row, f"q{n:03d}", known, f"{where}, question {n}") for n, row in enumerate(rows, 1))
    return Network(sample_id, roster, sessions, questions, BENCHMARK, source=file)


def _session(conversation: dict[str, Any], number: int, sample_id: str, labels: list[str], where: str) -> Session:
    key = f"session_{number}"
    time = take(conversation, f"{key}_date_time", str, f"{where}, conversation")
    instant = read_time(time, f"{where}, field '{key}_date_time'")
    messages = []
    for place, turn in enumerate(take(conversation, key, list, f"{where}, conversation"), 1):
        here = f"{where}, {key}, turn {place}"
        speaker = take(turn, "speaker", str, here).strip()
        if speaker not in labels:
            raise DataError(f"{here}: field 'speaker' is {speaker!r}, who is neither of {' and '.join(labels)}")
        text = clean(take(turn, "text", str, here))
        if "blip_caption" in turn:
            text = f"{text} [image: {clean(take(turn, 'blip_caption', str, here))}]".strip()
        messages.append(Message(take(turn, "dia_id", str, here), f"{sample_id}:{speaker}", text, time, instant))
    return Session(key, tuple(messages), date=time)


def read_time(text: str, where: str) -> datetime:
    """The instant of a time such as "1:56 pm on 8 May, 2023", read as UTC. Months by name, whatever the locale."""
    match = TIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError("another form")
        hour, minute, half, day, month, year = match.groups()
        hours = int(hour) % 12 + (12 if half == "pm" else 0)
        return datetime(int(year), MONTHS.split().index(month.lower()) + 1, int(day), hours, int(minute), tzinfo=UTC)
    except ValueError as error:
        raise DataError(f"{where}: {text!r} is no time such as '1:56 pm on 8 May, 2023'") from error


def _question(row: Any, question_id: str, known: set[str], where: str) -> Question:
    kind = str(take(row, "category", int, where))
    if kind not in CATEGORIES:
        raise DataError(f"{where}: field 'category' is {kind}; it must be one of {', '.join(CATEGORIES)}")
    evidence, loose = _evidence(take(row, "evidence", list, where), known, where)
    extra = [("unresolved_evidence", one) for one in loose]
    abstain = kind == ADVERSARIAL
    if abstain:
        extra.append(("trap_answer", _answer(row, "adversarial_answer", where)))
        extra += [("published_answer", _answer(row, "answer", where))] if "answer" in row else []
    return Question(
        id=question_id,
        text=clean(take(row, "question", str, where)),
        answer=ABSTENTION if abstain else _answer(row, "answer", where),
        kind=kind,
        evidence=evidence,
        abstain=abstain,
        extra=tuple(extra),
    )


def _answer(row: dict[str, Any], key: str, where: str) -> str:
    """Golds are texts, six of them numbers."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{where}: field {key!r} is {describe(value)} where a text or a number is expected")
    return clean(str(value))


def _evidence(values: list[Any], known: set[str], where: str) -> tuple[tuple[str, ...], list[str]]:
    """(message ids, strings that are none as they stand). Nothing is guessed: "D30:05" stays unresolved."""
    found: list[str] = []
    loose: list[str] = []
    for value in values:
        if not isinstance(value, str):
            raise DataError(f"{where}: field 'evidence' holds {describe(value)} where only texts are expected")
        if value in known:
            found.append(value)
            continue
        loose.append(value)
        found += [part for part in re.split(r"[;,\s]+", value) if part in known]
    return tuple(dict.fromkeys(found)), loose
