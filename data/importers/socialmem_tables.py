"""SocialMemBench as it is published: four tables (parquet or JSONL) whose nested values are JSON strings.

Rows become the nested form, which `data.socialmem` reads: one loader, two forms. Topic labels are read past.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.importers.lines import decoded_lines
from data.jsonfile import describe, take
from data.network import DataError, Network
from data.socialmem import read_network

TABLES = ("networks", "personas", "conversations", "qa")
FOIL = "contamination_foil"
Row = tuple[str, dict[str, Any]]  # where it is, and its cells


def load(path: Path) -> list[Network]:
    """Networks in the order of their ids, from a folder with one file or one folder of files a table.

    Personas who never speak join the roster where the personas table gives persona_id and display_name. Evidence that
    cites no turn of the network is kept in `extra` as `unresolved_evidence`, the foil as `contamination_foil`.
    Errors (DataError with file, row, field): a missing table or column, a cell of another type, bad JSON in a cell.
    """
    tables = {name: list(_rows(path, name)) for name in TABLES}
    conversations, questions, personas = (_by_network(tables[name]) for name in ("conversations", "qa", "personas"))
    listed = _by_network(tables["networks"])
    strays = sorted((set(conversations) | set(questions)) - set(listed))
    if strays:
        raise DataError(f"{path}: network_id {strays[0]!r} is in conversations or qa and not in the networks table")
    return [
        _network(one, conversations.get(one, []), questions.get(one, []), personas.get(one, []), rows[0][0])
        for one, rows in sorted(listed.items())
    ]


def has_tables(path: Path) -> bool:
    """Whether a folder looks like the published tables."""
    return path.is_dir() and bool(_files(path, "conversations")) and bool(_files(path, "qa"))


def _files(path: Path, table: str) -> list[Path]:
    patterns = [f"{where}{ext}" for where in (table, f"{table}-*", f"{table}/*") for ext in (".parquet", ".jsonl")]
    return sorted(file for pattern in patterns for base in (path, path / "data") for file in base.glob(pattern))


def _rows(path: Path, table: str) -> Iterator[Row]:
    files = _files(path, table)
    if not files:
        raise DataError(f"{path}: no table {table}.parquet or {table}.jsonl; name the folder with {', '.join(TABLES)}")
    for file in files:
        yield from _parquet(file) if file.suffix == ".parquet" else _jsonl(file)


def _parquet(file: Path) -> Iterator[Row]:
    from pyarrow import ArrowException, parquet  # heavy; only this form needs it

    try:
        number = 0
        for batch in parquet.ParquetFile(file).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield f"{file}, row {number}", row
    except (ArrowException, OSError) as error:
        raise DataError(f"{file}: not a readable parquet file ({' '.join(str(error).split())}); fetch it again") from error


def _jsonl(file: Path) -> Iterator[Row]:
    with file.open("rb") as handle:
        for number, line in decoded_lines(handle):
            if line is not None and not line.strip():
                continue
            try:
                row = json.loads(line or "")
            except (ValueError, RecursionError) as error:
                raise DataError(f"{file}, row {number}: not JSON; write one object a line") from error
            if not isinstance(row, dict):
                raise DataError(f"{file}, row {number}: is {describe(row)} where an object is expected")
            yield f"{file}, row {number}", row


def _by_network(rows: list[Row]) -> dict[str, list[Row]]:
    made: dict[str, list[Row]] = {}
    for where, row in rows:
        made.setdefault(take(row, "network_id", str, where), []).append((where, row))
    return made


def _network(network_id: str, turns: list[Row], questions: list[Row], personas: list[Row], where: str) -> Network:
    sessions: dict[str, dict[str, Any]] = {}
    for here, row in sorted(turns, key=lambda pair: take(pair[1], "message_index", int, pair[0])):
        session_id = take(row, "session_id", str, here)
        made = sessions.setdefault(
            session_id,
            {
                "session_id": session_id,
                "session_index": take(row, "session_index", int, here),
                "ts": _text(row, "session_date", here),
                "turns": [],
            },
        )
        made["turns"].append(_turn(row, here))
    labels = [turn["speaker"] for _, row in turns for turn in [_turn(row, where)]]
    quiet = [row["display_name"] for _, row in personas if isinstance(row.get("display_name"), str)]
    known = {turn["turn"] for session in sessions.values() for turn in session["turns"]}
    pairs = [_question(row, known, here) for here, row in questions]
    nested = {
        "meta": {"network_id": network_id},
        "speakers": list(dict.fromkeys([*labels, *quiet])),
        "sessions": list(sessions.values()),
        "qa_pairs": [pair for pair, _ in pairs],
    }
    network = read_network(nested, where)
    extras = [extra for _, extra in pairs]
    return replace(
        network,
        questions=tuple(replace(one, extra=extra) for one, extra in zip(network.questions, extras, strict=True)),
    )


def _turn(row: dict[str, Any], where: str) -> dict[str, str]:
    return {
        "turn": take(row, "turn_id", str, where),
        "speaker": take(row, "speaker_display_name", str, where),
        "speaker_id": take(row, "speaker_persona_id", str, where),
        "content": take(row, "message", str, where),
        "ts": _text(row, "timestamp", where),
        "reply_to": _text(row, "reply_to_turn_id", where),
    }


def _question(row: dict[str, Any], known: set[str], where: str) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """(nested question, extras that a scorer needs)."""
    anchors = _json(row, "evidence_anchors_json", where) or []
    if not isinstance(anchors, list):
        raise DataError(f"{where}: field 'evidence_anchors_json' holds {describe(anchors)} where a list is expected")
    cited = [str(one.get("turn_id")) if isinstance(one, dict) else str(one) for one in anchors]
    foil = _text(row, FOIL, where)
    pair = {
        "id": take(row, "qa_id", str, where),
        "category": take(row, "query_type", str, where),
        "question": take(row, "question", str, where),
        "answer": take(row, "answer", str, where),
        "answer_format": take(row, "answer_format", str, where),
        "options": _json(row, "options_json", where) or {},
        "correct_option": _text(row, "correct_option", where),
        "evidence_anchors": [{"turn_id": one} for one in cited if one in known],
    }
    loose = tuple(("unresolved_evidence", one) for one in cited if one not in known)
    return pair, (*(((FOIL, foil),) if foil else ()), *loose)


def _text(row: dict[str, Any], key: str, where: str) -> str:
    """A text that may be null; a date or time of a parquet file in its ISO form."""
    value = row.get(key) if key in row else take(row, key, str, where)
    if value is None:
        return ""
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else take(row, key, str, where)


def _json(row: dict[str, Any], key: str, where: str) -> Any:
    """The value in a JSON string; null and "" hold nothing."""
    text = _text(row, key, where)
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: field {key!r} is not JSON ({error})") from error
