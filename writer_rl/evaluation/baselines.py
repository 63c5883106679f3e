"""Systems without a Writer: BM25, dense, full context, always-abstain. They meet the same Compose, Answer and Judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import bm25s
import numpy as np

from data.network import DataError, Question
from rewards.text import tokens
from rollout.memory.vectors import DECIMALS, best, cosines, memory_text, query_text
from rollout.query.compose import compose
from rollout.query.evidence import Tense
from rollout.query.pipeline import Pipeline, Shared
from rollout.query.project import Projection
from rollout.query.roles import BlankQuery, Query
from rollout.query.system1 import Verbatim
from rollout.query.view import MemoryView

K1, B = 1.5, 0.75
WINDOW = 128_000  # tokens of a full context, where none is stated
GRAMMAR = "bm25, dense, full, full:TOKENS or abstain"
Count = Callable[[str], int]


class Kind(StrEnum):
    BM25 = "bm25"
    DENSE = "dense"
    FULL = "full"
    ABSTAIN = "abstain"


@dataclass(frozen=True)
class Baseline:
    """`name` labels its rows. `window` is the most tokens that a full context may hold."""

    name: str
    kind: Kind
    window: int = WINDOW

    @property
    def id(self) -> str:
        return f"full:{self.window}" if self.kind is Kind.FULL else self.kind.value


def open_baseline(spec: str, name: str) -> Baseline | None:
    """The baseline that a spec names; None where it is none. Errors: a window that is not a number."""
    kind, _, rest = spec.partition(":")
    if kind not in set(Kind) or (rest and kind != Kind.FULL):
        return None
    if not rest:
        return Baseline(name, Kind(kind))
    if not rest.isdigit():
        raise DataError(f"baseline {spec!r}: the window is a number of tokens, for example full:{WINDOW}")
    return Baseline(name, Kind.FULL, int(rest))


def retrieved(baseline: Baseline, pipeline: Pipeline, view: MemoryView, question: Question) -> Shared:
    """The question with the messages that the baseline finds, as the pipeline's own System 1 would hand them over:
    recall and top-k are the pipeline's budgets, there are no rows and no calls. `view` must be prepared."""
    if not question.text.strip():
        raise BlankQuery(f"question {question.id!r} has no text; a blank query is never run")
    asker = None if question.asker is None else view.roster.name(question.asker)
    query = Query(question.text, question.format, question.options, asker)
    text = query_text(question.text, asker)
    telling = view.telling
    if baseline.kind is Kind.FULL:
        found = tuple(view.verbatim[index].entry_id for index in telling)
        verbatim = Verbatim(found, found)
    else:
        records = [view.verbatim[index] for index in telling]
        if baseline.kind is Kind.BM25:
            scores = bm25_scores([memory_text(record) for record in records], text)
        else:
            assert view.vectors is not None
            scores = cosines(view.vectors, pipeline.embedder.embed([text])[0])[telling]
        budgets = pipeline.config.budgets
        recalled = tuple(records[index].entry_id for index in best(records, scores, budgets.recall))
        verbatim = Verbatim(recalled[: budgets.top_k], recalled)
    return Shared(view, question, query, Projection(question.text, (), Tense.HEAD), verbatim, ())


def bm25_scores(texts: Sequence[str], query: str) -> np.ndarray:
    """Okapi BM25 (Robertson's idf, floored at 0 as the library does; k1 1.5, b 0.75) of a query for texts [n] -> float64
    [n]. Tokens are those of the reward's text function; a query word counts as often as it is said."""
    corpus = [list(tokens(text)) for text in texts]
    known = {word for text in corpus for word in text}
    wanted = [word for word in tokens(query) if word in known]
    if not wanted:
        return np.zeros(len(texts))
    index = bm25s.BM25(method="robertson", k1=K1, b=B)
    index.index(corpus, show_progress=False)
    return np.round(np.asarray(index.get_scores(wanted), dtype=np.float64), DECIMALS)


def check_window(baseline: Baseline, view: MemoryView, network: str, count: Count) -> None:
    """Raise DataError where the whole conversation does not fit the window: it is never cut."""
    if baseline.kind is not Kind.FULL:
        return
    messages = [view.verbatim[index] for index in view.telling]
    held = count(compose(messages, (), Tense.HEAD, None, view.numbers).text)
    if held > baseline.window:
        raise DataError(
            f"full context of network {network}: {held:,} tokens, and the window is {baseline.window:,}. It is never cut: "
            f"state a larger window (full:{held}) if the model has one, or leave the baseline out here"
        )
