"""The GRPO objective, token by token (Eq. 25 to 27), and the weights that make the loss of an update a plain sum."""

from __future__ import annotations

import torch
from torch import Tensor


def k3(policy: Tensor, reference: Tensor) -> Tensor:
    """exp(d) - d - 1 with d = log pi_ref - log pi_theta (Eq. 27): per token, never negative, d never clamped.

    Any shape. expm1 keeps small d exact: exp(d) - 1 has lost its digits already.
    """
    delta = reference - policy
    return torch.expm1(delta) - delta


def surrogate(policy: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """min(rho A, clip(rho, 1 - eps, 1 + eps) A) with rho = pi_theta / pi_old (Eq. 25, 26). Shapes [S, K], [S, K], [S]."""
    rho = torch.exp(policy - old)
    scale = advantages[:, None]
    return torch.minimum(rho * scale, rho.clamp(1 - clip, 1 + clip) * scale)


def grpo_token_loss(
    policy: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor, clip: float, beta: float
) -> Tensor:
    """-(clipped surrogate) + beta * k3, and 0 outside `mask`. All [S, K], `advantages` [S]; log-probabilities in fp32.

    Padding is taken out before the first exp: a masked infinity has a zero loss but a NaN gradient.
    """
    policy, old, reference = (torch.where(mask, logp, 0.0) for logp in (policy, old, reference))
    losses = beta * k3(policy, reference) - surrogate(policy, old, advantages, clip)
    return torch.where(mask, losses, 0.0)


def sample_means(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over each sample's own tokens: [S, K] -> [S]. A sample has one token at least."""
    return torch.where(mask, values, 0.0).sum(-1) / mask.sum(-1)


def token_weights(lengths: Tensor, kept: int) -> Tensor:
    """1 / (N n_i): [S] -> [S], with `kept` = N over all ranks and micro-batches.

    Folded in before micro-batching, so that the loss of an update is the plain sum over tokens, micro-batches and
    ranks of weight * token loss, and no way of cutting it changes it.
    """
    return 1.0 / (kept * lengths.to(torch.float32))
