"""Work dealt over ranks, and what came of it gathered (design section 7): trajectories for rollout and scoring, samples by
tokens for the update. In one process everything passes through as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from writer_rl.batches import PAD, Batch, TokenPair, Tokens, batch_of

T = TypeVar("T")
S = TypeVar("S", bound=Tokens)


def share(items: Sequence[T], accelerator: Accelerator) -> list[T]:
    """This rank's items: every n-th, so that the members of a group, which are equally long, spread evenly."""
    return list(items[accelerator.process_index :: accelerator.num_processes])


def gathered(mine: Sequence[T], accelerator: Accelerator) -> list[T]:
    """What all ranks made of their shares, in the order of the items that were dealt; the same on every rank."""
    if accelerator.num_processes == 1:
        return list(mine)
    placed = [(place * accelerator.num_processes + accelerator.process_index, item) for place, item in enumerate(mine)]
    return [item for _, item in sorted(gather_object(placed), key=lambda pair: pair[0])]


def share_by_tokens(samples: Sequence[S], kept: Sequence[bool], accelerator: Accelerator) -> list[S]:
    """This rank's part of samples that every rank holds: the longest first, each to the rank with the fewest tokens so far
    (ties: the lowest). A sample that is not kept weighs nothing. The order of `samples` stays."""
    weights = [(len(sample.prompt_ids) + len(sample.completion_ids)) * keep for sample, keep in zip(samples, kept, strict=True)]
    hands = dealt(weights, accelerator.num_processes)
    return [samples[i] for i in hands[accelerator.process_index]]


def dealt(weights: Sequence[int], ranks: int) -> list[list[int]]:
    """Indices of `weights` for each rank, in order: the heaviest first, each to the lightest rank."""
    hands: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for i in sorted(range(len(weights)), key=lambda i: -weights[i]):
        rank = loads.index(min(loads))
        hands[rank].append(i)
        loads[rank] += weights[i]
    return [sorted(hand) for hand in hands]


def level(batches: Sequence[Batch], accelerator: Accelerator) -> list[Batch]:
    """As many micro-batches on every rank: a rank with fewer gets dummies of one sample, one token each, which belong to
    nobody (`indices` is empty) and must weigh 0. Under ZeRO a rank that stays behind would hold up all others."""
    if accelerator.num_processes == 1:
        return list(batches)
    counts = accelerator.gather(torch.tensor([len(batches)], device=accelerator.device))
    lacking = int(counts.max()) - len(batches)
    return [*batches, *(_dummy() for _ in range(lacking))]


def _dummy() -> Batch:
    made = batch_of([TokenPair((PAD,), (PAD,))], [0])
    return Batch((), made.input_ids, made.targets, made.prompt_lengths, made.completion_lengths)
