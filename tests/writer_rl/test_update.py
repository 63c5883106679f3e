from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator

from tests.writer_rl.builders import dense_logprobs, key, make_policy, make_samples, parameters
from writer_rl.advantages import Sample
from writer_rl.dealing import _dummy
from writer_rl.loss import k3
from writer_rl.optimizer import build_optimizer, build_scheduler
from writer_rl.policy import Policy, reference_of
from writer_rl.stepper import Scorer
from writer_rl.update import UpdateConfig, update
from writer_rl.update_stats import Outcome, UpdateStats
from writer_rl.watch import TrainingStopped, Watch

LENGTHS = [(9, 5), (3, 11), (20, 2), (4, 7), (6, 6), (12, 3), (5, 9), (8, 4)]
CONFIG = UpdateConfig(micro_batch_tokens=10_000)
ADVANTAGES = {key(g): value for g, value in enumerate([1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, -1.5])}


class Run:
    """A policy with its reference, optimizer and scheduler; the reference may be moved away from the policy."""

    def __init__(self, policy: Policy | None = None, lr: float = 1e-4, reference_noise: float = 0.0) -> None:
        self.policy = policy or make_policy()
        self.reference = reference_of(self.policy)
        generator = torch.Generator().manual_seed(5)
        for parameter in self.reference.parameters():
            parameter.data += reference_noise * torch.randn(parameter.shape, generator=generator)
        self.optimizer = build_optimizer(self.policy.model, lr)
        self.scheduler = build_scheduler(self.optimizer, "linear", steps=100)
        self.accelerator = Accelerator()

    def __call__(self, samples: list[Sample], advantages=ADVANTAGES, config: UpdateConfig = CONFIG) -> UpdateStats:
        parts = (self.optimizer, self.scheduler, self.accelerator)
        return update(self.policy, self.reference, samples, advantages, *parts, config)


def captured_gradients(run: Run) -> list[dict[str, torch.Tensor]]:
    """The gradients, as they stand at each optimizer step from now on."""
    found: list[dict[str, torch.Tensor]] = []

    def keep(*_: object) -> None:
        found.append({name: p.grad.clone() for name, p in run.policy.model.named_parameters()})

    run.optimizer.register_step_pre_hook(keep)
    return found


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def plain_loss(policy: Policy, reference: torch.nn.Module, samples: list[Sample], beta: float = 0.1) -> torch.Tensor:
    """Epoch 1's loss from its definition: one sample at a time, dense, rho = 1."""
    total = torch.zeros(())
    for sample in samples:
        logps = dense_logprobs(policy.model, sample)
        fixed = dense_logprobs(reference, sample).detach()
        rho = torch.exp(logps - logps.detach())
        total = total + (beta * k3(logps, fixed) - rho * ADVANTAGES[sample.key]).mean()
    return total / len(samples)


@pytest.mark.parametrize("budget", [1, 40, 100, 10_000])  # 8 of one, uneven, uneven, one of 8
def test_the_gradient_does_not_depend_on_how_the_round_is_cut(budget):
    """And is that of the definition, unequal lengths and dropped samples included."""
    samples = make_samples(LENGTHS)
    kept = [sample for sample in samples if sample.key.g not in (1, 6)]
    advantages = {sample.key: ADVANTAGES[sample.key] for sample in kept}
    run = Run(reference_noise=1e-3)
    gradients = captured_gradients(run)
    plain = make_policy()
    loss = plain_loss(plain, run.reference, kept)
    loss.backward()
    config = replace(CONFIG, micro_batch_tokens=budget, max_grad_norm=1e9, kl_gate=1e9)
    stats = run(samples, advantages, config)
    assert (stats.kept, stats.dropped, stats.steps) == (6, 2, 2)
    assert stats.epochs[0].loss == pytest.approx(loss.item(), abs=1e-6)
    for name, parameter in plain.model.named_parameters():
        scale = max(1.0, parameter.grad.abs().max().item())
        assert (gradients[0][name] - parameter.grad).abs().max() < 2e-6 * scale, name


def test_dropped_samples_train_neither_through_the_advantage_nor_through_the_kl():
    samples = make_samples(LENGTHS)
    some = {sample.key: ADVANTAGES[sample.key] for sample in samples[:4]}
    whole, fewer = Run(reference_noise=1e-3), Run(reference_noise=1e-3)
    seen: list[int] = []
    whole.policy.model.model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    stats = whole(samples, some)
    assert stats.epochs == fewer(samples[:4], some).epochs
    assert equal(parameters(whole.policy), parameters(fewer.policy))
    assert seen == [4, 4]  # dropped samples are not even forwarded


def test_an_advantage_of_almost_nothing_leaves_the_sample_out():
    samples = make_samples(LENGTHS[:3])
    stats = Run()(samples, {key(0): 1.0, key(1): 1e-8, key(2): -1e-9})
    assert (stats.kept, stats.dropped) == (1, 2)


def test_kl_at_step_zero_is_nothing_because_the_reference_is_the_policy_itself():
    stats = Run()(make_samples(LENGTHS))
    assert stats.epochs[0].kl < 1e-6 and stats.epochs[1].kl > 0


def test_epoch_one_is_on_policy_and_epoch_two_is_measured_against_it():
    stats = Run(lr=3e-2)(make_samples(LENGTHS), config=replace(CONFIG, kl_gate=1e9))
    first, second = stats.epochs
    assert first.clip_low == first.clip_high == 0 and second.clip_low > 0 and second.clip_high > 0
    assert second.loss != first.loss


def test_no_kept_sample_is_no_step():
    run = Run()
    before = parameters(run.policy)
    stats = run(make_samples(LENGTHS), {})
    assert (stats.kept, stats.dropped, stats.steps, stats.epochs) == (0, 8, 0, ())
    assert equal(parameters(run.policy), before) and run.scheduler.last_epoch == 0


def test_the_gate_goes_by_the_mean_of_sample_means(monkeypatch):
    """Lengths 2 and 8 with token KL .05 and .01: .03, gated; the mean over tokens is .018 and would go on."""
    from writer_rl import update_stats

    def fixed(policy: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        return torch.where(torch.arange(len(policy))[:, None] == short, 0.05, 0.01).expand_as(policy).double()

    samples = make_samples([(5, 2), (5, 8)])
    short = 1  # longest first
    monkeypatch.setattr(update_stats, "k3", fixed)
    stats = Run()(samples, {key(0): 1.0, key(1): -1.0})
    assert stats.epochs[0].kl == pytest.approx(0.03, abs=1e-6)
    assert stats.gated and stats.steps == 0 and len(stats.epochs) == 1


def snapshot(run: Run) -> tuple[dict, dict, dict]:
    state = run.optimizer.state_dict()["state"]
    moments = {f"{i}.{name}": tensor.clone() for i, named in state.items() for name, tensor in named.items()}
    return parameters(run.policy), moments, copy.deepcopy(run.scheduler.state_dict())


@pytest.mark.parametrize("budget", [30, 10_000])
def test_a_gated_round_leaves_weights_moments_schedule_and_the_next_gradient_bit_identical(budget):
    rounds = [make_samples(LENGTHS, seed) for seed in (1, 2, 3)]
    gated, plain = Run(), Run()
    config = replace(CONFIG, micro_batch_tokens=budget, kl_gate=1e9)
    for run in (gated, plain):
        run(rounds[0], config=config)
    before = snapshot(gated)
    stats = gated(rounds[1], config=replace(config, kl_gate=-1.0))
    after = snapshot(gated)
    assert stats.gated and stats.steps == 0 and stats.epochs[0].outcome is Outcome.GATED
    assert equal(before[0], after[0]) and equal(before[1], after[1]) and before[2] == after[2]
    assert all(parameter.grad is None for parameter in gated.policy.model.parameters())
    gradients = [captured_gradients(run) for run in (gated, plain)]
    for run in (gated, plain):
        run(rounds[2], config=config)
    assert len(gradients[0]) == 2 and all(equal(left, right) for left, right in zip(*gradients, strict=True))
    assert equal(snapshot(gated)[0], snapshot(plain)[0]) and equal(snapshot(gated)[1], snapshot(plain)[1])


def test_a_gate_that_shuts_after_epoch_one_keeps_its_step_and_takes_no_other():
    samples = make_samples(LENGTHS)
    gated, single = Run(), Run()
    stats = gated(samples, config=replace(CONFIG, epochs=4, kl_gate=1e-12))
    single(samples, config=replace(CONFIG, epochs=1))
    assert [epoch.outcome for epoch in stats.epochs] == [Outcome.STEPPED, Outcome.GATED]
    assert stats.steps == 1 and stats.gated and gated.scheduler.last_epoch == 1
    assert equal(parameters(gated.policy), parameters(single.policy))


def test_the_largest_token_and_its_share_of_the_kl_are_reported():
    run = Run(reference_noise=1e-3)
    samples = make_samples(LENGTHS)
    deltas = [(dense_logprobs(run.reference, s) - dense_logprobs(run.policy.model, s)).detach().double() for s in samples]
    parts = [(d.abs().max().item(), (k3(-d, torch.zeros_like(d)) / len(d))[d.abs().argmax()].item()) for d in deltas]
    total = sum(k3(-d, torch.zeros_like(d)).mean().item() for d in deltas)
    first = run(samples, config=replace(CONFIG, micro_batch_tokens=40)).epochs[0]
    assert first.kl == pytest.approx(total / 8, rel=1e-3)
    assert first.max_delta == pytest.approx(max(parts)[0], rel=1e-3)
    assert first.max_delta_share == pytest.approx(max(parts)[1] / total, rel=1e-3)


def test_a_loss_that_is_not_finite_is_skipped_and_counted_and_leaves_no_trace():
    run = Run()
    run(make_samples(LENGTHS, 1))
    before = snapshot(run)
    stats = run(make_samples(LENGTHS, 2), ADVANTAGES | {key(3): float("inf")})
    after = snapshot(run)
    assert stats.nonfinite and stats.steps == 0 and [epoch.outcome for epoch in stats.epochs] == [Outcome.NONFINITE]
    assert equal(before[0], after[0]) and equal(before[1], after[1]) and before[2] == after[2]


def test_what_a_model_says_of_a_dummy_weighs_nothing_however_unlikely(monkeypatch):
    """A rank without a sample forwards a token of nobody's, and the ratio to its reference of 0 may overflow."""
    samples, plain, beside = make_samples(LENGTHS), Run(), Run()
    first = plain(samples)
    real = Scorer.forward
    monkeypatch.setattr("writer_rl.update.level", lambda batches, accelerator: [*batches, _dummy()])
    monkeypatch.setattr(Scorer, "forward", lambda self, batch: real(self, batch) - (0 if batch.indices else 200))
    assert beside(samples).epochs == first.epochs
    assert equal(parameters(beside.policy), parameters(plain.policy))


def test_a_gradient_that_is_not_finite_under_a_finite_loss_is_skipped():
    run = Run()
    run.policy.model.model.norm.weight.register_hook(lambda grad: grad * float("nan"))
    before = parameters(run.policy)
    stats = run(make_samples(LENGTHS))
    assert stats.nonfinite and stats.steps == 0 and equal(parameters(run.policy), before)


def test_the_gradient_is_capped_and_the_norm_is_that_before_the_cap():
    run = Run()
    gradients = captured_gradients(run)
    stats = run(make_samples(LENGTHS), config=replace(CONFIG, max_grad_norm=0.5))
    norm = torch.stack([grad.norm() for grad in gradients[0].values()]).norm().item()
    assert norm == pytest.approx(0.5, abs=1e-3) and stats.epochs[0].grad_norm > 0.5


def test_metrics_carry_the_names_that_trl_uses():
    names = Run()(make_samples(LENGTHS)).metrics().keys()
    assert {"loss", "kl", "grad_norm", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"} <= names
    assert {"kl_gate/gated", "kl_gate/max_delta_share", "epoch/1/kl", "epoch/2/kl", "update/kept_samples"} <= names


@pytest.mark.parametrize(("dtype", "moved"), [(torch.float32, 6e-5), (torch.bfloat16, 0.0)])
def test_sixty_small_steps_move_an_fp32_master_and_never_a_bf16_one(dtype, moved):
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(0.02)
    layer = layer.to(dtype)
    start = layer.weight.item()
    optimizer = build_optimizer(layer, lr=1e-6)
    for _ in range(60):
        layer.weight.grad = torch.ones_like(layer.weight)
        optimizer.step()
    assert start - layer.weight.item() == pytest.approx(moved, abs=1e-7)


def test_norms_and_biases_are_not_decayed_and_every_parameter_is_trained_once():
    model = make_policy().model
    decayed, spared = build_optimizer(model, lr=1e-6, weight_decay=0.01).param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.01, 0.0)
    names = {parameter: name for name, parameter in model.named_parameters()}
    plain = {names[parameter] for parameter in spared["params"]}
    assert plain == {name for name in names.values() if "norm" in name or name.endswith("bias")}
    assert len(decayed["params"]) + len(spared["params"]) == len(names)


def test_the_linear_schedule_warms_up_and_falls_to_zero():
    optimizer = build_optimizer(torch.nn.Linear(1, 1), lr=1.0)
    scheduler = build_scheduler(optimizer, "linear", steps=10, warmup_steps=2)
    rates = []
    for _ in range(11):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert rates[:3] == [0.5, 1.0, 1.0] and rates[6] == 0.5 and rates[10] == 0.0


def shut(outcome: Outcome, steps: int = 0) -> UpdateStats:
    done = Run(lr=0.0)(make_samples(LENGTHS[:2]), config=replace(CONFIG, epochs=1)).epochs[0]
    return UpdateStats(kept=2, dropped=0, epochs=(*[done] * steps, replace(done, outcome=outcome)))


def test_a_gate_that_stays_shut_warns_at_three_rounds_and_ends_the_run_at_five():
    watch, gated, warnings = Watch(), shut(Outcome.GATED), []
    for _ in range(4):
        watch = watch.after(gated)
        warnings.append(bool(watch.warning))
    assert warnings == [False, False, True, True]
    assert watch.after(shut(Outcome.GATED, steps=1)) == Watch()  # epoch 1 stepped: the gate was open
    assert watch.after(UpdateStats(kept=0, dropped=8)) == watch
    with pytest.raises(TrainingStopped, match="5 rounds in a row"):
        watch.after(gated)


def test_three_rounds_in_a_row_that_are_not_finite_end_the_run():
    watch = Watch().after(shut(Outcome.NONFINITE)).after(shut(Outcome.NONFINITE))
    assert watch.after(shut(Outcome.STEPPED)) == Watch()
    with pytest.raises(TrainingStopped, match="not finite"):
        watch.after(shut(Outcome.NONFINITE))
