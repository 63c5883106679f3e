"""System 1: the verbatim track. Recall, Select, Expand, ASK, cut (paper B.3 step 2). Never sees derived records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from rollout.memory.vectors import best, cosines, ranking
from rollout.query.config import Budgets
from rollout.query.roles import AskRole, Call, Candidate, Missing, Query, SelectRole
from rollout.query.view import MemoryView


@dataclass(frozen=True)
class Verbatim:
    """System 1's result as verbatim ids: the cut evidence best first [<= top_k], the first recall [<= recall], what
    Expand added; ASK's term where one was used."""

    selected: tuple[str, ...]
    recalled: tuple[str, ...]
    expanded: tuple[str, ...] = ()
    asked: str = ""
    ignored: tuple[str, ...] = ()  # ids in a role's reply that were not among the candidates


class Track:
    """One question's walk over the verbatim track: a pool that grows, ranked again after each growth."""

    def __init__(self, view: MemoryView, vectors: np.ndarray, query: Query, select: SelectRole, budgets: Budgets) -> None:
        self._view = view
        self._vectors = vectors  # [n, dim]
        self._query = query
        self._select = select
        self._budgets = budgets
        self._pool: set[int] = set()
        self._scores = np.zeros(len(view.verbatim))
        self.calls: list[Call] = []
        self.ignored: list[str] = []

    async def run(self, vector: np.ndarray, ask: AskRole | None, embed_term: Callable[[str], np.ndarray]) -> Verbatim | Missing:
        """`vector` [dim] is the question's; `embed_term` turns ASK's term into one. `ask` None switches ASK off."""
        self._scores = cosines(self._vectors, vector)
        first = self._recall(vector, self._budgets.recall)
        self._pool.update(first)
        recalled = self._ids(first)
        if not self._pool:
            return Verbatim((), ())
        order = await self._rank_and_expand()
        if isinstance(order, Missing):
            return order
        expanded = self._ids(index for index in sorted(self._pool) if index not in set(first))
        term = ""
        if ask is not None:
            reply = await ask.ask(self._query, self._candidates(order[: self._budgets.top_k]))
            self.calls.append(reply.call)
            if isinstance(reply.value, Missing):
                return reply.value
            if not reply.value.enough and reply.value.term.strip():
                term = reply.value.term
                self._pool.update(self._recall(embed_term(term), self._budgets.ask_recall))
                again = await self._rank()
                if isinstance(again, Missing):
                    return again
                order = again[0]
        return Verbatim(self._ids(order[: self._budgets.top_k]), recalled, expanded, term, tuple(self.ignored))

    async def _rank_and_expand(self) -> list[int] | Missing:
        """Rank; at most `expand_rounds` times: fetch the neighbours of at most `expand_anchors` anchors and rank the
        enlarged pool again. A round that brings nothing new ends it."""
        ranked = await self._rank()
        for _ in range(self._budgets.expand_rounds):
            if isinstance(ranked, Missing):
                return ranked
            grown = set(self._pool)
            for anchor in ranked[1][: self._budgets.expand_anchors]:
                grown.update(self._neighbours(anchor))
            if grown == self._pool:
                break
            self._pool = grown
            ranked = await self._rank()
        return ranked if isinstance(ranked, Missing) else ranked[0]

    async def _rank(self) -> tuple[list[int], list[int]] | Missing:
        """Select's order of the pool, completed by cosine for what it left out, and its anchors."""
        by_cosine = self._order(self._pool)
        reply = await self._select.select(self._query, self._candidates(by_cosine))
        self.calls.append(reply.call)
        if isinstance(reply.value, Missing):
            return reply.value
        index_of = {self._view.verbatim[index].entry_id: index for index in by_cosine}
        self.ignored += [one for one in (*reply.value.order, *reply.value.anchors) if one not in index_of]
        chosen = [index_of[one] for one in dict.fromkeys(reply.value.order) if one in index_of]
        rest = [index for index in by_cosine if index not in set(chosen)]
        anchors = [index_of[one] for one in dict.fromkeys(reply.value.anchors) if one in index_of]
        return chosen + rest, anchors

    def _recall(self, vector: np.ndarray, count: int) -> list[int]:
        """The nearest `count` messages that hold any text."""
        telling = self._view.telling
        records = [self._view.verbatim[index] for index in telling]
        near = best(records, cosines(self._vectors, vector)[telling], count)
        return [int(telling[index]) for index in near]

    def _order(self, pool: Iterable[int]) -> list[int]:
        members = sorted(pool)
        records = [self._view.verbatim[index] for index in members]
        return [members[at] for at in ranking(records, [float(self._scores[index]) for index in members])]

    def _neighbours(self, anchor: int) -> list[int]:
        centre = self._view.verbatim[anchor]
        return [
            index
            for index, record in enumerate(self._view.verbatim)
            if record.session == centre.session
            and abs(record.turn - centre.turn) <= self._budgets.expand_window
            and record.content.strip()
        ]

    def _candidates(self, order: Iterable[int]) -> list[Candidate]:
        return [Candidate(self._view.verbatim[index], float(self._scores[index])) for index in order]

    def _ids(self, order: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._view.verbatim[index].entry_id for index in order)
