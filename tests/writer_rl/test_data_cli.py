"""`writer-rl data` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from data import socialmem
from tests.data.builders import nested, write
from tests.tiny import make_tokenizer
from writer_rl import data_cli
from writer_rl.data_cli import app

LINES = [
    {"speaker": "u1", "label": "Ana", "text": "My locker is belmo.", "id": "1", "time": "2026-01-05T10:00:00Z"},
    {
        "speaker": "u2",
        "label": "Bob",
        "text": "Chen told me the picnic is on Friday.",
        "id": "2",
        "time": "2026-01-05T10:01:00Z",
    },
    {"speaker": "u1", "label": "Ana", "text": "Nice — 北京!", "id": "3", "time": "2026-01-05T10:02:00Z"},
]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "240"})


def refused(result: Result) -> str:
    """A user's error: exit code 2, one line on stderr, no traceback."""
    assert result.exit_code == 2 and result.stderr.startswith("error: ") and result.stderr.count("\n") == 1, result.output
    return result.stderr


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    file = tmp_path / "chat.jsonl"
    file.write_text("\n".join([*(json.dumps(one) for one in LINES), "{broken", '{"text": "nobody"}']), encoding="utf-8")
    return file


def test_an_import_says_what_was_taken_and_what_set_aside(chat: Path, tmp_path: Path) -> None:
    made = invoke("import", "plain", chat, "--to", tmp_path / "out" / "net.json")
    assert made.exit_code == 0 and "3 messages of 5 entries imported, 2 quarantined" in made.stdout
    (network,) = socialmem.load(tmp_path / "out" / "net.json")
    assert [message.text for message in network.messages()] == [one["text"] for one in LINES]
    aside = [json.loads(line) for line in (tmp_path / "out" / "net.quarantine.jsonl").read_text("utf-8").splitlines()]
    assert [one["line"] for one in aside] == [4, 5] and all(one["reason"] for one in aside)
    for one in aside:
        assert one["reason"] in made.stdout


def test_a_clean_import_leaves_no_quarantine_of_an_earlier_one(chat: Path, tmp_path: Path) -> None:
    invoke("import", "auto", chat, "--to", tmp_path / "net.json")
    chat.write_text("\n".join(json.dumps(one) for one in LINES), encoding="utf-8")
    assert invoke("import", "auto", chat, "--to", tmp_path / "net.json").exit_code == 0
    assert not (tmp_path / "net.quarantine.jsonl").exists()


def test_several_networks_go_into_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / "in" / f"{name}.json", nested() | {"meta": {"network_id": name}})
    assert "name a folder" in refused(invoke("import", "socialmem", tmp_path / "in", "--to", tmp_path / "x.json"))
    assert invoke("import", "socialmem", tmp_path / "in", "--to", tmp_path / "out").exit_code == 0
    assert [network.id for network in socialmem.load(tmp_path / "out")] == ["a", "b"]


def test_an_id_that_would_leave_the_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.json", nested() | {"meta": {"network_id": "../evil"}})
    assert "cannot be the name of a file" in refused(
        invoke("import", "socialmem", tmp_path / "a.json", "--to", tmp_path / "out")
    )


def test_wrong_paths_and_formats_are_one_paragraph(chat: Path, tmp_path: Path) -> None:
    assert "use one of" in refused(invoke("import", "icq", chat, "--to", tmp_path / "x.json"))
    assert "no such file" in refused(invoke("import", "plain", tmp_path / "gone", "--to", tmp_path / "x.json"))
    assert "check the path" in refused(invoke("check", tmp_path / "gone"))
    assert "none of" in refused(invoke("fetch", "everything"))
    assert "no such folder" in refused(invoke("check", "own", "--tokenizer", tmp_path / "gone"))
    assert "no tokenizer" in refused(invoke("check", "own", "--tokenizer", tmp_path))
    assert ".png" in refused(invoke("stats", "own", "--to", tmp_path / "x.jpg"))
    (tmp_path / "empty.jsonl").write_text("nonsense\n")
    assert "no message" in refused(invoke("import", "plain", tmp_path / "empty.jsonl", "--to", tmp_path / "x.json"))


def test_the_bundled_networks_pass_the_check() -> None:
    made = invoke("check", "own")
    assert made.exit_code == 0 and "errors: 0" in made.stdout and "schema" in made.stdout


def test_faults_end_with_exit_code_1_in_words_and_as_json(tmp_path: Path) -> None:
    raw = nested()
    raw["qa_pairs"][1]["answer"] = " "
    file = write(tmp_path / "a.json", raw)
    made = invoke("check", file)
    assert made.exit_code == 1 and "no text or no answer" in made.stdout and "errors: 1" in made.stdout
    report = json.loads(invoke("check", file, "--json").stdout)
    assert report["failed"] and any(row["level"] == "error" and row["network"] == "grp_x" for row in report["rows"])


def test_data_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"sessions": ')
    made = invoke("check", tmp_path)
    assert made.exit_code == 1 and "not JSON" in made.stdout and not made.stderr


def test_leaks_and_quarantined_lines_are_shown(chat: Path) -> None:
    assert invoke("check", "own", "--heldout", "own").exit_code == 1
    made = invoke("check", chat, "--heldout", "own")
    assert made.exit_code == 0 and "quarantine" in made.stdout


def test_tokens_are_counted_with_the_writers_tokenizer(tmp_path: Path) -> None:
    make_tokenizer().save_pretrained(tmp_path)
    made = invoke("check", "own", "--tokenizer", tmp_path)
    assert made.exit_code == 0 and "tokens at most" in made.stdout
    assert invoke("check", "own", "--tokenizer", tmp_path, "--max-tokens", 5).exit_code == 1


def test_stats_are_a_table_json_and_a_picture(tmp_path: Path) -> None:
    made = invoke("stats", "own", "--to", tmp_path / "s.png")
    assert made.exit_code == 0 and "networks" in made.stdout
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(invoke("stats", "own", "--json").stdout)["networks"] == "5"


def test_fetch_is_handed_the_name_and_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[object] = []

    def fake(name: str, to: Path | None, say: object) -> Path:
        seen.extend([name, to])
        say("a licence")  # type: ignore[operator]
        return tmp_path

    monkeypatch.setattr(data_cli, "fetch_source", fake)
    made = invoke("fetch", "locomo", "--to", tmp_path)
    assert made.exit_code == 0 and "a licence" in made.stdout and seen == ["locomo", tmp_path]
