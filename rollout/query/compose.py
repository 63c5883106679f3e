"""Compose: both tracks side by side, owner, source, time and provenance kept (paper B.3 step 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from data.memory.records import Record
from data.network import GROUP
from rollout.query.evidence import Evidence, Line, Part, Row, Tense, one_line, quoted


def compose(
    messages: Sequence[Record], rows: Sequence[Row], tense: Tense, source: str | None, numbers: Mapping[str, int]
) -> Evidence:
    """System 1 messages (shown in network order) and System 2 rows -> the evidence.

    `numbers` maps verbatim ids to their message number in the network.
    """

    def order(record: Record) -> int:
        supports = [numbers[one] for one in record.from_ids if one in numbers]
        return numbers.get(record.entry_id, max(supports, default=record.turn_created))

    lines = [Line(Part.MESSAGE, None, record, order(record)) for record in sorted(messages, key=lambda r: r.turn_created)]
    text = ["MESSAGES (verbatim, in order)"]
    text += [_message(line.record) for line in lines] or ["(none)"]
    text += ["", f"MEMORY (rows by person and group; {_TENSE[tense]})"]
    if source is not None:
        text.append(f"restricted to what {one_line(source)} said, in rows where there is any")
    for row in rows:
        shown = _row_lines(row)
        label = "GROUP" if row.name == GROUP else f"PERSON {one_line(row.name)}"
        text.append(f"{label}:" if shown else f"{label}: (none)")
        for part, record, depth, note in shown:
            lines.append(Line(part, row.name, record, order(record), depth))
            text.append(f"  {note}{_message(record) if part is Part.FALLBACK else _record(record)}")
    return Evidence("\n".join(text), tuple(lines), tense, source)


_TENSE = {Tense.HEAD: "current state only", Tense.FULL: "full history, old to new"}


def _row_lines(row: Row) -> list[tuple[Part, Record, int, str]]:
    shown: list[tuple[Part, Record, int, str]] = []
    for part, chains in ((Part.OWN, row.chains), (Part.SAID, row.said)):
        for chain in chains:
            for index, record in enumerate(chain):
                shown.append((part, record, index, f"replaces {chain[index - 1].entry_id}: " if index else ""))
    if row.fallback is not None:
        shown.append((Part.FALLBACK, row.fallback, 0, "no record; own message: "))
    return shown


def _message(record: Record) -> str:
    time = f" {one_line(record.ts)}" if record.ts else ""
    return f"[{record.entry_id}{time}] {one_line(record.owner)}: {quoted(record.content)}"


def _record(record: Record) -> str:
    time = f" {one_line(record.ts)}" if record.ts else ""
    state = f", superseded by {record.superseded_by}" if record.superseded_by else ""
    support = f", from {' '.join(record.from_ids)}" if record.from_ids else ""
    about = f"about {one_line(record.owner)}, by {one_line(record.source)}, {record.utype.value}"
    return f"[{record.entry_id}{time}] {about}{state}{support}: {quoted(record.content)}"
