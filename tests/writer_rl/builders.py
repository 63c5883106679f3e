"""Samples, and a policy over the tiny model, for the tests of the update."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from rollout.engines.base import RequestKey
from tests.tiny import make_model, make_tokenizer
from writer_rl.advantages import Sample
from writer_rl.policy import Policy

VOCAB = 400


def make_policy(*, tied: bool = True, seed: int = 0) -> Policy:
    return Policy(make_model(tied=tied, seed=seed), make_tokenizer())


def key(g: int, t: int = 0) -> RequestKey:
    return RequestKey(round=0, network="n", visit=0, g=g, t=t)


def make_samples(lengths: Sequence[tuple[int, int]], seed: int = 0) -> list[Sample]:
    """One sample a pair (prompt tokens, completion tokens), g counting up."""
    draw = random.Random(seed)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(3, VOCAB) for _ in range(count))

    return [
        Sample(key(g), ids(prompt), ids(completion), 0.0, (-1.0,) * completion)
        for g, (prompt, completion) in enumerate(lengths)
    ]


def parameters(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in policy.model.named_parameters()}


def dense_logprobs(model: torch.nn.Module, sample: Sample) -> torch.Tensor:
    """[K]: the plainest form, one sample, all logits, a full log-softmax."""
    ids = torch.tensor([[*sample.prompt_ids, *sample.completion_ids]])
    logits = model(input_ids=ids).logits[0].float().log_softmax(-1)
    start = len(sample.prompt_ids)
    return logits[start - 1 : -1].gather(-1, ids[0, start:, None])[:, 0]
