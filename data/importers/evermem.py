"""EverMemBench-Dynamic: five topics (`01` to `05`), each with several groups that talk over many days.

A topic folder holds `dialogue.json` and `qa_<topic>.json`. The group is the session: it comes back day after day, and
its turns go on (the paper's 2,049 calls of 25 messages for 51,023 messages are windows of groups, not of days).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data.importers.repeated import read_merged
from data.instants import read_instant
from data.jsonfile import describe, read_json, take
from data.network import DataError, Member, Message, Network, Question, Roster, Session, fold
from data.socialmem import clean

BENCHMARK = "evermem"
KINDS = {
    "F_SH": "Single",
    "F_MH": "Multi",
    "F_TP": "Temp",
    "MA_C": "Const",
    "MA_P": "Proact",
    "MA_U": "Update",
    "P_Style": "Style",
    "P_Skill": "Skill",
    "P_Title": "Role",
}


def load(path: Path) -> list[Network]:
    """One network a topic, one session a group; days in date order, messages of a day in file order.

    `path`: the folder of topic folders, or one topic's. A group that is null on a day said nothing that day. Message
    ids are `<date>/<group>/<message_index>`. Speakers have no ids: the folded name is the identity.
    Errors (DataError with file, row, field): no topic folder, missing or mistyped fields, a question id of no kind.
    """
    folders = [path] if (path / "dialogue.json").is_file() else sorted(one.parent for one in path.glob("*/dialogue.json"))
    if not folders:
        raise DataError(f"{path}: no dialogue.json in it or one level below; name the folder that holds 01 to 05")
    return [_network(folder) for folder in folders]


def _network(folder: Path) -> Network:
    file = folder / "dialogue.json"
    days = take(read_merged(file), "dialogues", dict, str(file))
    members: dict[str, Member] = {}
    groups: dict[str, list[Message]] = {}
    for date in sorted(days):
        for group, rows in take(days, date, dict, f"{file}, dialogues").items():
            where = f"{file}, {date}, {group!r}"
            if rows is None:
                continue
            if not isinstance(rows, list):
                raise DataError(f"{where}: is {describe(rows)} where a list of messages or null is expected")
            for number, row in enumerate(rows, 1):
                message = _message(row, f"{date}/{group}", members, f"{where}, message {number}")
                groups.setdefault(group, []).append(message)
    sessions = tuple(Session(group, tuple(said), said[0].id[:10], group) for group, said in groups.items())
    known = {message.id for said in groups.values() for message in said}
    questions = _questions(folder / f"qa_{folder.name}.json", known)
    return Network(folder.name, Roster(tuple(members.values())), sessions, questions, BENCHMARK, source=str(file))


def _message(row: Any, place: str, members: dict[str, Member], where: str) -> Message:
    label = take(row, "speaker", str, where).strip()
    if not label:
        raise DataError(f"{where}: field 'speaker' is empty; name the speaker")
    time = take(row, "time", str, where)
    instant, assumed = read_instant(time, f"{where}, field 'time'")
    speaker = fold(label)
    members.setdefault(speaker, Member(speaker, label))
    index = take(row, "message_index", int, where)
    return Message(f"{place}/{index}", speaker, clean(take(row, "dialogue", str, where)), time, instant, assumed)


def _questions(file: Path, known: set[str]) -> tuple[Question, ...]:
    rows = take(read_json(file), "qars", list, str(file))
    return tuple(_question(row, known, f"{file}, question {number}") for number, row in enumerate(rows, 1))


def kind_of(question_id: str, where: str) -> str:
    """The behaviour that a question's id prefix stands for."""
    for prefix, kind in KINDS.items():
        if question_id.startswith(prefix):
            return kind
    raise DataError(f"{where}: field 'id' is {question_id!r}; it must begin with one of {', '.join(KINDS)}")


def _question(row: Any, known: set[str], where: str) -> Question:
    question_id = take(row, "id", str, where)
    answer = clean(take(row, "A", str, where))
    options: tuple[tuple[str, str], ...] = ()
    letter = ""
    if row.get("options") is not None:
        choices = take(row, "options", dict, where)
        options = tuple((one, clean(take(choices, one, str, f"{where}, options"))) for one in sorted(choices))
        letter = answer
        if letter not in choices:
            raise DataError(f"{where}: field 'A' is {letter!r}, not one of {', '.join(sorted(choices)) or 'no options'}")
        answer = dict(options)[letter]
    evidence, loose = _evidence(take(row, "R", list, where), known)
    return Question(
        id=question_id,
        text=clean(take(row, "Q", str, where)),
        answer=answer,
        kind=kind_of(question_id, where),
        format="multiple_choice" if options else "short_answer",
        options=options,
        correct_option=letter,
        evidence=evidence,
        extra=tuple(("unresolved_evidence", one) for one in loose),
    )


def _evidence(references: list[Any], known: set[str]) -> tuple[tuple[str, ...], list[str]]:
    """(message ids, references that name no message as they stand)."""
    found: list[str] = []
    loose: list[str] = []
    for one in references:
        parts = [one.get(key) for key in ("date", "group", "message_index")] if isinstance(one, dict) else [one]
        name = "/".join(map(str, parts))
        (found if name in known else loose).append(name)
    return tuple(dict.fromkeys(found)), loose
