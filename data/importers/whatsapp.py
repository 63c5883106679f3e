"""WhatsApp chat exports: the .txt file, or the .zip that holds it (iOS and Android, many locales).

The file names nobody's id, so the folded label is the identity. Times have no zone; they are kept as written, read as
UTC and flagged. Two passes: the first finds the date order and who is a member at all, the second makes messages.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from data.importers.archive import open_archive
from data.importers.chat import ChatBuilder, finish
from data.importers.imported import Imported, Quarantined
from data.importers.lines import decoded_lines
from data.importers.whatsapp_lines import (
    NOTICE_MARK,
    DateOrder,
    Header,
    OrderEvidence,
    is_media,
    is_notice,
    read_header,
    split_speaker,
    trim,
)
from data.network import DataError, Message, fold

Lines = Iterator[tuple[int, str | None]]
NOTICE_REASON = "a notice of the app, not a message"


@dataclass
class Entry:
    """A header line (None: what precedes the first one, or is not text) and the lines that continue it."""

    line: int
    header: Header | None
    parts: list[str]
    broken: bool = False


@dataclass(frozen=True)
class Survey:
    """What the first pass finds: which lines open a message, how to read dates and why, and who is a member.

    The iOS app writes its group notices under the group's own name: a label whose every line is such is nobody's.
    """

    style: str
    order: DateOrder
    note: str
    members: frozenset[str]


def load(path: Path) -> Imported:
    """One network from a chat export. Errors (DataError): no readable file, no text file in a zip, or more than one.

    Media lines become "[media]" (with the caption that follows); notices are quarantined and never make a member.
    """
    with _chat(path) as lines:
        survey = _survey(lines)
    builder = ChatBuilder(f"whatsapp-{path.stem}", str(path))
    quarantined: list[Quarantined] = []
    read = 0
    with _chat(path) as lines:
        for entry in _entries(lines, survey.style):
            read += 1
            reason = _take(entry, survey, builder)
            if reason is not None:
                quarantined.append(Quarantined(entry.line, reason, path.name))
    return finish([builder], quarantined, read, [survey.note] if len(builder) else [])


@contextmanager
def _chat(path: Path) -> Iterator[Lines]:
    if not path.is_dir() and not zipfile.is_zipfile(path):
        try:
            with path.open("rb") as handle:
                yield decoded_lines(handle)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error
        return
    with open_archive(path) as archive:
        texts = [name for name in archive.names if name.lower().endswith(".txt") and not name.startswith("__MACOSX/")]
        chats = [name for name in texts if name.rpartition("/")[2] == "_chat.txt"] or texts
        if len(chats) != 1:
            found = "no .txt file" if not chats else f"{len(chats)} .txt files"
            raise DataError(f"{path}: holds {found} where one chat is expected; name the .txt file of one chat")
        with archive.open(chats[0]) as handle:
            yield decoded_lines(handle)


def _entries(lines: Lines, style: str) -> Iterator[Entry]:
    """Messages with their continuation lines. Blank lines before the first header are nothing."""
    current: Entry | None = None
    for number, line in lines:
        header = read_header(line) if line is not None else None
        if line is not None and current is not None and (header is None or header.style != style):
            current.parts.append(line)
            continue
        if current is not None:
            yield current
        current = None
        if line is None:
            yield Entry(number, None, [], broken=True)
        elif header is not None and header.style == style:
            current = Entry(number, header, [header.rest])
        elif line.strip():
            yield Entry(number, None, [line])
    if current is not None:
        yield current


def _survey(lines: Lines) -> Survey:
    """A file has one style of header: a line that looks like another style's is part of a message."""
    evidence: dict[str, OrderEvidence] = {}
    members: dict[str, set[str]] = {}
    for _, line in lines:
        header = read_header(line) if line is not None else None
        if header is None:
            continue
        evidence.setdefault(header.style, OrderEvidence()).add(header)
        said = split_speaker(header.rest)
        if said is not None and (not said[1].lstrip().startswith(NOTICE_MARK) or is_media(said[1])):
            members.setdefault(header.style, set()).add(fold(said[0]))
    if not evidence:
        return Survey("", DateOrder.DAY_FIRST, "", frozenset())
    style = max(evidence, key=lambda one: evidence[one].headers)
    order, note = evidence[style].decide()
    return Survey(style, order, note, frozenset(members.get(style, ())))


def _take(entry: Entry, survey: Survey, builder: ChatBuilder) -> str | None:
    """Make the entry a message; else say why not."""
    if entry.header is None:
        return "not UTF-8 text" if entry.broken else "text before the first message"
    said = split_speaker("\n".join(entry.parts))
    if said is None:
        return NOTICE_REASON
    label, text = said
    member = fold(label)
    if member not in survey.members or is_notice(text, label):
        return NOTICE_REASON
    time = entry.header.at(survey.order)
    if time is None:
        return f"no such date when read as {survey.order.words}"
    if is_media(text):
        caption = trim(text.partition("\n")[2])
        text = f"[media]\n{caption}" if caption else "[media]"
    text = trim(text)
    if not text:
        return "no text"
    builder.member(member, label)
    added = builder.add(Message(f"m{entry.line}", member, text, entry.header.time, time), day=time.date())
    return None if added else "message id twice"
