"""Every reward ablation trained and asked for real, on a tiny random model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import reward_ablations
from tests.tiny import make_model, make_tokenizer
from tests.writer_rl.test_whole import SMALL
from writer_rl.evaluation.reward_ablations import OVERRIDES
from writer_rl.recipe import load


def test_all_arms_start_from_one_sft_checkpoint_and_end_in_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model().save_pretrained(tmp_path / "model")
    make_tokenizer().save_pretrained(tmp_path / "model")
    small = [*SMALL, f"model.path={tmp_path / 'model'}", f"checkpoints={tmp_path / 'runs'}"]
    monkeypatch.setattr("sys.argv", ["reward_ablations", "--recipe", "tiny", "--out", str(tmp_path / "out"), *small])
    reward_ablations.main()
    found = json.loads((tmp_path / "out" / "reward_ablations.json").read_text("utf-8"))
    assert set(found["acc"]) == set(OVERRIDES)
    assert found["networks"] == 2
    page = (tmp_path / "out" / "reward_ablations.md").read_text("utf-8")
    assert all(f"\n| {name} | " in page for name in OVERRIDES)
    assert sorted(path.name for path in (tmp_path / "runs").glob("*/sft")) == ["sft"]  # trained once
    assert sorted(path.parent.name for path in (tmp_path / "runs").glob("*/grpo")) == sorted(
        load("tiny", [f"run=ablations-{name.lower().replace(' ', '-')}"]).run for name in OVERRIDES
    )
