"""Offline Select: ranks recalled messages by four kinds of signals, each readable off the question and the candidates.

score = dense + bm25 + speaker + mentioned + neighbour, each times its weight (`Weights`). Everything is computed from the
candidates given, so that nothing is kept between questions and nothing depends on any derived record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from data.memory.records import Record
from data.network import DataError
from rollout.llm.offline_words import STOP, name_words, names_in, tokens
from rollout.memory.vectors import id_key
from rollout.query.roles import Candidate

DECIMALS = 6  # scores are compared after rounding, so that the last bits of a sum never order anything
K1, B = 1.5, 0.75  # BM25 (Lucene's variant), the usual constants


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the signals in `signals`' column order; only their ratios matter.

    Equal by choice, not by a fit: weights fitted to one kind of chat cost evidence on another (`benchmarks/retrieval.py`
    shows fitted ones beside them).
    """

    dense: float = 1.0
    bm25: float = 1.0
    speaker: float = 1.0
    mentioned: float = 1.0
    neighbour: float = 1.0


def ranked(text: str, candidates: Sequence[Candidate], weights: Weights) -> list[str]:
    """Entry ids best first, whatever the order of `candidates`; ties go to the earlier message, then by id.

    `text` is the question with its first person resolved. Raises DataError where an entry id comes twice.
    """
    if len({one.record.entry_id for one in candidates}) != len(candidates):
        raise DataError("select: an entry id comes twice among the candidates; give each message once")
    scores = np.round(signals(text, candidates) @ np.array(astuple(weights)), DECIMALS)
    keys = [
        (-float(score), one.record.turn_created, one.record.turn, id_key(one.record.entry_id))
        for score, one in zip(scores, candidates, strict=True)
    ]
    return [candidates[index].record.entry_id for index in sorted(range(len(keys)), key=keys.__getitem__)]


def signals(text: str, candidates: Sequence[Candidate]) -> np.ndarray:
    """float64 [n, 5], each column in 0..1, in `Weights` order:

    dense      cosine, least to greatest of the candidates as 0 to 1
    bm25       of stems without stop words and members' names, the same way
    speaker    1 where the question names who wrote the message
    mentioned  1 where the message names somebody else whom the question names
    neighbour  the greatest `dense` of the messages right before and after, in its session
    """
    records = [one.record for one in candidates]
    people = sorted({record.owner for record in records})
    named = set(names_in(text, people))
    dense = _scaled(np.array([one.cosine for one in candidates], dtype=np.float64))
    columns = [
        dense,
        _scaled(_bm25(text, [record.content for record in records], people)),
        np.array([float(record.owner in named) for record in records]),
        np.array([float(bool((named - {record.owner}).intersection(names_in(record.content, people)))) for record in records]),
        _neighbour(dense, records),
    ]
    return np.stack(columns, axis=1)


def _scaled(values: np.ndarray) -> np.ndarray:
    """[n] -> [n], least 0 and greatest 1; all 0 where all are equal."""
    if not len(values):
        return values
    low, span = values.min(), values.max() - values.min()
    return (values - low) / span if span > 0 else np.zeros_like(values)


def _bm25(question: str, texts: Sequence[str], people: Sequence[str]) -> np.ndarray:
    """BM25 of each text to the question over these texts alone, float64 [n]; 0 where they share no content word.

    Names are left out: who speaks and who is named are signals of their own.
    """
    left_out = name_words(people)
    documents = [_terms(text, left_out) for text in texts]
    known = {term for document in documents for term in document}
    wanted = [term for term in dict.fromkeys(_terms(question, left_out)) if term in known]
    if not wanted:
        return np.zeros(len(texts))
    import bm25s  # here: it takes seconds to import, and only questions need it

    index = bm25s.BM25(method="lucene", k1=K1, b=B, backend="numpy")
    index.index(documents, show_progress=False)
    return np.round(index.get_scores(wanted).astype(np.float64), DECIMALS)


def _terms(text: str, left_out: set[str]) -> list[str]:
    return [one.stem for one in tokens(text) if one.folded not in STOP and one.folded not in left_out]


def _neighbour(dense: np.ndarray, records: Sequence[Record]) -> np.ndarray:
    held: dict[tuple[str, int], float] = {}
    for record, value in zip(records, dense.tolist(), strict=True):
        place = (record.session, record.turn)
        held[place] = max(value, held.get(place, 0.0))
    sides = [[held.get((record.session, record.turn + step), 0.0) for step in (-1, 1)] for record in records]
    return np.array([max(both) for both in sides], dtype=np.float64)
