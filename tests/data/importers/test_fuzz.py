"""Whatever a file holds, an importer gives networks and quarantine that add up, or says what is wrong: DataError."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data import socialmem
from data.importers import FORMATS, Imported
from data.importers.whatsapp_lines import trim
from data.network import DataError
from data.saved import save_network
from tests.data.importers.files import (
    SLACK_USERS,
    discord_export,
    discord_message,
    ever_message,
    evermem,
    group_message,
    group_question,
    groupmem,
    locomo_sample,
    put,
    slack_message,
    table_rows,
    zipped,
)

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(max_size=12) | st.sampled_from(["", " ", "GROUP", "Ann", "ann", "x: y", "\ud83d", "\0", "1714550400", "<@U1>"])
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
HEADERS = ["01.02.23, 10:00 - ", "[1/2/23, 9:00:00\u202fPM] ", "2023-02-30, 1:00 - ", "\u200e[13/2/23, 25:00:00] ", "", "  "]
LINES = ["Ann: hi", "Ben: \u200eimage omitted", "Ann added Ben", "\u200eAnn: x", 'A "b: c"', ": ", "Ann:"]
BODIES = TEXT | st.sampled_from(LINES)
ROW = {"speaker": "Ann", "text": "hi", "id": "1", "time": "2024-05-01", "label": "A", "bot": "x"}
CELLS = [b"Ann,hi", b'"a', b"Ann,\xff", b"Ann,\0", b'Ann,"x""y"']
NAMES = ["a.json", "a.jsonl", "a.csv", "a.txt", "a.zip"]


@st.composite
def changed(draw: st.DrawFn, base: Callable[[], dict[str, Any]]) -> Any:
    """A fitting row with a few fields replaced, removed or added; sometimes something else altogether."""
    if draw(st.integers(0, 9)) == 0:
        return draw(VALUE)
    row = base()
    for key in draw(st.lists(st.sampled_from(sorted(row)), max_size=3)):
        if draw(st.booleans()):
            row.pop(key, None)
        else:
            row[key] = draw(VALUE)
    return row


def check(made: Imported, entries: int, folder: Path) -> None:
    """Nothing is lost, no id twice, and every network can be saved and read back as it was."""
    assert made.read == entries == made.messages + len(made.quarantined)
    assert all(one.reason for one in made.quarantined)
    for number, network in enumerate(made.networks):
        save_network(network, folder / f"saved{number}.json")
        assert socialmem.load(folder / f"saved{number}.json") == [network]


def loaded(name: str, path: Path) -> Imported | None:
    try:
        return FORMATS[name](path)
    except DataError:
        return None


@FUZZ
@given(st.lists(changed(lambda: dict(ROW)), max_size=8))
def test_jsonl(rows: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = put(Path(folder) / "chat.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        made = FORMATS["plain"](path)
        check(made, len(rows), Path(folder))


@FUZZ
@given(st.lists(st.binary(max_size=20) | st.sampled_from(CELLS), max_size=8))
def test_csv_never_crashes_and_adds_up(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = put(Path(folder) / "chat.csv", b"speaker,text\n" + b"\n".join(lines))
        made = FORMATS["plain"](path)
        check(made, made.read, Path(folder))


@FUZZ
@given(st.lists(st.text(st.characters(exclude_characters='",\n\r\0', exclude_categories=["Cs"]), max_size=9), max_size=9))
def test_csv_without_quotes_is_one_record_a_line(cells: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = put(Path(folder) / "chat.csv", "speaker,text\n" + "".join(f"Ann,{cell}\n" for cell in cells))
        check(FORMATS["plain"](path), len(cells), Path(folder))


@FUZZ
@given(st.lists(st.tuples(st.sampled_from(HEADERS), BODIES), max_size=10))
def test_whatsapp_every_line_is_told_or_quarantined(lines: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = "\n".join(head + body for head, body in lines).encode(errors="surrogatepass")
        path = put(Path(folder) / "chat.txt", written)
        made = FORMATS["whatsapp"](path)
        check(made, made.read, Path(folder))
        begun = {one.line for one in made.quarantined}
        begun |= {int(message.id[1:]) for network in made.networks for message in network.messages()}
        assert len(begun) == made.read


@FUZZ
@given(
    st.lists(changed(lambda: slack_message("1714550400.1", "hi <@U2>", thread_ts="1")), max_size=6),
    changed(lambda: {"id": "U1", "name": "a"}),
)
def test_slack(rows: list[Any], user: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = {"users.json": json.dumps([*SLACK_USERS[1:], user]), "general/2024-05-01.json": json.dumps(rows)}
        check(FORMATS["slack"](zipped(Path(folder) / "e.zip", files)), len(rows), Path(folder))


@FUZZ
@given(st.lists(changed(lambda: discord_message(1)), max_size=6))
def test_discord(rows: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = put(Path(folder) / "e.json", json.dumps(discord_export(rows)))
        check(FORMATS["discord"](path), len(rows), Path(folder))


SAID = st.text(st.characters(categories=["L", "P", "S", "Zs"], exclude_characters="<\u200e"), min_size=1, max_size=15)


@FUZZ
@given(
    st.sampled_from(
        ["{d:02d}.02.23, 10:{m:02d} - ", "[2/{d}/23, 10:{m:02d}:00\u202fAM] ", "2023-02-{d:02d}, 10:{m:02d} a.m. - "]
    ),
    st.lists(
        st.tuples(st.sampled_from(["Ann", "Ben B.", "+49 170 1"]), st.lists(SAID, min_size=1, max_size=3)),
        min_size=1,
        max_size=8,
    ),
)
def test_whatsapp_gives_back_what_was_written(header: str, said: list[tuple[str, list[str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = [
            header.format(d=13 + number // 4, m=number) + f"{name}: " + "\n".join(parts)
            for number, (name, parts) in enumerate(said)
        ]
        made = FORMATS["whatsapp"](put(Path(folder) / "chat.txt", "\n".join(written) + "\n"))
        expected = [(name, trim("\n".join(parts))) for name, parts in said]
        found = [
            (network.roster.name(message.speaker), message.text) for network in made.networks for message in network.messages()
        ]
        assert found == [pair for pair in expected if pair[1]] and made.read == len(said)


@FUZZ
@given(st.binary(max_size=60), st.sampled_from(sorted(FORMATS)), st.sampled_from(NAMES))
def test_any_bytes_under_any_name_are_read_or_refused_in_words(content: bytes, name: str, file: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        loaded(name, put(Path(folder) / file, content))


@FUZZ
@given(changed(locomo_sample), changed(lambda: group_message(2)), changed(group_question), changed(lambda: ever_message(1)))
def test_benchmarks_load_or_say_what_is_wrong(sample: Any, message: Any, question: Any, said: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        loaded("locomo", put(root / "locomo10.json", json.dumps([sample])))
        put(root / "questions" / "Finance" / "temporal.jsonl", json.dumps(question))
        groupmem(root, {"a": [group_message(1)]}, {})
        file = next(root.rglob("synthetic_*.json"))
        put(file, json.dumps({"a": [group_message(1), message]}))
        loaded("groupmem", root)
        evermem(root, json.dumps({"dialogues": {"2025-01-09": {"g": [said]}}}), [])
        loaded("evermem", root)


@FUZZ
@given(st.data())
def test_tables_load_or_say_what_is_wrong(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in table_rows().items():
            drawn = [data.draw(changed(lambda row=row: dict(row))) for row in rows]
            put(Path(folder) / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in drawn))
        loaded("socialmem-tables", Path(folder))
