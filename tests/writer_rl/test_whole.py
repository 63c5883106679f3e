"""The whole job and the commands around it, on a tiny random model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data.catalog import load_networks
from data.memory.state import State
from data.segments import segments
from rollout.llm.client import run
from tests.tiny import make_model, make_tokenizer
from writer_rl.cli import app
from writer_rl.evaluation.rows import latest_rows
from writer_rl.selection import selected
from writer_rl.serving import named_writer
from writer_rl.whole import BASELINES, MEMORIES

SMALL = [
    "data.gym.train=2",
    "data.gym.dev=1",
    "data.gym.test=2",
    "data.gym.config={segments:[2,2],messages:[2,3],members:[2,3]}",
    "sft.epochs=1",
    "grpo.group_size=2",
    "grpo.rounds=1",
    "grpo.max_new_tokens=300",
    "eval.max_new_tokens=300",
    "precision=fp32",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run made by `writer-rl run`, and what the command printed."""
    folder = tmp_path_factory.mktemp("whole")
    make_model().save_pretrained(folder / "model")
    make_tokenizer().save_pretrained(folder / "model")
    overrides = [*SMALL, f"model.path={folder / 'model'}", f"checkpoints={folder / 'runs'}"]
    done = CliRunner().invoke(app, ["run", "tiny", *overrides])
    assert done.exit_code == 0, done.output
    return folder / "runs" / "tiny", done.output


def test_one_command_leaves_rows_a_summary_and_the_curves(finished: tuple[Path, str]) -> None:
    run_folder, printed = finished
    folder = run_folder / "eval" / "round-0001"
    rows = latest_rows(folder / "rows.jsonl")
    assert {row["writer"] for row in rows} == {*MEMORIES, *BASELINES}
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert summary["networks"] == 2
    assert summary["offline"] is True
    assert summary["teacher_acc"] > summary["empty_acc"]
    assert "| teacher | " in printed
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_of_that_run_is_one_page(finished: tuple[Path, str]) -> None:
    done = CliRunner().invoke(app, ["report", str(finished[0])])
    assert done.exit_code == 0, done.output
    assert "<html" in (finished[0] / "report.html").read_text("utf-8")


def test_a_checkpoint_serves_as_a_writer_with_its_training_prompt(finished: tuple[Path, str]) -> None:
    writer = named_writer(f"checkpoint:{selected(finished[0] / 'sft')}")
    network = next(network for network, _ in load_networks("own") if network.id == "own_noop_greeting")
    segment = segments(network)[0]
    first = run(writer.write(segment, State()))
    assert first == run(writer.write(segment, State()))  # greedy
    assert isinstance(first, str)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["validate", "nowhere"], "no recipe 'nowhere'"),
        (["run", "tiny", "grpo.round=2"], "did you mean `grpo.rounds`"),
        (["run", "tiny", "model.path=/no/such/folder"], "there is no such folder"),
        (["eval", "tiny", "--writers", "foo"], "foo"),
        (["report", "/no/such/run"], "no such folder"),
    ],
)
def test_a_users_error_is_one_paragraph_and_exit_code_2(command: list[str], said: str, tmp_path: Path) -> None:
    extra = [f"checkpoints={tmp_path}"] if command[0] == "run" else []
    done = CliRunner().invoke(app, [*command, *extra])
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert done.output.strip().count("\n") == 0
