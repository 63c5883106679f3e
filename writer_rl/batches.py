"""Micro-batches: samples of like length together, within a budget of tokens; masks by length, never by token id.

Shapes: S samples, L tokens of prompt and completion, K completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from data.network import DataError

PAD = 0  # any valid id will do: no mask and no loss looks at it


class Tokens(Protocol):
    """A prompt and the completion that follows it, as token ids."""

    @property
    def prompt_ids(self) -> Sequence[int]: ...

    @property
    def completion_ids(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class TokenPair:
    """The plainest `Tokens`."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """Right-padded rows [prompt | completion | padding]. `indices` says which samples of the caller's list these are."""

    indices: tuple[int, ...]
    input_ids: Tensor  # [S, L] int64
    targets: Tensor  # [S, K] int64, the completions
    prompt_lengths: Tensor  # [S] int64
    completion_lengths: Tensor  # [S] int64

    @cached_property
    def mask(self) -> Tensor:
        """True at completion tokens: [S, K]."""
        return torch.arange(self.targets.shape[1], device=self.targets.device) < self.completion_lengths[:, None]

    def to(self, device: torch.device) -> Batch:
        tensors = (self.input_ids, self.targets, self.prompt_lengths, self.completion_lengths)
        return Batch(self.indices, *(tensor.to(device) for tensor in tensors))


def batch_of(samples: Sequence[Tokens], indices: Sequence[int]) -> Batch:
    """The batch of samples[i] for i in `indices`, in that order. Raises DataError for an empty prompt or completion."""
    chosen = [samples[i] for i in indices]
    for i, sample in zip(indices, chosen, strict=True):
        if not sample.prompt_ids or not sample.completion_ids:
            empty = "completion" if sample.prompt_ids else "prompt"
            raise DataError(f"sample {i} has an empty {empty}; both need one token at least (the turn-end token is one)")
    rows = [[*sample.prompt_ids, *sample.completion_ids] for sample in chosen]
    return Batch(
        indices=tuple(indices),
        input_ids=_padded(rows),
        targets=_padded([list(sample.completion_ids) for sample in chosen]),
        prompt_lengths=torch.tensor([len(sample.prompt_ids) for sample in chosen]),
        completion_lengths=torch.tensor([len(sample.completion_ids) for sample in chosen]),
    )


def micro_batches(samples: Sequence[Tokens], max_tokens: int) -> list[Batch]:
    """All samples, longest first, cut so that a batch holds at most `max_tokens` tokens, padding included.

    A sample that is longer than the budget is a batch of its own. Longest first: if memory does not suffice, it
    fails at once. Equal lengths stay in the order of `samples`.
    """
    if max_tokens < 1:
        raise DataError(f"micro_batch_tokens is {max_tokens}; use a positive number of tokens")
    lengths = [len(sample.prompt_ids) + len(sample.completion_ids) for sample in samples]
    order = sorted(range(len(samples)), key=lambda i: -lengths[i])
    cuts: list[list[int]] = []
    for i in order:
        if cuts and (len(cuts[-1]) + 1) * lengths[cuts[-1][0]] <= max_tokens:
            cuts[-1].append(i)
        else:
            cuts.append([i])
    return [batch_of(samples, cut) for cut in cuts]


def _padded(rows: list[list[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
