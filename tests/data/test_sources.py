"""Fetching: licence first, pinned or recorded commits, checksums; against stand-ins for the network."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from data import sources
from data.jsonfile import read_json
from data.network import DataError

CONTENT = b"[]"
SUM = hashlib.sha256(CONTENT).hexdigest()


class Hub:
    """A stand-in for huggingface_hub that serves one content for all files."""

    def __init__(self, folder: Path, content: bytes = CONTENT) -> None:
        self.file = folder / "served"
        self.file.write_bytes(content)
        self.asked: list[tuple[str, str, str]] = []

    def HfApi(self) -> Any:
        return SimpleNamespace(dataset_info=lambda repository, revision: SimpleNamespace(sha="c0ffee"))

    def hf_hub_download(self, repository: str, file: str, repo_type: str, revision: str) -> str:
        self.asked.append((repository, file, revision))
        return str(self.file)


@pytest.fixture
def loose_locomo(monkeypatch: pytest.MonkeyPatch) -> None:
    """LoCoMo with the checksum of CONTENT."""
    source = sources.SOURCES["locomo"]
    part = replace(source.parts[0], sha256={"data/locomo10.json": SUM})
    monkeypatch.setattr(sources, "SOURCES", MappingProxyType({**sources.SOURCES, "locomo": replace(source, parts=(part,))}))


@pytest.mark.usefixtures("loose_locomo")
def test_the_licence_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    told: list[str] = []

    def get(address: str) -> bytes:
        told.append(address)
        return CONTENT

    folder = sources.fetch("locomo", tmp_path, told.append, get=get)
    assert "CC BY-NC 4.0" in told[0] and "non-commercial" in told[0]
    assert told[1].startswith(
        "https://raw.githubusercontent.com/snap-research/locomo/3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376/"
    )
    assert (folder / "locomo10.json").read_bytes() == CONTENT
    record = read_json(folder / "fetched.json")
    assert record["sha256"] == {"data/locomo10.json": SUM} and "CC BY-NC" in record["licence"]


@pytest.mark.usefixtures("loose_locomo")
def test_a_file_that_is_there_is_not_fetched_again_and_a_changed_one_is(tmp_path: Path) -> None:
    asked: list[str] = []

    def get(address: str) -> bytes:
        asked.append(address)
        return CONTENT

    for _ in range(2):
        sources.fetch("locomo", tmp_path, lambda _: None, get=get)
    assert len(asked) == 1
    (tmp_path / "locomo10.json").write_bytes(b"changed")
    sources.fetch("locomo", tmp_path, lambda _: None, get=get)
    assert len(asked) == 2 and (tmp_path / "locomo10.json").read_bytes() == CONTENT


def test_other_bytes_than_the_pinned_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="SHA-256"):
        sources.fetch("locomo", tmp_path, lambda _: None, get=lambda _: b"other")
    assert not (tmp_path / "locomo10.json").exists()


@pytest.mark.parametrize("name", ["groupmem", "evermem"])
def test_an_unclear_licence_is_said_plainly(tmp_path: Path, name: str) -> None:
    told: list[str] = []
    hub = Hub(tmp_path)
    sources.fetch(name, tmp_path / name, told.append, hub, lambda _: CONTENT)
    assert "no licence is stated" in told[0] and "for yourself" in told[0]
    assert {revision for *_, revision in hub.asked} == {"c0ffee"}
    files = {str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*") if path.is_file()}
    expected = {
        "groupmem": {
            "questions/Finance/temporal.jsonl",
            "data/final/Finance/synthetic_domain_channels_rolevariants_Finance.json",
        },
        "evermem": {"01/dialogue.json", "05/qa_05.json"},
    }
    assert expected[name] < files and len(files) == {"groupmem": 29, "evermem": 11}[name]


def test_what_was_fetched_once_must_not_change_silently(tmp_path: Path) -> None:
    sources.fetch("evermem", tmp_path / "e", lambda _: None, Hub(tmp_path))
    (tmp_path / "e" / "01" / "dialogue.json").unlink()
    with pytest.raises(DataError, match="nothing was replaced"):
        sources.fetch("evermem", tmp_path / "e", lambda _: None, Hub(tmp_path, b"new"))


def test_no_connection_and_no_such_name_are_said_in_words(tmp_path: Path) -> None:
    def get(_: str) -> bytes:
        raise OSError("no route")

    with pytest.raises(DataError, match=r"could not be fetched.*no route"):
        sources.fetch("locomo", tmp_path, lambda _: None, get=get)
    with pytest.raises(DataError, match="none of socialmem, locomo, groupmem, evermem"):
        sources.fetch("other", tmp_path)
