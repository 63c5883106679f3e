"""Soft matches of many contents: an exact bound before the slow ratio, a memo by text, one-to-one alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from rewards.text import SequenceMatcher, Text, blend, ratio_bound, read, token_f1

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
        self._texts: dict[str, Text] = {}
        self._searches: dict[str, SequenceMatcher[str]] = {}
        self._bars: dict[tuple[str, str], float] = {}
        self._kappas: dict[tuple[str, str], float] = {}

    def text(self, content: str) -> Text:
        """The content as the rewards read it."""
        found = self._texts.get(content)
        if found is None:
            found = self._texts[content] = read(content)
        return found

    def kappa(self, predicted: str, reference: str) -> float:
        """kappa-bar where it reaches 0.50, else 0 (the threshold of Eq. 14; coordinates are the caller's to gate)."""
        key = (predicted, reference)
        known = self._kappas.get(key)
        if known is None:
            self.counts.compared += 1
            if predicted == reference:
                known = 1.0  # both terms are 1, whatever the text
            elif self.ceiling(predicted, reference) < THRESHOLD:
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
            ratio = 1.0 if a.joined == b.joined else self._ratio(a, b)
            known = self._bars[key] = blend(token_f1(a, b), ratio)
        return known

    def ceiling(self, predicted: str, reference: str) -> float:
        """An upper bound of kappa-bar without a search. It goes through the same roundings, hence is never below it."""
        a, b = self.text(predicted), self.text(reference)
        f1 = token_f1(a, b)
        highest = blend(f1, 1.0)  # half of all pairs share so few words that not even equal strings would do
        return highest if highest < THRESHOLD else blend(f1, ratio_bound(a, b))

    def _ratio(self, a: Text, b: Text) -> float:
        """`sequence_ratio`, with what difflib learns about a reference kept for its next prediction."""
        search = self._searches.get(b.joined)
        if search is None:
            search = self._searches[b.joined] = SequenceMatcher(None, "", b.joined)
        search.set_seq1(a.joined)
        ratio: float = search.ratio()
        return ratio


def align(weights: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Maximum-weight one-to-one alignment (Eq. 16). weights [n, m] -> (row, column) of the pairs with weight > 0."""
    rows, columns = linear_sum_assignment(weights, maximize=True)
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if weights[i, j] > 0.0]


def soft_f1(matched: float, predicted: int, reference: int) -> float:
    """F of a matching: twice its total weight over the sizes of both sides, at least one of which is not empty (Eq. 16)."""
    return 2.0 * matched / (predicted + reference)
