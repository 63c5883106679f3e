from __future__ import annotations

import json
import shutil

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from tests.writer_rl.builders import key, make_policy, make_samples, parameters
from writer_rl import checkpoint, entry, lora, recipe
from writer_rl.batches import batch_of
from writer_rl.examples import Example
from writer_rl.logprobs import completion_logprobs
from writer_rl.lora import AdapterReference, LoraError, in_place, merged, merged_weights
from writer_rl.optimizer import build_optimizer, build_scheduler
from writer_rl.policy import Policy, load_policy, with_adapter
from writer_rl.recipe import Recipe
from writer_rl.update import UpdateConfig, update
from writer_rl.validate import divergence

LENGTHS = [(9, 5), (3, 11), (20, 2), (4, 7)]
ADVANTAGES = {key(g): value for g, value in enumerate([1.0, -1.0, 0.5, -0.5])}


@pytest.fixture
def base(tmp_path):
    checkpoint.save(tmp_path / "base", make_policy())
    return tmp_path / "base"


def adapted(base, seed: int = 0, targets="all-linear") -> Policy:
    return with_adapter(load_policy(base), base, 4, 8, targets, seed)


def train(policy: Policy, reference: torch.nn.Module, seed: int = 0, lr: float = 1e-2):
    optimizer = build_optimizer(policy.model, lr)
    parts = (optimizer, build_scheduler(optimizer), Accelerator(), UpdateConfig(kl_gate=1e9))
    return update(policy, reference, make_samples(LENGTHS, seed), ADVANTAGES, *parts)


def logprobs(model) -> torch.Tensor:
    samples = make_samples(LENGTHS)
    with torch.no_grad():
        return completion_logprobs(model, batch_of(samples, range(len(samples))))


def test_a_fresh_adapter_changes_nothing_and_only_it_is_trained(base):
    plain, policy = load_policy(base), adapted(base)
    assert torch.equal(logprobs(plain.model), logprobs(policy.model))
    before = parameters(policy)
    assert train(policy, AdapterReference(policy, base)).steps == 2
    moved = {name for name, tensor in parameters(policy).items() if not torch.equal(tensor, before[name])}
    assert moved and all("lora_" in name for name in moved)


def test_the_first_factor_depends_on_the_seed_alone(base):
    torch.manual_seed(5)
    one = lora.adapter_tensors(adapted(base, seed=1).model)
    torch.manual_seed(6)
    same, other = (lora.adapter_tensors(adapted(base, seed=seed).model) for seed in (1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_a_checkpoint_holds_the_adapter_alone_and_says_which_base(base, tmp_path):
    policy = adapted(base)
    train(policy, AdapterReference(policy, base))
    checkpoint.save(tmp_path / "sft" / "epoch-1", policy)
    folder = tmp_path / "sft" / "epoch-1"
    assert not (folder / "model.safetensors").exists() and not (folder / "README.md").exists()
    assert all("lora_" in name for name in load_file(folder / "adapter_model.safetensors"))
    told = json.loads((folder / "base.json").read_text())
    assert (told["path"], told["relative"]) == (str(base.resolve()), "../../base")
    again = checkpoint.load(folder).policy
    assert torch.equal(logprobs(again.model), logprobs(policy.model)) and again.turn_end_id == policy.turn_end_id
    trained = {name for name, parameter in again.model.named_parameters() if parameter.requires_grad}
    assert trained and all("lora_" in name for name in trained)


def test_an_adapter_that_moved_with_its_base_finds_it_and_another_base_is_refused(base, tmp_path):
    policy = adapted(base)
    checkpoint.save(tmp_path / "sft" / "epoch-1", policy)
    shutil.copytree(tmp_path, tmp_path.parent / "moved")
    shutil.rmtree(base)
    assert lora.read_base(tmp_path.parent / "moved" / "sft" / "epoch-1").path == str(tmp_path.parent / "moved" / "base")
    with pytest.raises(LoraError, match="is not there"):
        load_policy(tmp_path / "sft" / "epoch-1")
    checkpoint.save(base, make_policy(seed=1))
    with pytest.raises(LoraError, match="is another model now"):
        load_policy(tmp_path / "sft" / "epoch-1")
    shutil.rmtree(tmp_path.parent / "moved")


def test_rl_after_sft_keeps_the_sft_policy_as_its_reference_and_never_the_base(base, tmp_path):
    """KL at step 0 is 0 against the SFT adapter, and is not against the base; resuming keeps the reference."""
    sft = adapted(base)
    train(sft, AdapterReference(sft, base))
    start = tmp_path / "epoch-1"
    checkpoint.save(start, sft)
    taught = logprobs(sft.model)
    policy = load_policy(start)
    reference = AdapterReference(policy, start)
    stats = train(policy, reference)
    assert stats.epochs[0].kl < 1e-9 and stats.epochs[1].kl > 1e-6
    with reference.in_place():
        assert torch.equal(logprobs(reference), taught)
    assert not torch.equal(logprobs(policy.model), taught)
    against_base = train(load_policy(start), load_policy(base).model)
    assert against_base.epochs[0].kl > 1e-4
    checkpoint.save(tmp_path / "round-1", policy)
    resumed = load_policy(tmp_path / "round-1")
    again = AdapterReference(resumed, start)
    with again.in_place():
        assert torch.equal(logprobs(again), taught)
    assert torch.equal(logprobs(resumed.model), logprobs(policy.model))


def test_the_divergence_before_the_first_step_is_measured_against_the_adapter_of_the_start(base):
    """Not against the policy's own model, which that adapter lies on."""
    policy = adapted(base)
    reference = AdapterReference(policy, base)
    example = Example((5, 6, 7), (8, 9, 2))
    assert divergence(policy, reference, [example]) == 0
    train(policy, reference)
    with in_place(reference):
        frozen = completion_logprobs(reference, batch_of([example], [0])).detach()
    delta = frozen - completion_logprobs(policy.model, batch_of([example], [0])).detach()
    expected = float((delta.exp() - delta - 1).mean())
    assert expected > 1e-4 and divergence(policy, reference, [example]) == pytest.approx(expected)


def test_a_reference_that_is_neither_the_base_nor_an_adapter_on_it_is_refused(base, tmp_path):
    policy = adapted(base)
    checkpoint.save(tmp_path / "other", make_policy(seed=1))
    with pytest.raises(LoraError, match="neither the base"):
        AdapterReference(policy, tmp_path / "other")
    checkpoint.save(tmp_path / "epoch-1", adapted(tmp_path / "other"))
    with pytest.raises(LoraError, match="another base"):
        AdapterReference(policy, tmp_path / "epoch-1")
    checkpoint.save(tmp_path / "wide", with_adapter(load_policy(base), base, 8, 8, "all-linear", 0))
    with pytest.raises(LoraError, match="another rank"):
        AdapterReference(policy, tmp_path / "wide")


def test_the_trained_adapter_comes_back_after_an_error_in_the_reference(base):
    policy = adapted(base)
    train(policy, AdapterReference(policy, base))
    before = parameters(policy)
    with pytest.raises(ZeroDivisionError), AdapterReference(policy, base).in_place():
        raise ZeroDivisionError
    assert all(torch.equal(tensor, before[name]) for name, tensor in parameters(policy).items())


def test_a_hundred_merges_leave_base_and_adapter_as_they_were(base):
    policy = adapted(base)
    train(policy, AdapterReference(policy, base))
    before, said = parameters(policy), logprobs(policy.model)
    first = dict(merged_weights(policy.model))
    for _ in range(99):
        last = dict(merged_weights(policy.model))
    assert all(torch.equal(first[name], last[name]) for name in first)
    assert all(torch.equal(tensor, before[name]) for name, tensor in parameters(policy).items())
    assert torch.equal(logprobs(policy.model), said)


def test_what_is_merged_says_what_the_adapter_says_under_the_names_of_the_plain_model(base, tmp_path):
    policy = adapted(base)
    train(policy, AdapterReference(policy, base))
    plain = merged(policy)
    assert torch.allclose(logprobs(plain.model), logprobs(policy.model), atol=1e-5)
    weights = dict(merged_weights(policy.model))
    assert weights.keys() == dict(load_policy(base).model.named_parameters()).keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in plain.model.named_parameters())
    checkpoint.save(tmp_path / "plain", plain)
    assert torch.equal(logprobs(load_policy(tmp_path / "plain").model), logprobs(plain.model))
    assert merged(plain) is plain


def test_an_adapter_on_a_tied_head_is_refused(base, tmp_path):
    for targets in (["lm_head"], ["q_proj", "embed_tokens"]):
        with pytest.raises(LoraError, match="share one weight"):
            adapted(base, targets=targets)
    with pytest.raises(LoraError, match="targets"):
        adapted(base, targets=["no_such_layer"])
    checkpoint.save(tmp_path / "untied", make_policy(tied=False))
    policy = adapted(tmp_path / "untied", targets=["lm_head"])
    assert train(policy, AdapterReference(policy, tmp_path / "untied")).steps == 2
    assert torch.allclose(logprobs(merged(policy).model), logprobs(policy.model), atol=1e-5)


def test_an_adapter_resumes_bit_for_bit(base, tmp_path):
    def round_of(policy, optimizer, seed):
        parts = (optimizer, build_scheduler(optimizer), Accelerator(), UpdateConfig(kl_gate=1e9))
        return update(policy, AdapterReference(policy, base), make_samples(LENGTHS, seed), ADVANTAGES, *parts)

    straight = adapted(base)
    optimizer = build_optimizer(straight.model, 1e-3)
    round_of(straight, optimizer, 0)
    checkpoint.save(tmp_path / "round-1", straight, optimizer, build_scheduler(optimizer))
    losses = round_of(straight, optimizer, 1).epochs
    resumed = load_policy(tmp_path / "round-1")
    optimizer = build_optimizer(resumed.model, 1e-3)
    checkpoint.restore_trainer(tmp_path / "round-1", optimizer, build_scheduler(optimizer))
    assert round_of(resumed, optimizer, 1).epochs == losses
    assert all(torch.equal(tensor, parameters(straight)[name]) for name, tensor in parameters(resumed).items())


def tiny(tmp_path, *overrides: str) -> Recipe:
    own = (f"checkpoints={tmp_path}", f"model.path={tmp_path / 'base'}", "precision=fp32", "data.gym.train=2")
    short = ("sft.epochs=1", "sft.lr=1e-2", "grpo.rounds=1", "grpo.group_size=3", "grpo.max_new_tokens=400")
    return recipe.load("tiny", [*own, *short, *overrides])


def rounds(run: Recipe) -> list[dict]:
    return [json.loads(line) for line in (run.folder / "metrics-grpo.jsonl").read_text().splitlines()]


def test_a_recipe_with_lora_trains_an_adapter_by_sft_and_further_by_grpo(base, tmp_path):
    run = tiny(tmp_path, "lora.r=4", "lora.alpha=8")
    entry.run("sft", run)
    entry.run("grpo", run.model_copy(update={"grpo": run.grpo.model_copy(update={"max_new_tokens": 16})}))
    sft, grpo = (run.folder / name for name in ("sft/epoch-01", "grpo/round-0001"))
    assert lora.read_base(sft) == lora.read_base(grpo) and lora.read_base(grpo).path == str(base.resolve())
    taught, learned = (load_file(folder / "adapter_model.safetensors") for folder in (sft, grpo))
    assert taught.keys() == learned.keys() and any(taught[name].any() for name in taught if "lora_B" in name)
    measured = [row for row in rounds(run) if "epoch/1/kl" in row]
    assert all(row["epoch/1/kl"] < 1e-6 for row in measured)  # the reference is the SFT adapter
    with pytest.raises(LoraError, match="the recipe has no `lora` section"):
        entry.run("grpo", tiny(tmp_path, "run=whole", f"grpo.init_from={sft}"))
    with pytest.raises(LoraError, match="r 4 and alpha 8"):
        entry.run("grpo", tiny(tmp_path, "run=other", f"grpo.init_from={sft}", "lora.r=2", "lora.alpha=8"))
    with pytest.raises(LoraError, match=r"lies on .*down_proj.*, the recipe's lora.targets are \['q_proj'\]"):
        entry.run("grpo", tiny(tmp_path, "run=other", f"grpo.init_from={sft}", "lora={r: 4, alpha: 8, targets: [q_proj]}"))
