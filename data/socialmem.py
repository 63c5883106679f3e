"""SocialMemBench's nested form: one JSON file a network, with speakers, sessions of turns, and `qa_pairs`.

Topics and relevance notes are read past: they give away what a session implies and are stored nowhere.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from data.instants import read_instant
from data.jsonfile import read_json, take, texts
from data.network import DataError, Member, Message, Network, Question, Roster, Session, fold
from data.saved import SCHEMA as SAVED
from data.saved import read_saved

BENCHMARK = "socialmem"
FORMATS = ("multiple_choice", "short_answer", "long_form")


def load(path: Path) -> list[Network]:
    """The networks of one JSON file, or of all `*.json` files of a folder in name order; files that `save_network`
    wrote come back as they were.

    `meta.benchmark` and a question's `abstain` may be given; without them the benchmark is SocialMemBench and the gold
    an answer.
    Text is HTML-unescaped and stripped, nothing else. Sessions go by `session_index`, messages by their place in the
    file. Errors (DataError with file, session, turn or question, and field): missing or mistyped field, unknown
    speaker, unreadable JSON, empty session, a letter or evidence that is not there, no file at all, one id twice.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path}: no *.json file in this folder; name a folder of networks in the nested form")
    networks = [_read(read_json(file), str(file)) for file in files]
    seen: dict[str, str] = {}
    for network in networks:
        if network.id in seen:
            raise DataError(f"{network.source}: network id {network.id!r} is also in {seen[network.id]}; ids must be unique")
        seen[network.id] = network.source
    return networks


def _read(raw: dict[str, Any], file: str) -> Network:
    return read_saved(raw, file) if raw.get("schema") == SAVED else read_network(raw, file)


def read_network(raw: dict[str, Any], file: str) -> Network:
    """The network in a decoded object of the nested form; `file` opens every error. Errors: as for `load`."""
    meta = take(raw, "meta", dict, file)
    network_id = take(meta, "network_id", str, f"{file}, meta")
    benchmark = take(meta, "benchmark", str, f"{file}, meta") if "benchmark" in meta else BENCHMARK
    listed = take(raw, "sessions", list, file)
    indexed = [(take(one, "session_index", int, f"{file}, session {n}"), one) for n, one in enumerate(listed, 1)]
    ordered = [one for _, one in sorted(indexed, key=lambda pair: pair[0])]
    roster = _roster(raw, ordered, file)
    sessions = tuple(_session(one, file) for one in ordered)
    known = {message.id for session in sessions for message in session.messages}
    questions = tuple(_question(one, n, known, file) for n, one in enumerate(take(raw, "qa_pairs", list, file), 1))
    return Network(network_id, roster, sessions, questions, benchmark, source=file)


def _turns(session: object, file: str) -> list[tuple[str, object]]:
    """The session's turns, each behind the words that say where it is."""
    session_id = take(session, "session_id", str, f"{file}, session")
    where = f"{file}, session {session_id!r}"
    turns = take(session, "turns", list, where)
    if not turns:
        raise DataError(f"{where}: no turns; remove the session or fill it")
    return [(f"{where}, turn {n}", turn) for n, turn in enumerate(turns, 1)]


def _roster(raw: dict[str, Any], sessions: list[object], file: str) -> Roster:
    """Members in the order of `speakers`; the id is the turns' `speaker_id` (the label for one who never speaks)."""
    speakers = texts(raw, "speakers", file)
    ids: dict[str, list[str]] = {fold(label): [] for label in speakers}
    label_of: dict[str, str] = {}
    for where, turn in (pair for session in sessions for pair in _turns(session, file)):
        label, member = take(turn, "speaker", str, where), take(turn, "speaker_id", str, where)
        if fold(label) not in ids:
            raise DataError(f"{where}: field 'speaker' is {label!r}, who is not among the speakers ({', '.join(speakers)})")
        if label_of.setdefault(member, fold(label)) != fold(label):
            raise DataError(f"{where}: field 'speaker_id' {member!r} was {label_of[member]!r} before and is {label!r} here")
        if member not in ids[fold(label)]:
            ids[fold(label)].append(member)
    if len(ids) != len(speakers):
        raise DataError(f"{file}: field 'speakers' names somebody twice; tell members apart by speaker_id in the turns")
    members = [Member(one, label) for label in speakers for one in ids[fold(label)] or [label]]
    try:
        return Roster(tuple(members))
    except DataError as error:
        raise DataError(f"{file}: {error}") from error


def _session(raw: Any, file: str) -> Session:
    messages = tuple(_message(turn, where) for where, turn in _turns(raw, file))
    return Session(raw["session_id"], messages, date=take(raw, "ts", str, f"{file}, session {raw['session_id']!r}"))


def _message(turn: object, where: str) -> Message:
    message_id = take(turn, "turn", str, where)
    here = f"{where} ({message_id})"
    time = take(turn, "ts", str, here)
    instant, zone_assumed = read_instant(time, f"{here}, field 'ts'")
    return Message(
        id=message_id,
        speaker=take(turn, "speaker_id", str, here),
        text=clean(take(turn, "content", str, here)),
        time=time,
        instant=instant,
        zone_assumed=zone_assumed,
        reply_to=take(turn, "reply_to", str, here) or None,
    )


def _question(raw: Any, number: int, known: set[str], file: str) -> Question:
    question_id = take(raw, "id", str, f"{file}, question {number}")
    where = f"{file}, question {question_id!r}"
    form = take(raw, "answer_format", str, where)
    if form not in FORMATS:
        raise DataError(f"{where}: field 'answer_format' is {form!r}; use one of {', '.join(FORMATS)}")
    options: tuple[tuple[str, str], ...] = ()
    letter = ""
    if form == "multiple_choice":  # elsewhere `correct_option` is free text and no letter
        choices = take(raw, "options", dict, where)
        options = tuple((one, clean(take(choices, one, str, f"{where}, options"))) for one in sorted(choices))
        letter = take(raw, "correct_option", str, where).strip()
        if letter not in choices:
            raise DataError(f"{where}: field 'correct_option' is {letter!r}, not one of {', '.join(sorted(choices)) or 'none'}")
    evidence = [
        take(anchor, "turn_id", str, f"{where}, evidence anchor {n}")
        for n, anchor in enumerate(take(raw, "evidence_anchors", list, where), 1)
    ]
    unknown = [one for one in evidence if one not in known]
    if unknown:
        raise DataError(f"{where}: field 'evidence_anchors' cites turn {unknown[0]!r}, which the network does not hold")
    return Question(
        id=question_id,
        text=clean(take(raw, "question", str, where)),
        answer=clean(take(raw, "answer", str, where)),
        kind=take(raw, "category", str, where),
        format=form,
        options=options,
        correct_option=letter,
        evidence=tuple(dict.fromkeys(evidence)),
        abstain="abstain" in raw and take(raw, "abstain", bool, where),
    )


def clean(text: str) -> str:
    """What every benchmark's text goes through: HTML-unescaped and stripped, nothing else."""
    return html.unescape(text).strip()
