"""The memory that a question is asked against: roster, verbatim track, derived state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from data.memory.records import Record
from data.memory.state import State
from data.network import Network, Roster
from data.segments import segments
from rollout.memory.embedder import Embedder
from rollout.memory.vectors import embed_records


@dataclass(frozen=True, eq=False)
class MemoryView:
    """`verbatim` [n] in network order; `message_ids` [n] beside it, where known, so that evidence anchors can be
    looked up; `vectors` [n, dim], where computed already (`prepared`)."""

    roster: Roster
    # left out of repr: asyncio asks for one of every finished task, and 120,000 records take seconds
    verbatim: Sequence[Record] = field(repr=False)
    state: State = field(repr=False)
    message_ids: Sequence[str] = field(default=(), repr=False)
    vectors: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(cls, network: Network, state: State | None = None) -> MemoryView:
        """A network's whole verbatim track, with a derived state beside it (none: empty)."""
        parts = segments(network)
        verbatim = tuple(record for segment in parts for record in segment.verbatim)
        ids = tuple(message.id for segment in parts for message in segment.messages)
        return cls(network.roster, verbatim, State() if state is None else state, ids)

    def prepared(self, embedder: Embedder) -> MemoryView:
        """The same view with the verbatim vectors computed: once per network, not per question."""
        return self if self.vectors is not None else replace(self, vectors=embed_records(embedder, self.verbatim))

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Verbatim id -> message number in the network (its write order)."""
        return {record.entry_id: record.turn_created for record in self.verbatim}

    @cached_property
    def by_id(self) -> Mapping[str, Record]:
        return {record.entry_id: record for record in self.verbatim}

    @cached_property
    def telling(self) -> np.ndarray:
        """Indices of the messages that hold any text, int64 [m]."""
        return np.flatnonzero([bool(record.content.strip()) for record in self.verbatim])

    @cached_property
    def told_by(self) -> Mapping[str, np.ndarray]:
        """Owner -> indices of the owner's messages that hold any text."""
        found: dict[str, list[int]] = {}
        for index in self.telling.tolist():
            found.setdefault(self.verbatim[index].owner, []).append(index)
        return {owner: np.array(indices) for owner, indices in found.items()}

    @cached_property
    def entry_of(self) -> Mapping[str, str]:
        """Message id -> verbatim id."""
        return {message: record.entry_id for message, record in zip(self.message_ids, self.verbatim, strict=False)}
