"""Networks on disk: the nested form with everything a Network holds, so that what was imported can be trained on."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from data.jsonfile import describe, take
from data.network import DataError, Member, Message, Network, Question, Roster, Session

SCHEMA = "writer-rl-saved-network/1"
UNSAFE = re.compile(r"^\.+|[^\w.-]+")  # what an id may hold and a file name should not


def save_network(network: Network, path: Path) -> None:
    """Write a network as JSON that `data.socialmem.load` reads back to an equal one. Characters stay as they are.

    Errors: DataError where the file cannot be written.
    """
    text = json.dumps(_network_json(network), ensure_ascii=False, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); name a folder you may write to") from error


def save_networks(networks: Sequence[Network], to: Path) -> list[Path]:
    """Write networks and return their files: a single one to `to` itself where that ends in .json, else each to
    `<id>.json` in the folder `to`. Errors: as for `save_network`, and where a file
    would be replaced by another network."""
    if len(networks) == 1 and to.suffix == ".json":
        save_network(networks[0], to)
        return [to]
    files = [to / f"{UNSAFE.sub('_', network.id) or '_'}.json" for network in networks]
    clash = next((file for file in files if files.count(file) > 1 or file.exists()), None)
    if clash is not None:
        raise DataError(f"{clash}: would be written twice or replaced; name an empty folder")
    for network, file in zip(networks, files, strict=True):
        save_network(network, file)
    return files


def _network_json(network: Network) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "meta": {"network_id": network.id, "benchmark": network.benchmark},
        "speakers": list(network.roster.names),
        "members": [{"id": one.id, "label": one.label, "bot": one.bot} for one in network.roster.members],
        "sessions": [
            {
                "session_id": session.id,
                "session_index": index,
                "ts": session.date,
                "channel": session.channel,
                "turns": [_turn_json(message, network.roster) for message in session.messages],
            }
            for index, session in enumerate(network.sessions, 1)
        ],
        "qa_pairs": [_question_json(question) for question in network.questions],
    }


def _turn_json(message: Message, roster: Roster) -> dict[str, Any]:
    return {
        "turn": message.id,
        "speaker": roster.name(message.speaker),
        "speaker_id": message.speaker,
        "content": message.text,
        "ts": message.time,
        "instant": message.instant.isoformat() if message.instant else "",
        "zone_assumed": message.zone_assumed,
        "reply_to": message.reply_to or "",
    }


def _question_json(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "category": question.kind,
        "question": question.text,
        "answer": question.answer,
        "answer_format": question.format,
        "options": dict(question.options),
        "correct_option": question.correct_option,
        "evidence_anchors": [{"turn_id": one} for one in question.evidence],
        "asker": question.asker or "",
        "abstain": question.abstain,
        "extra": [list(pair) for pair in question.extra],
    }


def read_saved(raw: dict[str, Any], file: str) -> Network:
    """The network in a decoded object that `save_network` wrote; `file` opens every error.

    Errors (DataError with the place and the field): a missing or mistyped field, a time that is none.
    """
    meta = take(raw, "meta", dict, file)
    members = [_member(one, f"{file}, member {n}") for n, one in enumerate(take(raw, "members", list, file), 1)]
    try:
        roster = Roster(tuple(members))
    except DataError as error:
        raise DataError(f"{file}: {error}") from error
    sessions = [_session(one, f"{file}, session {n}") for n, one in enumerate(take(raw, "sessions", list, file), 1)]
    questions = [_question(one, f"{file}, question {n}") for n, one in enumerate(take(raw, "qa_pairs", list, file), 1)]
    network_id, benchmark = (take(meta, key, str, f"{file}, meta") for key in ("network_id", "benchmark"))
    return Network(network_id, roster, tuple(sessions), tuple(questions), benchmark, source=file)


def _member(raw: Any, where: str) -> Member:
    return Member(take(raw, "id", str, where), take(raw, "label", str, where), take(raw, "bot", bool, where))


def _session(raw: Any, where: str) -> Session:
    turns = [_message(turn, f"{where}, turn {n}") for n, turn in enumerate(take(raw, "turns", list, where), 1)]
    session_id, date, channel = (take(raw, key, str, where) for key in ("session_id", "ts", "channel"))
    return Session(session_id, tuple(turns), date, channel)


def _message(raw: Any, where: str) -> Message:
    written = take(raw, "instant", str, where)
    try:
        instant = datetime.fromisoformat(written) if written else None
    except ValueError as error:
        raise DataError(f"{where}: field 'instant' is {written!r}, no ISO 8601 time") from error
    if instant is not None and instant.tzinfo is None:
        raise DataError(f"{where}: field 'instant' is {written!r} without a zone; write it in UTC, such as +00:00")
    message_id, speaker, text, time, reply = (
        take(raw, key, str, where) for key in ("turn", "speaker_id", "content", "ts", "reply_to")
    )
    return Message(message_id, speaker, text, time, instant, take(raw, "zone_assumed", bool, where), reply or None)


def _question(raw: Any, where: str) -> Question:
    options = take(raw, "options", dict, where)
    anchors = take(raw, "evidence_anchors", list, where)
    return Question(
        id=take(raw, "id", str, where),
        text=take(raw, "question", str, where),
        answer=take(raw, "answer", str, where),
        kind=take(raw, "category", str, where),
        format=take(raw, "answer_format", str, where),
        options=tuple((letter, take(options, letter, str, f"{where}, options")) for letter in options),
        correct_option=take(raw, "correct_option", str, where),
        evidence=tuple(take(one, "turn_id", str, f"{where}, evidence_anchors") for one in anchors),
        asker=take(raw, "asker", str, where) or None,
        abstain=take(raw, "abstain", bool, where),
        extra=tuple(_pair(one, f"{where}, extra") for one in take(raw, "extra", list, where)),
    )


def _pair(raw: Any, where: str) -> tuple[str, str]:
    if not isinstance(raw, list) or len(raw) != 2 or not all(isinstance(one, str) for one in raw):
        raise DataError(f"{where}: holds {describe(raw)} where a pair of texts is expected")
    return raw[0], raw[1]
