"""Stand-ins for what a Writer test does not look at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data.memory.records import Layer, Record, UType
from data.memory.state import State
from data.segments import Segment


class NoEmbedder:
    """Nothing should be embedded."""

    def embed(self, texts: list[str]) -> np.ndarray:
        raise AssertionError(f"embedded {len(texts)} texts though nothing has to be left out")


class LetterEmbedder:
    """Counts of letters, as unit vectors: enough to tell texts apart."""

    def embed(self, texts: list[str]) -> np.ndarray:
        counts = np.array([[text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def first_message(contents: Sequence[str], segment: Segment) -> Sequence[tuple[str, ...]]:
    """Provenance: always the first message."""
    return [(segment.verbatim[0].entry_id,) for _ in contents]


def record(number: int, owner: str, content: str, layer: Layer = Layer.CORE, source: str = "") -> Record:
    return Record(f"d{number}", content, owner, source or owner, layer, UType.FACT, "s0", 0, 1, "")


def state_of(*rows: Record) -> State:
    return State(rows)
