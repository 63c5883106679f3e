from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data import fetch
from data.catalog import load_networks
from data.network import DataError
from data.segments import segments
from data.teacher import replay
from tests.data.builders import NO_SOCIALMEM, SOCIALMEM, nested, write

UPDATING = {"own_update_alpha": (30, 6, 4), "own_update_beta": (35, 7, 3), "own_update_gamma": (40, 8, 3)}
SILENT = {"own_noop_greeting": (2, 1, 1), "own_noop_ack": (3, 1, 1)}
OWN = {network.id: (network, teacher) for network, teacher in load_networks("own")}


def test_the_own_networks_have_their_sizes() -> None:
    sizes = {one: (len(list(net.messages())), len(net.sessions), len(net.questions)) for one, (net, _) in OWN.items()}
    assert sizes == UPDATING | SILENT


@pytest.mark.parametrize("name", UPDATING)
def test_an_updating_network_updates_more_than_it_adds_in_long_chains_and_both_scopes(name: str) -> None:
    network, teacher = OWN[name]
    assert teacher is not None
    kinds = Counter(step.action for steps in teacher.segments for step in steps)
    assert kinds["UPDATE"] > kinds["ADD"]
    state = replay(teacher, segments(network))[-1]
    chains = [state.chain(head.entry_id) for head in state.heads()]
    assert sum(len(chain) >= 3 for chain in chains) >= 4
    assert any(record.source not in (record.owner, "GROUP") and record.owner != "GROUP" for record in state)
    assert {"GROUP", *network.roster.names} >= {record.owner for record in state} > {"GROUP"}
    assert {question.format for question in network.questions} == {"short_answer", "multiple_choice"}
    assert all(question.evidence for question in network.questions)


@pytest.mark.parametrize("name", SILENT)
def test_a_network_of_greetings_has_nothing_to_remember_and_nothing_to_answer(name: str) -> None:
    network, teacher = OWN[name]
    assert teacher is not None and len(replay(teacher, segments(network))[-1]) == 0
    [question] = network.questions
    assert question.abstain and question.answer == "not mentioned" and question.evidence == ()


def test_own_networks_say_that_they_are_ours_and_carry_no_topic_that_gives_answers_away() -> None:
    assert {network.benchmark for network, _ in OWN.values()} == {"own"}
    folder = Path(OWN["own_noop_ack"][0].source).parent
    assert not any('"topic"' in file.read_text(encoding="utf-8") for file in folder.glob("*.json"))


@pytest.mark.skipif(not (SOCIALMEM / "networks").is_dir(), reason=NO_SOCIALMEM)
def test_socialmem_networks_come_with_their_bundled_teachers_from_any_folder() -> None:
    pairs = load_networks("socialmem", SOCIALMEM / "networks")
    assert len(pairs) == 10 and all(teacher and teacher.network == network.id for network, teacher in pairs)
    assert [network.id for network, _ in pairs] == [network.id for network, _ in load_networks(SOCIALMEM)]


def test_missing_socialmem_networks_name_the_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match="writer-rl data fetch socialmem"):
        load_networks("socialmem")
    fetch.default_folder().mkdir(parents=True)
    with pytest.raises(DataError, match="writer-rl data fetch socialmem"):
        load_networks("socialmem")


def test_a_path_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'ownn' is neither `own`, `socialmem` nor a file or folder"):
        load_networks("ownn")


def test_a_folder_may_hold_networks_and_teachers_beside_them(tmp_path: Path) -> None:
    write(tmp_path / "networks" / "a.json", nested())
    assert [teacher for _, teacher in load_networks(tmp_path)] == [None]
    write(tmp_path / "teacher" / "grp_x.json", {"network_id": "grp_x", "segments": [{"actions": []}, {"actions": []}]})
    for place in (tmp_path, tmp_path / "networks", tmp_path / "networks" / "a.json"):
        [(network, teacher)] = load_networks(place)
        assert network.id == "grp_x" and teacher is not None and teacher.segments == ((), ())


class Hub:
    """A hub that serves the tables from memory, or fails."""

    def __init__(self, content: str = "rows", error: Exception | None = None) -> None:
        self.content, self.error, self.asked = content, error, list[tuple[str, str]]()

    def HfApi(self) -> Any:
        return SimpleNamespace(dataset_info=self._info)

    def _info(self, repository: str, revision: str) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(sha="c0ffee")

    def hf_hub_download(self, repository: str, name: str, *, repo_type: str, revision: str, local_dir: Path) -> str:
        self.asked.append((repository, revision))
        (local_dir / name).write_text(f"{self.content} {name}")
        return str(local_dir / name)


def test_fetching_writes_the_tables_and_a_record_of_where_they_are_from(tmp_path: Path) -> None:
    said: list[str] = []
    hub = Hub()
    record = fetch.fetch_socialmem(tmp_path / "to", said.append, hub)
    assert set(hub.asked) == {("anon4data/socialmembench", "c0ffee")}  # the commit, not a moving branch
    assert json.loads((tmp_path / "to" / fetch.FETCHED).read_text()) == record
    assert record["commit"] == "c0ffee" and list(record["sha256"]) == list(fetch.TABLES)
    assert record["sha256"]["qa.parquet"] == hashlib.sha256(b"rows qa.parquet").hexdigest()
    assert len(said) == 1 and "CC BY 4.0" in said[0]


def test_fetching_other_bytes_than_before_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    for content in ("rows", "rows", "other"):
        said.clear()
        fetch.fetch_socialmem(tmp_path, said.append, Hub(content))
        assert ("differ" in said[0]) == (content == "other")


def test_without_a_connection_the_error_is_one_paragraph_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="could not be fetched") as error:
        fetch.fetch_socialmem(tmp_path / "to", hub=Hub(error=ConnectionError("name\nnot resolved")))
    assert "\n" not in str(error.value) and "name not resolved" in str(error.value)
    assert not (tmp_path / "to").exists()
