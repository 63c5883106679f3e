from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from tests.writer_rl.builders import key, make_policy, make_samples, parameters
from writer_rl import checkpoint
from writer_rl.checkpoint import CheckpointError, keep_last, latest, load, restore_trainer, save, verify
from writer_rl.optimizer import build_optimizer, build_scheduler
from writer_rl.policy import Policy, reference_of
from writer_rl.selection import best, within_reach
from writer_rl.update import UpdateConfig, update

LENGTHS = [(9, 5), (3, 11), (20, 2), (4, 7)]
ADVANTAGES = {key(g): value for g, value in enumerate([1.0, -1.0, 0.5, -0.5])}


class Run:
    def __init__(self, policy: Policy, reference: torch.nn.Module) -> None:
        self.policy, self.reference = policy, reference
        self.optimizer = build_optimizer(policy.model, 1e-4, weight_decay=0.01)
        self.scheduler = build_scheduler(self.optimizer, "linear", steps=50, warmup_steps=3)

    def rounds(self, seeds: range) -> list[float]:
        """Train one round a seed; the losses."""
        losses = []
        for seed in seeds:
            parts = (self.optimizer, self.scheduler, Accelerator(), UpdateConfig(kl_gate=1e9))
            stats = update(self.policy, self.reference, make_samples(LENGTHS, seed), ADVANTAGES, *parts)
            losses += [epoch.loss for epoch in stats.epochs]
        return losses


def test_four_rounds_equal_two_rounds_saved_and_resumed_for_two(tmp_path):
    straight = Run(make_policy(), reference_of(make_policy()))
    losses = straight.rounds(range(4))
    first = Run(make_policy(), reference_of(make_policy()))
    first.rounds(range(2))
    save(tmp_path / "round-2", first.policy, first.optimizer, first.scheduler, {"round": 2})
    found = load(tmp_path / "round-2")
    second = Run(found.policy, reference_of(make_policy()))
    restore_trainer(tmp_path / "round-2", second.optimizer, second.scheduler)
    assert found.state == {"round": 2}
    assert second.rounds(range(2, 4)) == losses[4:]
    ours, theirs = parameters(second.policy), parameters(straight.policy)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert second.scheduler.state_dict() == straight.scheduler.state_dict()


def test_moments_and_step_counts_come_back_bit_for_bit(tmp_path):
    run = Run(make_policy(), reference_of(make_policy()))
    run.rounds(range(2))
    save(tmp_path / "round-2", run.policy, run.optimizer, run.scheduler)
    other = Run(load(tmp_path / "round-2").policy, run.reference)
    restore_trainer(tmp_path / "round-2", other.optimizer, other.scheduler)
    ours, theirs = run.optimizer.state_dict(), other.optimizer.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    for index, named in ours["state"].items():
        assert named.keys() == {"step", "exp_avg", "exp_avg_sq"}
        for name, tensor in named.items():
            assert torch.equal(tensor, theirs["state"][index][name]) and tensor.dtype == theirs["state"][index][name].dtype


@pytest.mark.parametrize("tied", [True, False])
def test_a_checkpoint_reloads_to_equal_logits_and_a_tied_head_is_stored_once(tmp_path, tied):
    policy = make_policy(tied=tied)
    save(tmp_path / "epoch-1", policy)
    stored = load_file(tmp_path / "epoch-1" / "model.safetensors")
    assert ("lm_head.weight" in stored) is not tied
    again = load(tmp_path / "epoch-1").policy
    ids = torch.arange(3, 30)[None]
    assert torch.equal(again.model(input_ids=ids).logits, policy.model(input_ids=ids).logits)
    assert again.tokenizer.chat_template == policy.tokenizer.chat_template and again.turn_end_id == policy.turn_end_id
    assert (again.model.lm_head.weight is again.model.model.embed_tokens.weight) is tied


def test_no_file_of_a_checkpoint_is_a_pickle(tmp_path):
    run = Run(make_policy(), reference_of(make_policy()))
    run.rounds(range(1))
    save(tmp_path / "round-1", run.policy, run.optimizer, run.scheduler, {"round": 1})
    kinds = {path.suffix for path in (tmp_path / "round-1").rglob("*") if path.is_file()}
    assert kinds <= {".json", ".safetensors", ".jinja", ".md", ".txt"}


def test_random_states_come_back(tmp_path):
    run = Run(make_policy(), reference_of(make_policy()))
    save(tmp_path / "round-0", run.policy, run.optimizer, run.scheduler)
    drawn = (torch.rand(3).tolist(), random.random(), np.random.rand(3).tolist())
    restore_trainer(tmp_path / "round-0", run.optimizer, run.scheduler)
    assert (torch.rand(3).tolist(), random.random(), np.random.rand(3).tolist()) == drawn


@pytest.mark.parametrize("name", ["model.safetensors", "trainer/optimizer.safetensors", "trainer/state.json", "config.json"])
@pytest.mark.parametrize("damage", ["torn", "flipped", "gone"])
def test_a_damaged_file_is_found_and_named(tmp_path, name, damage):
    run = Run(make_policy(), reference_of(make_policy()))
    run.rounds(range(1))
    save(tmp_path / "round-1", run.policy, run.optimizer, run.scheduler, {"round": 1})
    path = tmp_path / "round-1" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(content[:-3] if damage == "torn" else content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=name):
        load(tmp_path / "round-1")


def test_latest_goes_by_number_and_passes_over_damage_with_a_warning(tmp_path):
    assert latest(tmp_path) is None
    for number in (2, 9, 10):
        save(tmp_path / f"round-{number}", make_policy())
    save(tmp_path / "best", make_policy())
    assert latest(tmp_path) == tmp_path / "round-10"
    (tmp_path / "round-10" / "model.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match="round-10"):
        assert latest(tmp_path) == tmp_path / "round-9"
    (tmp_path / "round-9" / "manifest.json").write_text("{")
    with pytest.warns(UserWarning, match=r"round-(10|9)") as caught:
        assert latest(tmp_path) == tmp_path / "round-2"
    assert len(caught) == 2


def test_a_save_that_fails_leaves_the_old_checkpoint_and_no_rubbish(tmp_path, monkeypatch):
    save(tmp_path / "round-1", make_policy(), state={"attempt": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_sync", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path / "round-1", make_policy(seed=1), state={"attempt": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["round-1"]
    assert load(tmp_path / "round-1").state == {"attempt": 1}


def test_what_a_killed_save_left_is_neither_found_nor_in_the_way(tmp_path):
    save(tmp_path / "round-1", make_policy())
    shutil.copytree(tmp_path / "round-1", tmp_path / ".round-2.tmp")
    assert latest(tmp_path) == tmp_path / "round-1"
    save(tmp_path / "round-2", make_policy())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-1", "round-2"]


def test_a_checkpoint_of_the_same_name_is_replaced_whole(tmp_path):
    save(tmp_path / "round-1", make_policy(), state={"attempt": 1})
    (tmp_path / "round-1" / "stray.txt").write_text("from before")
    save(tmp_path / "round-1", make_policy(), state={"attempt": 2})
    assert load(tmp_path / "round-1").state == {"attempt": 2}
    assert not (tmp_path / "round-1" / "stray.txt").exists()


def test_the_last_k_are_kept_and_the_spared_one(tmp_path):
    for number in range(1, 6):
        save(tmp_path / f"round-{number}", make_policy())
    keep_last(tmp_path, "round-5", 2, spare={"round-1"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-1", "round-4", "round-5"]


def test_what_a_run_goes_on_from_is_kept_where_a_later_one_is_damaged(tmp_path):
    for number in range(1, 5):
        save(tmp_path / f"round-{number}", make_policy())
    (tmp_path / "round-4" / "model.safetensors").write_bytes(b"torn")
    table = [{"checkpoint": f"round-{number}", "accuracy": number / 4} for number in (2, 4, 1)]
    assert best(within_reach(table, tmp_path, "accuracy"), "accuracy") == "round-2"
    assert within_reach(table[1:2], tmp_path, "accuracy") == []
    keep_last(tmp_path, "round-3", 1, spare={"round-2"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-2", "round-3", "round-4"]
    with pytest.warns(UserWarning, match="round-4"):
        assert latest(tmp_path) == tmp_path / "round-3"


def test_resuming_without_an_optimizer_or_with_another_model_s_is_an_error(tmp_path):
    run = Run(make_policy(), reference_of(make_policy()))
    run.rounds(range(1))
    save(tmp_path / "epoch-1", run.policy)
    with pytest.raises(CheckpointError, match="without its optimizer"):
        restore_trainer(tmp_path / "epoch-1", run.optimizer, run.scheduler)
    save(tmp_path / "round-1", run.policy, run.optimizer, run.scheduler)
    other = Run(make_policy(tied=False), run.reference)
    with pytest.raises(CheckpointError, match="another model"):
        restore_trainer(tmp_path / "round-1", other.optimizer, other.scheduler)


def test_a_folder_without_a_manifest_is_no_checkpoint(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"manifest\.json is missing"):
        verify(tmp_path)
