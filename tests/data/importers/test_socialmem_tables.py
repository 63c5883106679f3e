"""SocialMemBench's four tables: two file forms, one result, the same as the nested form's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from data import socialmem
from data.importers import socialmem_tables
from data.importers.counts import PUBLISHED
from data.network import DataError, Network
from tests.data.importers.files import SOCIALMEM, put, table_rows


def as_jsonl(folder: Path, tables: dict[str, list[dict[str, Any]]]) -> Path:
    for name, rows in tables.items():
        put(folder / f"{name}.jsonl", rows)
    return folder


def as_parquet(folder: Path, tables: dict[str, list[dict[str, Any]]], pattern: str = "{}.parquet") -> Path:
    for name, rows in tables.items():
        file = folder / pattern.format(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return folder


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return socialmem_tables.load(as_jsonl(tmp_path, table_rows()))[0]


def test_turns_go_by_session_and_message_index(network: Network) -> None:
    assert [(session.id, len(session.messages)) for session in network.sessions] == [("grp_1_s01", 2), ("grp_1_s02", 1)]
    assert [message.text for message in network.messages()] == ["Tea?", "Not me <3", "Coffee again"]
    assert network.sessions[0].messages[1].reply_to == "grp_1_s01_t000"


def test_a_persona_who_never_speaks_is_on_the_roster(network: Network) -> None:
    assert set(network.roster.names) == {"Ann", "Ben", "Cy"}


def test_nested_json_strings_become_options_evidence_and_foil(network: Network) -> None:
    question = network.questions[0]
    assert question.options == (("A", "Ann"), ("B", "Ben")) and question.correct_option == "A"
    assert question.evidence == ("grp_1_s01_t000",)
    assert question.extra == (("contamination_foil", "Ben"), ("unresolved_evidence", "grp_9_s01_t000"))


def test_topics_reach_nobody(network: Network) -> None:
    assert "SECRET" not in repr(network)


@pytest.mark.parametrize("pattern", ["{}.parquet", "{}/train-00000-of-00001.parquet", "data/{}-00000-of-00001.parquet"])
def test_parquet_gives_what_jsonl_gives(tmp_path: Path, network: Network, pattern: str) -> None:
    assert socialmem_tables.load(as_parquet(tmp_path / "parquet", table_rows(), pattern)) == [network]


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("conversations", {"message": None}, ["conversations.jsonl, row", "message"]),
        ("conversations", {"message_index": "0"}, ["conversations.jsonl, row", "message_index"]),
        ("conversations", {"timestamp": "noon"}, ["'ts'", "noon"]),
        ("qa", {"evidence_anchors_json": "[1"}, ["qa.jsonl, row 1", "evidence_anchors_json"]),
        ("qa", {"evidence_anchors_json": "5"}, ["qa.jsonl, row 1", "evidence_anchors_json"]),
        ("qa", {"options_json": '["A"]'}, ["options"]),
        ("qa", {"correct_option": "Z"}, ["correct_option", "'Z'"]),
        ("qa", {"network_id": "grp_2"}, ["grp_2", "networks table"]),
    ],
)
def test_a_misfit_names_table_row_and_field(tmp_path: Path, table: str, change: dict[str, Any], words: list[str]) -> None:
    tables = table_rows()
    tables[table] = [row | change for row in tables[table]]
    with pytest.raises(DataError) as caught:
        socialmem_tables.load(as_jsonl(tmp_path, tables))
    assert all(word in str(caught.value) for word in words)


def test_a_missing_column_and_a_missing_table_are_named(tmp_path: Path) -> None:
    tables = table_rows()
    del tables["qa"][0]["query_type"]
    with pytest.raises(DataError, match=r"qa\.jsonl, row 1: field 'query_type'"):
        socialmem_tables.load(as_jsonl(tmp_path / "column", tables))
    del tables["personas"]
    with pytest.raises(DataError, match="personas"):
        socialmem_tables.load(as_jsonl(tmp_path / "table", tables))


def test_a_broken_parquet_file_is_a_data_error(tmp_path: Path) -> None:
    folder = as_parquet(tmp_path, table_rows())
    (folder / "qa.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"qa\.parquet"):
        socialmem_tables.load(folder)


@pytest.mark.skipif(not SOCIALMEM.is_dir(), reason=f"the ten real SocialMemBench networks are not at {SOCIALMEM}")
def test_the_ten_real_networks_are_the_same_in_both_forms(tmp_path: Path) -> None:
    tables: dict[str, list[dict[str, Any]]] = {"conversations": [], "qa": [], "networks": [], "personas": []}
    for file in sorted(SOCIALMEM.glob("*.json")):
        raw = json.loads(file.read_text(encoding="utf-8"))
        network_id = raw["meta"]["network_id"]
        tables["networks"].append({"network_id": network_id})
        tables["personas"] += [{"network_id": network_id, "persona_id": "p", "display_name": name} for name in raw["speakers"]]
        for session in raw["sessions"]:
            tables["conversations"] += [
                {
                    "network_id": network_id,
                    "session_id": session["session_id"],
                    "session_index": session["session_index"],
                    "session_date": session["ts"],
                    "turn_id": turn["turn"],
                    "speaker_persona_id": turn["speaker_id"],
                    "speaker_display_name": turn["speaker"],
                    "timestamp": turn["ts"],
                    "message": turn["content"],
                    "message_index": index,
                    "reply_to_turn_id": turn["reply_to"] or None,
                }
                for index, turn in enumerate(session["turns"])
            ]
        tables["qa"] += [
            {
                "qa_id": pair["id"],
                "network_id": network_id,
                "query_type": pair["category"],
                "question": pair["question"],
                "answer": pair["answer"],
                "answer_format": pair["answer_format"],
                "options_json": json.dumps(pair["options"]),
                "correct_option": pair["correct_option"],
                "evidence_anchors_json": json.dumps(pair["evidence_anchors"]),
                "contamination_foil": None,
            }
            for pair in raw["qa_pairs"]
        ]
    made = socialmem_tables.load(as_jsonl(tmp_path, tables))
    nested = socialmem.load(SOCIALMEM)
    assert len(made) == 10
    for one, other in zip(made, nested, strict=True):
        assert (one.id, one.sessions, one.questions) == (other.id, other.sessions, other.questions)
        assert set(one.roster.members) == set(other.roster.members)


def test_published_counts_add_up() -> None:
    totals = {"socialmem": 1031, "groupmem": 745, "evermem": 2400, "locomo": 1986}
    assert {name: sum(counts.kinds.values()) for name, counts in PUBLISHED.items()} == totals
