from __future__ import annotations

import math

import pytest
import torch

from writer_rl.loss import grpo_token_loss, k3, sample_means, surrogate, token_weights

LN2 = math.log(2)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("advantage", "rho", "objective", "slope"),
    [(1, 0.5, 0.5, 0.5), (1, 1.1, 1.1, 1.1), (1, 1.5, 1.2, 0), (-1, 0.5, -0.8, 0), (-1, 1.5, -1.5, -1.5)],
)
def test_the_clipped_objective_and_its_slope(advantage, rho, objective, slope):
    policy = f64([[math.log(rho)]]).requires_grad_()
    value = surrogate(policy, torch.zeros_like(policy), f64([advantage]), clip=0.2)
    value.sum().backward()
    assert value.item() == pytest.approx(objective, abs=1e-6)
    assert policy.grad.item() == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize(
    ("delta", "expected"),
    [(LN2, 0.3068528), (-LN2, 0.1931472), (0.1, 0.0051709), (0.2, 0.0214028), (-0.2, 0.0187308)],
)
def test_k3_values(delta, expected):
    assert k3(f64(0.0), f64(delta)).item() == pytest.approx(expected, abs=1e-6)


def test_k3_never_clamps_delta():
    assert k3(f64(0.0), f64(5.0)).item() == pytest.approx(142.41, abs=1e-2)


def test_k3_of_a_small_delta_keeps_its_digits_in_fp32():
    assert k3(torch.tensor(0.0), torch.tensor(1e-3)).item() == pytest.approx(5.0017e-7, rel=1e-3)


def test_rho_one_without_kl_gives_zero_loss_and_each_sample_weighs_the_same():
    mask = torch.tensor([[True, True, False, False], [True] * 4])
    policy = torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)
    fixed = policy.detach()
    losses = grpo_token_loss(policy, fixed, fixed, f64([1, -1]), mask, clip=0.2, beta=0.0)
    loss = (losses * token_weights(mask.sum(-1), 2)[:, None]).sum()
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert policy.grad[0].tolist() == pytest.approx([-1 / 4, -1 / 4, 0, 0], abs=1e-6)
    assert policy.grad[1].tolist() == pytest.approx([1 / 8] * 4, abs=1e-6)


def two_samples():
    rho = f64([[1.5, 0.9, 1, 1], [1, 1, 0.5, 1.5]])
    reference = f64([[0, 0.1, 0, 0], [0, 0, -0.2, 0.2]])
    mask = torch.tensor([[True, True, False, False], [True] * 4])
    return torch.zeros(2, 4, dtype=torch.float64), -rho.log(), reference, f64([1, -1]), mask


def test_the_loss_of_two_uneven_samples():
    policy, old, reference, advantages, mask = two_samples()
    means = sample_means(grpo_token_loss(policy, old, reference, advantages, mask, clip=0.2, beta=0.1), mask)
    assert means.tolist() == pytest.approx([-1.0497414541, 1.0760033378], abs=1e-9)
    assert means.mean().item() == pytest.approx(0.0131309418, abs=1e-9)


def test_the_kl_is_a_mean_over_samples_not_over_tokens():
    policy, _, reference, _, mask = two_samples()
    divergence = k3(policy, reference)
    assert sample_means(divergence, mask).mean().item() == pytest.approx(0.0063094184, abs=1e-9)
    assert divergence[mask].mean().item() == pytest.approx(0.0075507382, abs=1e-9)


def test_ranks_with_uneven_samples_sum_to_the_mean_over_all():
    """Rank 0 has losses [1, 2, 3], rank 1 has [6]: 3.0; the mean of rank means is 4.0."""
    shares = [(torch.tensor([1.0, 2, 3]), torch.tensor([4, 4, 4])), (torch.tensor([6.0]), torch.tensor([7]))]
    total = sum((loss * lengths * token_weights(lengths, 4)).sum().item() for loss, lengths in shares)
    assert total == pytest.approx(3.0, abs=1e-6)


@pytest.mark.parametrize("padding", [-200.0, -1e4, float("-inf")])
def test_padding_changes_no_gradient_and_makes_none_infinite(padding):
    mask = torch.tensor([[True, True, False]])
    grads = []
    for value in (0.0, padding):
        policy = torch.tensor([[-1.0, -2.0, value]], requires_grad=True)
        old = torch.tensor([[-1.1, -1.9, 0.0]])
        reference = torch.tensor([[-1.2, -2.1, -0.5]])
        losses = grpo_token_loss(policy, old, reference, torch.tensor([1.0]), mask, clip=0.2, beta=0.1)
        losses.sum().backward()
        assert torch.isfinite(losses).all() and losses[0, 2] == 0
        grads.append(policy.grad)
    assert torch.equal(grads[0], grads[1]) and torch.isfinite(grads[1]).all()
    assert grads[1][0, 2] == 0 and grads[1][0, 0] != 0
