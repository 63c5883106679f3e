"""What the Writer is shown at one position: the segment, and the current heads grouped by owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from data.memory.records import Record
from data.memory.state import State
from data.network import GROUP
from data.segments import Segment

MAX_HEADS_PER_OWNER = 40
HEAD_TOKEN_BUDGET = 6144


class TokenCounter(Protocol):
    """Tokens that the prompt spends on the memory block; `WriterPrompt` is one."""

    def head_tokens(self, record: Record) -> int:
        """Tokens of one head's line."""
        ...

    def owner_tokens(self, owner: str) -> int:
        """Tokens of what an owner costs beside its heads: its heading and the line that counts omitted heads."""
        ...


class TextEmbedder(Protocol):
    """Texts [n] -> unit vectors [n, dim]."""

    def embed(self, texts: list[str]) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class OwnerHeads:
    """The heads of one owner in write order, and how many more there are that are not shown."""

    owner: str
    heads: tuple[Record, ...]
    omitted: int


@dataclass(frozen=True, slots=True)
class WriterView:
    """`owners` holds every owner that has heads: members in roster order, GROUP last."""

    segment: Segment
    owners: tuple[OwnerHeads, ...]

    @property
    def omitted(self) -> int:
        """Heads that are not shown."""
        return sum(owner.omitted for owner in self.owners)


def build_view(
    segment: Segment,
    state: State,
    embedder: TextEmbedder,
    token_counter: TokenCounter,
    max_heads_per_owner: int = MAX_HEADS_PER_OWNER,
    head_token_budget: int = HEAD_TOKEN_BUDGET,
) -> WriterView:
    """The segment beside the heads that fit (design section 4, "Writer input order").

    Up to `max_heads_per_owner` heads an owner, by similarity to the segment, and at most `head_token_budget` tokens in
    all. Every owner stays visible: where tokens are short, owners take turns, the most similar head of each first, and
    one that gets no turn keeps its heading with the omitted count (headings are shown even where they alone exceed the
    budget). Similarity is computed only when something has to be left out.
    """
    groups = _by_owner(state, segment)
    costs = {record.entry_id: token_counter.head_tokens(record) for heads in groups.values() for record in heads}
    left = head_token_budget - sum(token_counter.owner_tokens(owner) for owner in groups)
    if sum(costs.values()) <= left and all(len(heads) <= max_heads_per_owner for heads in groups.values()):
        return WriterView(segment, tuple(OwnerHeads(owner, tuple(heads), 0) for owner, heads in groups.items()))

    score = _similarity(segment, [record for heads in groups.values() for record in heads], embedder)
    ranked = [sorted(heads, key=lambda one: -score[one.entry_id])[:max_heads_per_owner] for heads in groups.values()]
    kept: set[str] = set()
    for turn in range(max_heads_per_owner):
        candidates = [heads[turn] for heads in ranked if turn < len(heads)]
        for record in sorted(candidates, key=lambda record: -score[record.entry_id]):
            if costs[record.entry_id] <= left:
                left -= costs[record.entry_id]
                kept.add(record.entry_id)
    shown = []
    for owner, heads in groups.items():
        visible = tuple(record for record in heads if record.entry_id in kept)
        shown.append(OwnerHeads(owner, visible, len(heads) - len(visible)))
    return WriterView(segment, tuple(shown))


def _by_owner(state: State, segment: Segment) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in state.heads():
        groups.setdefault(record.owner, []).append(record)
    order = {name: rank for rank, name in enumerate((*segment.roster.names, GROUP))}
    return {owner: groups[owner] for owner in sorted(groups, key=lambda owner: order[owner])}


def _similarity(segment: Segment, heads: Sequence[Record], embedder: TextEmbedder) -> dict[str, float]:
    """Cosine of each head to the message of the segment that is nearest to it, rounded so that ties stay ties."""
    messages = [f"{segment.roster.name(message.speaker)}: {message.text}" for message in segment.messages]
    vectors = embedder.embed(messages + [f"{record.owner}: {record.content}" for record in heads])  # [n + h, dim]
    nearest = (vectors[len(messages) :] @ vectors[: len(messages)].T).max(axis=1)  # [h]
    return {record.entry_id: round(float(value), 6) for record, value in zip(heads, nearest, strict=True)}
