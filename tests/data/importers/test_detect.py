"""Which format a path is in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from data.importers import FORMATS, import_chat
from data.importers.detect import detect
from data.network import DataError
from tests.data.builders import nested
from tests.data.importers.files import (
    discord_export,
    discord_message,
    ever_message,
    evermem,
    group_message,
    group_question,
    groupmem,
    locomo_sample,
    put,
    slack_files,
    slack_message,
    table_rows,
    zipped,
)


@pytest.fixture
def places(tmp_path: Path) -> list[tuple[str, Path]]:
    """(format, path) of one example each, in every form."""
    day = {"general/2024-05-01.json": [slack_message("1714550400.1")]}
    for name, content in slack_files(day).items():
        put(tmp_path / "slack" / name, content)
    for table, rows in table_rows().items():
        put(tmp_path / "tables" / f"{table}.jsonl", rows)
    groupmem(tmp_path / "gm", {"a": [group_message(1)]}, {"temporal": [group_question()]})
    evermem(tmp_path / "em", {"2025-01-09": {"g": [ever_message(1)]}}, [])
    chat = "01.02.23, 10:00 - Ann: a\n"
    export = json.dumps(discord_export([discord_message(1)]))
    return [
        ("slack", tmp_path / "slack"),
        ("slack", zipped(tmp_path / "slack.zip", slack_files(day))),
        ("whatsapp", put(tmp_path / "chat.txt", chat)),
        ("whatsapp", zipped(tmp_path / "wa.zip", {"_chat.txt": chat})),
        ("discord", put(tmp_path / "discord" / "general.json", export)),
        ("discord", tmp_path / "discord"),
        ("discord", zipped(tmp_path / "dc.zip", {"general.json": export})),
        ("plain", put(tmp_path / "chat.csv", "speaker,text\nAnn,a\n")),
        ("plain", put(tmp_path / "chat.jsonl", [{"speaker": "Ann", "text": "a"}])),
        ("locomo", put(tmp_path / "lc" / "locomo10.json", [locomo_sample()])),
        ("locomo", tmp_path / "lc"),
        ("groupmem", tmp_path / "gm"),
        ("groupmem", next((tmp_path / "gm").rglob("synthetic_*.json"))),
        ("evermem", tmp_path / "em"),
        ("evermem", tmp_path / "em" / "01"),
        ("socialmem-tables", tmp_path / "tables"),
        ("socialmem", put(tmp_path / "nested" / "grp.json", nested())),
        ("socialmem", tmp_path / "nested"),
    ]


def test_every_example_is_recognised_and_can_be_imported(places: list[tuple[str, Path]]) -> None:
    for name, path in places:
        assert detect(path) == name, path
        made = import_chat(name, path)
        assert made.networks and made.read == made.messages > 0
    assert {name for name, _ in places} == set(FORMATS)


def test_what_is_nothing_of_this_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        detect(tmp_path / "none")
    with pytest.raises(DataError, match="not recognised"):
        detect(put(tmp_path / "a.bin", "x"))
    with pytest.raises(DataError, match="not recognised"):
        detect(zipped(tmp_path / "b.zip", {"a.png": b""}))
    with pytest.raises(DataError, match="use one of"):
        import_chat("msn", tmp_path)
