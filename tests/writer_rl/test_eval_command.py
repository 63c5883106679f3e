"""`writer-rl eval` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data.network import DataError
from tests.tiny import make_model, make_tokenizer
from tests.writer_rl.evaluations import SMALL, small_recipe
from writer_rl import checkpoint
from writer_rl.cases import load_cases
from writer_rl.cli import app
from writer_rl.eval_cli import named
from writer_rl.evaluation.heldout import trained_networks
from writer_rl.policy import Policy, load_policy

ARGUMENTS = ["data.gym.test=2", "eval.max_new_tokens=32", "eval.seeds=2"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    make_model().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def trained(model: Path, to: Path) -> Path:
    """A checkpoint as training leaves it, of the small recipe."""
    policy = load_policy(model)
    assert isinstance(policy, Policy)
    checkpoint.save(to, policy, state={"epoch": 1, "recipe": small_recipe(to.parent).model_dump()})
    return to


def call(model: Path, folder: Path, writers: str, *more: str) -> tuple[int, str]:
    overrides = [*SMALL, *ARGUMENTS, f"model.path={model}", f"checkpoints={folder / 'runs'}"]
    result = CliRunner().invoke(app, ["eval", "tiny", *overrides, "--writers", writers, "--to", str(folder / "out"), *more])
    return result.exit_code, result.output


def test_writers_and_baselines_in_one_call_and_again(model: Path, tmp_path: Path) -> None:
    r1 = trained(model, tmp_path / "r1")
    writers = f"r1=checkpoint:{r1},oracle=teacher,none=empty,s1=s1,bm=bm25,full=full:5000,quiet=abstain"
    code, text = call(model, tmp_path, writers, "--reference", "oracle", "--ablations", "no-s2,no-person")
    assert code == 0, text
    assert "ASK on equals ASK off" in text and "Gap to oracle" in text and "**Offline**" in text
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    ablated = {f"{name} {what}" for name in ("r1", "oracle", "none") for what in ("w/o S2", "w/o S2-person")}
    assert set(found["systems"]) == {"r1", "oracle", "none", "s1", "bm", "full", "quiet"} | ablated
    assert len(found["systems"]["r1"]["correct"]) == 2 and len(found["systems"]["oracle"]["correct"]) == 1
    names = ("rows.jsonl", "writes.jsonl", "table.md", "results.json")
    first = [(tmp_path / "out" / name).read_bytes() for name in names]
    assert call(model, tmp_path, writers, "--reference", "oracle", "--ablations", "no-s2,no-person")[0] == 0
    assert [(tmp_path / "out" / name).read_bytes() for name in names] == first
    assert first[2].decode() in text


def test_a_writer_is_not_asked_about_its_training_networks_unless_they_are_named(model: Path, tmp_path: Path) -> None:
    r1 = trained(model, tmp_path / "r1")
    train = [case.network.id for case in load_cases(small_recipe(tmp_path).data, "train")]
    assert trained_networks(r1) == set(train) and trained_networks(model) == frozenset()
    code, text = call(model, tmp_path, f"r1=checkpoint:{r1}", "--networks", train[0])
    assert code == 0, text
    assert "| r1 (training networks) |" in text
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert all(row["trained_on"] for row in rows)


@pytest.mark.parametrize(
    ("writers", "more", "message"),
    [
        ("r1", (), "write name=spec,name=spec"),
        ("a=teacher,a=empty", (), "the name 'a' stands twice"),
        ("a=checkpoint", (), "write checkpoint:DIR, server:URL, litellm:MODEL, teacher or empty"),
        ("a=oracle", (), "or s1, bm25, dense, full"),
        ("a=teacher", ("--reference", "b"), "is none of the systems (a)"),
        ("a=teacher", ("--ask", "maybe"), "use off, on or both"),
        ("a=teacher", ("--ablations", "no-s3"), "use no-s1, no-s2, no-group, no-person"),
        ("a=teacher", ("--networks", "elsewhere"), "is on no side of the recipe's split"),
    ],
)
def test_mistakes_are_one_paragraph(model: Path, tmp_path: Path, writers: str, more: tuple[str, ...], message: str) -> None:
    code, text = call(model, tmp_path, writers, *more)
    assert code == 2
    assert message in " ".join(text.split())


def test_the_grid_stands_apart_from_the_other_tables(model: Path, tmp_path: Path) -> None:
    code, text = call(model, tmp_path, "oracle=teacher", "--grid")
    assert code == 0, text
    assert "## Top-k grid of oracle" in text and "oracle top-k" not in text
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert len(found["grid"]["oracle"]) == 9 and set(found["systems"]) == {"oracle"}
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"topk_curves_oracle.png", "topk_heatmap_oracle.png"}


def test_names_and_specs_are_told_apart_at_the_first_equals_sign() -> None:
    assert named("a=checkpoint:x=y, b=empty") == (("a", "checkpoint:x=y"), ("b", "empty"))
    with pytest.raises(DataError):
        named("a=")
