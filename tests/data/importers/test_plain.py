"""JSONL and CSV tables of messages with a column map."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from data.importers import plain
from data.network import DataError, Member
from tests.data.importers.files import put, texts


def test_jsonl_and_csv_give_the_same_network(tmp_path: Path) -> None:
    rows = [
        {
            "id": "m1",
            "speaker": "u1",
            "label": "Ann",
            "text": "a, b",
            "time": "2024-05-01T10:00:00+02:00",
            "channel": "x",
            "bot": "no",
        },
        {
            "id": "m2",
            "speaker": "u2",
            "label": "CI",
            "text": 'say "hi"\nthere',
            "time": "1714550400",
            "channel": "x",
            "bot": "true",
        },
    ]
    header = ",".join(rows[0])
    lines = [",".join('"' + value.replace('"', '""') + '"' for value in row.values()) for row in rows]
    jsonl = plain.load(put(tmp_path / "chat.jsonl", rows)).networks
    csv = plain.load(put(tmp_path / "chat.csv", "\n".join([header, *lines]) + "\n")).networks
    assert jsonl == csv
    assert jsonl[0].roster.members == (Member("u1", "Ann"), Member("u2", "CI", True))
    assert [message.instant for message in jsonl[0].messages()] == [datetime(2024, 5, 1, 8, tzinfo=UTC)] * 2


def test_a_column_map_names_the_tables_columns(tmp_path: Path) -> None:
    columns = plain.Columns.from_map({"speaker": "von", "text": "was"})
    made = plain.load(put(tmp_path / "chat.tsv", "von\twas\nAnn\thallo\n"), columns)
    assert texts(made.networks[0]) == ["hallo"]
    with pytest.raises(DataError, match="'who' is no column of ours"):
        plain.Columns.from_map({"who": "von"})
    with pytest.raises(DataError, match="no column 'nein'"):
        plain.load(put(tmp_path / "chat.csv", "von,was\n"), plain.Columns(speaker="von", text="was", time="nein"))


def test_bad_rows_are_quarantined_with_line_and_reason(tmp_path: Path) -> None:
    content = (
        b'{"speaker": "Ann", "text": "ok"}\n{"speaker": "Ann"}\n\nnot json\n[1]\n{"speaker": "", "text": "x"}\n'
        b'{"speaker": "Ann", "text": {"a": 1}}\n\xff\n{"speaker": "Ann", "text": "t", "time": "noon"}\n'
        b'{"speaker": "Ann", "text": "\\ud83d"}\n{"speaker": "Ann", "text": "a", "id": "m1"}\n'
    )
    made = plain.load(put(tmp_path / "chat.jsonl", content))
    assert [(one.line, one.reason) for one in made.quarantined] == [
        (2, "no text"),
        (4, "not JSON"),
        (5, "not a JSON object"),
        (6, "no speaker"),
        (7, "text is neither a text nor a number"),
        (8, "not UTF-8 text"),
        (9, "time is neither ISO 8601 nor epoch seconds"),
        (10, "holds half a surrogate pair"),
        (11, "message id twice"),
    ]
    assert made.messages == 1 and made.read == 10


def test_csv_rows_of_another_width_and_bad_bytes_are_quarantined(tmp_path: Path) -> None:
    content = b"speaker,text\nAnn,a\nBen\nAnn,b,c\n\xff,x\nBen,d\n"
    made = plain.load(put(tmp_path / "chat.csv", content))
    assert texts(made.networks[0]) == ["a", "d"] and made.read == 5
    assert [(one.line, one.reason) for one in made.quarantined] == [
        (3, "1 fields where the header has 2"),
        (4, "3 fields where the header has 2"),
        (5, "not UTF-8 text"),
    ]


def test_a_quote_that_nobody_closes_costs_its_own_line_only(tmp_path: Path) -> None:
    rows = [
        "Ann,a",
        'Ann,"open',
        "Ben,b",
        'Ann,5" pipe',
        'Ben,"two',
        'lines"',
        'Ann,"again',
        *("Ben,x" for _ in range(99)),
        "Ann,z",
    ]
    made = plain.load(put(tmp_path / "chat.csv", "\n".join(["speaker,text", *rows])))
    kept = texts(made.networks[0])
    assert kept[:4] == ["a", "b", '5" pipe', "two\nlines"] and kept[-1] == "z" and len(kept) == 104
    assert [(one.line, one.reason) for one in made.quarantined] == [
        (3, "its quotes do not pair"),
        (8, "its quotes do not pair"),
    ]


def test_without_a_label_the_folded_name_is_the_identity(tmp_path: Path) -> None:
    rows = [{"speaker": name, "text": "x"} for name in ("Ben", "ben ", "BEN\n", "Bën", "Be\u0308n")]
    made = plain.load(put(tmp_path / "chat.jsonl", rows))
    assert made.networks[0].roster.names == ("Ben", "Bën")


def test_with_a_label_ids_are_exact_and_two_of_one_label_stay_two(tmp_path: Path) -> None:
    rows = [{"speaker": speaker, "label": "Ben", "text": "x"} for speaker in ("u1", "u2", "U1")]
    made = plain.load(put(tmp_path / "chat.jsonl", rows))
    assert made.networks[0].roster.names == ("Ben (u1)", "Ben (u2)")
    assert made.reasons() == {"speaker id differs from another's only in case or spaces": 1}


def test_a_named_session_that_returns_goes_on(tmp_path: Path) -> None:
    rows = [{"speaker": "Ann", "text": str(n), "session": name} for n, name in enumerate("ABA")]
    network = plain.load(put(tmp_path / "chat.jsonl", rows)).networks[0]
    assert [(one.id, [message.text for message in one.messages]) for one in network.sessions] == [
        ("A", ["0", "2"]),
        ("B", ["1"]),
    ]


def test_speakers_follow_each_message(tmp_path: Path) -> None:
    rows = [{"speaker": name, "text": "x"} for name in ("A", "B", "A")]
    network = plain.load(put(tmp_path / "chat.jsonl", rows)).networks[0]
    assert [network.roster.name(message.speaker) for message in network.messages()] == ["A", "B", "A"]


def test_names_that_would_stay_alike_are_replaced_by_ids(tmp_path: Path) -> None:
    rows = [{"speaker": one, "label": label, "text": "x"} for one, label in (("1", "Ann"), ("2", "Ann"), ("3", "Ann (1)"))]
    assert plain.load(put(tmp_path / "chat.jsonl", rows)).networks[0].roster.names == ("1", "2", "3")


def test_another_suffix_and_a_missing_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ends in"):
        plain.load(put(tmp_path / "chat.xml", "x"))
    with pytest.raises(DataError, match="cannot be read"):
        plain.load(tmp_path / "none.csv")
