"""Choosing tokens from logits: temperature, top-p and one uniform number a row."""

from __future__ import annotations

import torch
from torch import Tensor

TOP = 128  # candidates looked at first; nearly every nucleus is smaller


def choose(logits: Tensor, temperature: Tensor, top_p: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Next tokens [B] and their raw log-probabilities [B] from fp32 logits [B, V].

    `temperature` [B] (0: greedy), `top_p` [B] and `uniform` [B] in [0, 1), float64. A row takes the first token at which
    the cumulative probability, most likely token first, passes `uniform` times the nucleus mass; the nucleus is the
    smallest set of most likely tokens that reaches `top_p`. So a row depends on its own numbers alone, never on
    its neighbours. The log-probabilities are those of the untempered, uncut distribution.
    """
    width = min(TOP, logits.shape[1])
    scaled = logits / torch.where(temperature > 0, temperature, 1.0).unsqueeze(1)  # [B, V]
    total = torch.logsumexp(scaled, dim=1, keepdim=True)  # [B, 1]
    top, ids = scaled.topk(width, dim=1)  # [B, width], descending
    mass = (top - total).double().exp().cumsum(dim=1)
    token = _pick(mass, ids, top_p, uniform)
    short = ((mass[:, -1] < top_p) & (temperature > 0)).nonzero().flatten()  # rows whose nucleus is wider
    if width < logits.shape[1] and len(short):
        top, ids = scaled[short].sort(dim=1, descending=True, stable=True)
        mass = (top - total[short]).double().exp().cumsum(dim=1)
        token[short] = _pick(mass, ids, top_p[short], uniform[short])
    token = torch.where(temperature > 0, token, logits.argmax(dim=1))
    raw = logits.gather(1, token.unsqueeze(1)).squeeze(1) - torch.logsumexp(logits, dim=1)
    return token, raw


def _pick(mass: Tensor, ids: Tensor, top_p: Tensor, uniform: Tensor) -> Tensor:
    """mass [B, C] cumulative in descending order, ids [B, C] -> token [B]."""
    last = (mass < top_p.unsqueeze(1)).sum(dim=1).clamp(max=mass.shape[1] - 1)  # [B], index of the nucleus' last token
    aim = uniform * mass.gather(1, last.unsqueeze(1)).squeeze(1)
    index = torch.minimum((mass <= aim.unsqueeze(1)).sum(dim=1), last)
    return ids.gather(1, index.unsqueeze(1)).squeeze(1)
