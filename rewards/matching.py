"""Soft matches of many contents: an exact bound before the slow ratio, a memo by text, one-to-one alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from rewards.text import Text, blend, read, sequence_ratio, token_f1

THRESHOLD = 0.50  # of Eq. 14, and of chain edges


@dataclass(slots=True)
class Counts:
    """What a Matcher was asked and what it saved; repeated questions are answered by the memo and not counted."""

    compared: int = 0  # different (predicted, reference) contents that were asked for
    skipped: int = 0  # of them, those whose bound stays below the threshold


class Matcher:
    """kappa of pairs of contents, each computed once.

    Hand one Matcher to every position and all G trajectories of a group: their states share most of their contents.
    It only remembers what pure functions gave, so sharing it never changes a value. It grows with the contents seen;
    drop it with the group.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self._texts: dict[str, tuple[Text, int]] = {}
        self._bits: dict[tuple[str, int], int] = {}
        self._bars: dict[tuple[str, str], float] = {}
        self._kappas: dict[tuple[str, str], float] = {}

    def text(self, content: str) -> Text:
        """The content as the rewards read it."""
        return self._read(content)[0]

    def kappa(self, predicted: str, reference: str) -> float:
        """kappa-bar where it reaches 0.50, else 0 (the threshold of Eq. 14; coordinates are the caller's to gate)."""
        key = (predicted, reference)
        known = self._kappas.get(key)
        if known is None:
            self.counts.compared += 1
            if self.ceiling(predicted, reference) < THRESHOLD:
                self.counts.skipped += 1
                known = 0.0
            else:
                bar = self.bar(predicted, reference)
                known = bar if bar >= THRESHOLD else 0.0
            self._kappas[key] = known
        return known

    def bar(self, predicted: str, reference: str) -> float:
        """kappa-bar (Eq. 13), equal to `rewards.text.kappa_bar` bit for bit."""
        key = (predicted, reference)
        known = self._bars.get(key)
        if known is None:
            a, b = self.text(predicted), self.text(reference)
            # A text against itself is one block from end to end, under autojunk too: no search is needed.
            ratio = 1.0 if a.joined == b.joined else sequence_ratio(a, b)
            known = self._bars[key] = blend(token_f1(a, b), ratio)
        return known

    def ceiling(self, predicted: str, reference: str) -> float:
        """An upper bound of kappa-bar that needs no sequence search.

        Matching blocks are disjoint in both strings, so no more characters can match than the two have in common
        as multisets. The bound goes through the same roundings as kappa-bar, hence it is never below it.
        """
        a, letters_a = self._read(predicted)
        b, letters_b = self._read(reference)
        f1 = token_f1(a, b)
        if blend(f1, 1.0) < THRESHOLD:
            return blend(f1, 1.0)
        length = len(a.joined) + len(b.joined)
        common = (letters_a & letters_b).bit_count()
        return blend(f1, 2.0 * common / length if length else 1.0)

    def _read(self, content: str) -> tuple[Text, int]:
        found = self._texts.get(content)
        if found is None:
            text = read(content)
            found = self._texts[content] = (text, self._letters(text.joined))
        return found

    def _letters(self, joined: str) -> int:
        """The multiset of characters as a bit set: one bit for each character's first, second, ... occurrence.

        The common part of two multisets is then one `&` and a bit count.
        """
        letters = 0
        occurrence: dict[str, int] = {}
        for character in joined:
            count = occurrence[character] = occurrence.get(character, 0) + 1
            letters |= 1 << self._bits.setdefault((character, count), len(self._bits))
        return letters


def align(weights: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Maximum-weight one-to-one alignment (Eq. 16). weights [n, m] -> (row, column) of the pairs with weight > 0."""
    rows, columns = linear_sum_assignment(weights, maximize=True)
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if weights[i, j] > 0.0]


def soft_f1(matched: float, predicted: int, reference: int) -> float:
    """F of a matching: twice its total weight over the sizes of both sides, at least one of which is not empty (Eq. 16)."""
    return 2.0 * matched / (predicted + reference)
