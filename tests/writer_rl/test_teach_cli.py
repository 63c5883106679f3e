"""`writer-rl teach` as it is typed, and what a kill leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from data.catalog import load_networks
from data.network import Network
from data.saved import save_network
from data.segments import segments
from data.teacher import replay
from rollout.llm.provider import LOCAL_KEY
from tests.rollout.llm.server import ChatServer, Turn
from tests.tiny import make_network
from tests.writer_rl.teachers import answer, serve, variant
from writer_rl.teach_cli import teach

BARE = replace(make_network(), questions=())
COMMAND = "import typer; from writer_rl.teach_cli import teach; typer.run(teach)"


def save(root: Path, *networks: Network) -> Path:
    for network in networks:
        save_network(network, root / f"{network.id}.json")
    return root


def arguments(server: ChatServer, networks: Path, to: Path, *more: object) -> list[str]:
    fixed = (networks, "--model", "litellm:openai/tiny", "--api-base", server.base, "--to", to, "--embedder", "hash")
    return [str(one) for one in (*fixed, *more)]


def invoke(*given: str) -> Result:
    app = typer.Typer()
    app.command()(teach)
    return CliRunner().invoke(app, list(given), env={"COLUMNS": "200"})


def test_the_command_writes_what_recipes_read_and_shows_numbers_cost_and_page(tmp_path: Path) -> None:
    networks = save(tmp_path / "in", *(variant(BARE, f"net{n}", f"locker {n}") for n in range(3)))
    with serve(lambda body, n: answer(body)) as server:
        made = invoke(*arguments(server, networks, tmp_path / "to", "--questions", 6, "--concurrency", 2))
    assert made.exit_code == 0, made.output
    for words in (
        "3 taught, 0 kept, 0 unfinished",
        "9 calls, 0 from the cache, 90 tokens, $0.0000",
        "messages cited",
        "UPDATE",
    ):
        assert words in made.stdout
    pairs = load_networks(tmp_path / "to")
    assert len(pairs) == 3
    for network, teacher in pairs:
        assert teacher is not None and len(network.questions) == 6 and len(replay(teacher, segments(network))) == 2
    numbers = json.loads((tmp_path / "to" / "statistics.json").read_text("utf-8"))
    assert numbers["statistics"]["actions"] == {"ADD": 3, "UPDATE": 3, "NOOP": 0}
    assert [row["status"] for row in numbers["networks"]] == ["taught"] * 3
    assert {row["stage"]: row["attempts"] for row in numbers["use"]} == {"teach": 6, "questions": 3}
    assert "My locker is now tarvi." in (tmp_path / "to" / "review.html").read_text("utf-8")


def test_an_outage_is_told_in_words_with_exit_code_1_and_a_second_run_ends_it(tmp_path: Path) -> None:
    networks = save(tmp_path / "in", BARE)
    with serve(lambda body, n: Turn(status=400) if n == 1 else answer(body)) as server:
        made = invoke(*arguments(server, networks, tmp_path / "to"))
        assert made.exit_code == 1 and "tiny: unfinished at 1 of 2 segments (rejected)" in made.stdout
        assert "run the same command again" in made.stdout
        made = invoke(*arguments(server, networks, tmp_path / "to"))
        assert made.exit_code == 0 and "1 taught" in made.stdout
        made = invoke(*arguments(server, networks, tmp_path / "to"))
        assert made.exit_code == 0 and "1 kept" in made.stdout and "0 calls" in made.stdout
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("networks", "model", "more", "words"),
    [
        ("in", "gpt-4o", (), "write litellm:MODEL"),
        ("in", "litellm:", (), "write litellm:MODEL"),
        ("gone", "litellm:openai/x", (), "neither `own`"),
        ("in", "litellm:openai/x", ("--embedder", "huge"), "embedder 'huge' is not known"),
        ("in", "litellm:openai/no-such-model-here", ("--budget", "1"), "no price is known"),
    ],
)
def test_a_users_error_is_one_paragraph_and_exit_code_2(
    tmp_path: Path, networks: str, model: str, more: tuple[str, ...], words: str
) -> None:
    save(tmp_path / "in", BARE)
    last = more if "--embedder" in more else (*more, "--embedder", "hash")
    made = invoke(str(tmp_path / networks), "--model", model, "--to", str(tmp_path / "to"), *last)
    assert made.exit_code == 2 and words in made.stderr and made.stderr.count("\n") == 1, made.output


def test_a_key_is_shown_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCAL_KEY, "very-secret-value")
    body = {"error": {"message": "Incorrect API key provided: very-secret-value", "type": "invalid_request_error"}}
    with serve(lambda _, n: Turn(status=401, body=body)) as server:
        made = invoke(*arguments(server, save(tmp_path / "in", BARE), tmp_path / "to"))
    assert made.exit_code == 2 and server.keys == ["Bearer very-secret-value"]
    kept = [file.read_bytes() for file in (tmp_path / "to").rglob("*") if file.is_file()]
    assert "very-secret" not in made.output and not any(b"very-secret" in one for one in kept)


def test_a_killed_run_has_nothing_half_written_and_goes_on_without_paying_again(tmp_path: Path) -> None:
    networks = save(tmp_path / "in", *(variant(BARE, f"net{n}", f"locker {n}") for n in range(3)))
    to = tmp_path / "to"
    hanging = True

    def script(body: dict[str, object], number: int) -> Turn:
        return Turn(answer(body), hang=60.0 if hanging and number == 3 else 0.0)

    with serve(script) as server:
        child = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments(server, networks, to, "--concurrency", 1)],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while len(server.requests) < 4:
                assert child.poll() is None
                time.sleep(0.05)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert [file.name for file in (to / "teacher").iterdir()] == ["net0.json"]
        hanging = False
        made = invoke(*arguments(server, networks, to, "--concurrency", 1))
        assert made.exit_code == 0 and "2 taught, 1 kept, 0 unfinished" in made.stdout
        assert len(server.requests) == 4 + 3  # net1's second segment, whose call was cut, and both of net2
    assert all(teacher is not None and replay(teacher, segments(network)) for network, teacher in load_networks(to))
