"""System 2: the derived track, row by row (Eq. 5 and 6; design section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data.memory.records import Record
from data.memory.state import State
from data.network import GROUP
from rollout.memory.embedder import Embedder, Thresholds
from rollout.memory.vectors import best, cosines, embed_records, id_key
from rollout.query.config import Budgets
from rollout.query.evidence import Row, RowStatus, Tense
from rollout.query.project import Projection
from rollout.query.view import MemoryView


@dataclass(frozen=True, slots=True)
class _Chain:
    """A slot with the best cosine of any of its nodes: an old node that matches brings its head."""

    nodes: tuple[Record, ...]  # old to new
    score: float

    @property
    def head(self) -> Record:
        return self.nodes[-1]

    def shown(self, tense: Tense) -> tuple[Record, ...]:
        return self.nodes if tense is Tense.FULL else self.nodes[-1:]


def rows(
    state: State,
    view: MemoryView,
    projection: Projection,
    issue: np.ndarray,
    embedder: Embedder,
    budgets: Budgets,
    thresholds: Thresholds,
) -> tuple[Row, ...]:
    """One row per projected name, in that order. `issue` [dim] is the embedded issue; `view` must be prepared."""
    chains = _chains(state, embedder, issue)
    assert view.vectors is not None
    raw = cosines(view.vectors, issue)
    return tuple(_row(name, chains, projection, view, raw, budgets, thresholds) for name in projection.rows)


def _row(
    name: str,
    chains: Sequence[_Chain],
    projection: Projection,
    view: MemoryView,
    raw: np.ndarray,
    budgets: Budgets,
    thresholds: Thresholds,
) -> Row:
    own = [chain for chain in chains if chain.head.owner == name]
    constrained = [chain for chain in own if chain.head.source == projection.source]
    own = constrained or own  # records of the constraint's source only; all, if there is none
    near = _near(own, thresholds.row)
    below = len(own) - len(near)
    shown = tuple(chain.shown(projection.tense) for chain in near[: budgets.k])
    said = [
        chain
        for chain in chains
        if name != GROUP
        and chain.head.source == name
        and chain.head.owner != name
        and not (chain.head.owner == GROUP and GROUP in projection.rows)
        and not (constrained and projection.source != name)  # the constraint holds for the whole row
    ]
    supplement = tuple(chain.shown(projection.tense) for chain in _near(said, thresholds.row)[: budgets.source_k])
    if shown:
        return Row(name, RowStatus.HIT, shown, supplement, None, below)
    fallback = None if name == GROUP else _own_message(name, view, raw, thresholds.fallback)
    if fallback is not None:
        return Row(name, RowStatus.FALLBACK_RAW, (), supplement, fallback, below)
    return Row(name, RowStatus.BELOW_THRESHOLD if own else RowStatus.NONE, (), supplement, None, below)


def _near(chains: Sequence[_Chain], least: float) -> list[_Chain]:
    """Chains at or above the threshold, best first; ties by the head's confidence, then by id."""
    near = [chain for chain in chains if chain.score >= least]
    return sorted(near, key=lambda chain: (-chain.score, -chain.head.confidence, id_key(chain.head.entry_id)))


def _chains(state: State, embedder: Embedder, issue: np.ndarray) -> list[_Chain]:
    records = list(state)
    scores = cosines(embed_records(embedder, records), issue)
    score_of = {record.entry_id: float(score) for record, score in zip(records, scores, strict=True)}
    slots = [tuple(state.chain(head.entry_id)) for head in state.heads()]
    return [_Chain(nodes, max(score_of[node.entry_id] for node in nodes)) for nodes in slots]


def _own_message(name: str, view: MemoryView, raw: np.ndarray, least: float) -> Record | None:
    own = view.told_by.get(name, np.zeros(0, dtype=np.int64))
    near = own[raw[own] >= least]
    first = best([view.verbatim[index] for index in near], raw[near], 1)
    return view.verbatim[near[first[0]]] if first else None
