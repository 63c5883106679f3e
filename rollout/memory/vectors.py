"""What is embedded of a record, and exact cosine ranking over it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from data.memory.records import Record
from rollout.memory.embedder import Embedder

DECIMALS = 6  # cosines are compared after rounding, so that the last bits of a matrix product never order anything
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def memory_text(record: Record) -> str:
    """Who and when are part of what is embedded: `[owner](by source)@date content` (design section 4)."""
    iso = ISO_DATE.match(record.ts)
    date = iso.group() if iso else record.ts
    return f"[{record.owner}](by {record.source})@{date} {record.content}"


def query_text(question: str, asker: str | None) -> str:
    """A question as it is; where the benchmark has an asker, with the asker in the place of the owner."""
    return question if asker is None else f"[{asker}] {question}"


def embed_records(embedder: Embedder, records: Sequence[Record]) -> np.ndarray:
    """Records [n] -> float32 [n, dim]."""
    if not records:
        return np.zeros((0, embedder.dim), dtype=np.float32)
    return embedder.embed([memory_text(record) for record in records])


def cosines(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Unit vectors [n, dim] and a unit query [dim] -> rounded cosines float64 [n]."""
    return np.round((vectors @ query).astype(np.float64), DECIMALS)


def id_key(entry_id: str) -> tuple[str, int, str]:
    """Order of ids: `v2` before `v10`; ids without a number as text."""
    digits = re.search(r"\d+$", entry_id)
    return (entry_id[: digits.start()], int(digits.group()), entry_id) if digits else (entry_id, -1, entry_id)


def ranking(records: Sequence[Record], scores: Sequence[float]) -> list[int]:
    """Indices [n], best first: score, then confidence, then id (design section 4: ties by id)."""
    keys = [(-score, -record.confidence, id_key(record.entry_id)) for record, score in zip(records, scores, strict=True)]
    return sorted(range(len(keys)), key=keys.__getitem__)


def best(records: Sequence[Record], scores: np.ndarray, count: int) -> list[int]:
    """The first `count` of `ranking`, without sorting the rest. `scores` float64 [n]."""
    if count <= 0 or not len(records):
        return []
    kth = max(0, len(records) - count)
    near = np.flatnonzero(scores >= np.partition(scores, kth)[kth])  # ties at the cut included
    order = ranking([records[index] for index in near], scores[near].tolist())
    return [int(near[index]) for index in order[:count]]
