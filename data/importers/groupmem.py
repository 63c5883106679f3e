"""GroupMemBench: four company domains of channels, about 30,000 messages each; every question has an asker.

The conversations and the questions are published apart; both go under one folder:
`data/final/<Domain>/synthetic_domain_channels_rolevariants_<Domain>.json` and `questions/<Domain>/<type>.jsonl`.
Phase, topic and decision labels are read past: they give the answers away and are stored nowhere.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from data.importers.lines import decoded_lines
from data.importers.repeated import read_merged
from data.instants import read_instant
from data.jsonfile import describe, take
from data.network import DataError, Member, Message, Network, Question, Roster, Session
from data.socialmem import clean

BENCHMARK = "groupmem"
PREFIX = "synthetic_domain_channels_rolevariants_"
ABSTENTION = "abstention"
TYPES = ("multi_hop", "knowledge_update", "temporal", "user_implicit", "term_ambiguity", ABSTENTION)
NODE = re.compile(r"Msg_(\d{1,15})")


def load(path: Path) -> list[Network]:
    """One network a domain, one session a channel; messages by the number in their id (as text "Msg_10" precedes
    "Msg_2"). `path`: the folder that holds `data` and `questions`, or one domain's conversation file inside it.

    Ids repeat across domains, question ids also across types: a question is `<type>/<id>` in its domain's network.
    Errors (DataError with file, row, field): missing files, missing or mistyped fields, an id without a number.
    """
    files = [path] if path.is_file() else sorted(path.rglob(f"{PREFIX}*.json"))
    if not files:
        raise DataError(f"{path}: no {PREFIX}<Domain>.json below it; name the folder that holds data/final and questions")
    return [_network(file, path) for file in files]


def _network(file: Path, root: Path) -> Network:
    domain = file.stem.removeprefix(PREFIX)
    speakers: dict[str, None] = {}  # in order of appearance
    sessions = []
    for channel, rows in read_merged(file).items():
        where = f"{file}, channel {channel!r}"
        if not isinstance(rows, list):
            raise DataError(f"{where}: is {describe(rows)} where a list of messages is expected")
        numbered = sorted((_message(row, f"{where}, message {n}") for n, row in enumerate(rows, 1)), key=lambda pair: pair[0])
        messages = tuple(message for _, message in numbered)
        speakers |= dict.fromkeys(message.speaker for message in messages)
        if messages:
            sessions.append(Session(channel, messages, date=messages[0].time[:10], channel=channel))
    questions = _questions(_question_folder(file, root, domain))
    speakers |= dict.fromkeys(question.asker for question in questions if question.asker)  # some only ask
    roster = Roster(tuple(Member(speaker, speaker) for speaker in speakers))
    return Network(domain, roster, tuple(sessions), questions, BENCHMARK, source=str(file))


def _message(row: Any, where: str) -> tuple[int, Message]:
    """(number, message)."""
    node = take(row, "msg_node", str, where)
    match = NODE.fullmatch(node)
    if match is None:
        raise DataError(f"{where}: field 'msg_node' is {node!r} where an id such as 'Msg_12' is expected")
    change = row.get("decision_change_metadata")
    if change is not None and not isinstance(change, dict | str):
        raise DataError(f"{where}: field 'decision_change_metadata' is {describe(change)}, neither an object nor a text")
    reply = row.get("reply_to")
    if reply is not None and not isinstance(reply, str):
        raise DataError(f"{where}: field 'reply_to' is {describe(reply)} where a message id or null is expected")
    author = take(row, "author", str, where).strip()
    if not author:
        raise DataError(f"{where}: field 'author' is empty; name the user")
    time = take(row, "timestamp", str, where)
    instant, assumed = read_instant(time, f"{where}, field 'timestamp'")
    text = clean(take(row, "content", str, where))
    return int(match[1]), Message(node, author, text, time, instant, assumed, reply or None)


def _question_folder(file: Path, root: Path, domain: str) -> Path:
    above = [root] if root.is_dir() else []
    for folder in (*above, *file.parents):
        if (folder / "questions" / domain).is_dir():
            return folder / "questions" / domain
    raise DataError(f"{file}: no folder questions/{domain} beside data; the questions are published apart, fetch them too")


def _questions(folder: Path) -> tuple[Question, ...]:
    files = sorted(folder.glob("*.jsonl"))
    strange = [file for file in files if file.stem not in TYPES]
    if strange or not files:
        what = f"{strange[0].name} is no question type" if strange else "no question files"
        raise DataError(f"{folder}: {what}; expected are {', '.join(f'{one}.jsonl' for one in TYPES)}")
    made = []
    for kind, file in sorted((TYPES.index(file.stem), file) for file in files):
        with file.open("rb") as handle:
            for number, line in decoded_lines(handle):
                if line is None or line.strip():
                    made.append(_question(line, TYPES[kind], f"{file}, line {number}"))
    return tuple(made)


def _question(line: str | None, kind: str, where: str) -> Question:
    try:
        row = json.loads(line or "")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON; fetch the file again") from error
    asker = take(row, "asking_user_id", str, where).strip()
    if not asker:
        raise DataError(f"{where}: field 'asking_user_id' is empty; a first-person question needs its asker")
    return Question(
        id=f"{kind}/{take(row, 'id', str, where)}",
        text=clean(take(row, "question", str, where)),
        answer=clean(take(row, "answer", str, where)),
        kind=kind,
        asker=asker,
        abstain=kind == ABSTENTION,
    )
