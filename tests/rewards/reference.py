"""The rewards once more, as plainly as they can be written: difflib, scipy, loops. Tests and the benchmark compare to it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import numpy as np
from scipy.optimize import linear_sum_assignment

from data.memory.records import Record
from data.network import fold

CJK = [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)]


def tokens(content: str) -> list[str]:
    found, span = [], ""
    for character in content.lower():
        if character in "abcdefghijklmnopqrstuvwxyz0123456789":
            span += character
            continue
        if span:
            found.append(span)
            span = ""
        if any(low <= ord(character) <= high for low, high in CJK):
            found.append(character)
    if span:
        found.append(span)
    return found or re.findall(r"\w+", content.lower())


def f1(a: str, b: str) -> float:
    left, right = set(tokens(a)), set(tokens(b))
    if not left and not right:
        return 1.0 if fold(a) == fold(b) else 0.0
    return 2.0 * len(left & right) / (len(left) + len(right))


def kappa_bar(predicted: str, reference: str) -> float:
    ratio = difflib.SequenceMatcher(None, " ".join(tokens(predicted)), " ".join(tokens(reference))).ratio()
    return 0.60 * f1(predicted, reference) + 0.40 * ratio


def kappa_bar_of_token_lists(predicted: str, reference: str) -> float:
    """Eq. 15 by the letter: the ratio of token lists. The prose (joined strings) is what the rewards use."""
    ratio = difflib.SequenceMatcher(None, tokens(predicted), tokens(reference)).ratio()
    return 0.60 * f1(predicted, reference) + 0.40 * ratio


def kappa(predicted: Record, reference: Record) -> float:
    """Coordinates are gated first, then the text is compared."""
    if (predicted.owner, predicted.source, predicted.layer) != (reference.owner, reference.source, reference.layer):
        return 0.0
    value = kappa_bar(predicted.content, reference.content)
    return value if value >= 0.50 else 0.0


def best_sum(weights: np.ndarray) -> float:
    rows, columns = linear_sum_assignment(weights, maximize=True)
    return sum(float(weights[i, j]) for i, j in zip(rows, columns, strict=True))


def phi(predicted: Iterable[Record], reference: Iterable[Record]) -> float:
    m, m_star = list(predicted), list(reference)
    scores = []
    for owner in sorted({record.owner for record in m + m_star}):
        left = [record for record in m if record.owner == owner]
        right = [record for record in m_star if record.owner == owner]
        weights = np.array([[kappa(i, j) for j in right] for i in left]).reshape(len(left), len(right))
        scores.append(2.0 * best_sum(weights) / (len(left) + len(right)))
    if not scores:
        return 1.0
    return 0.80 * (sum(scores) / len(scores)) + 0.20 * min(scores)


def edge_kappa(ours: tuple[Record, Record], theirs: tuple[Record, Record]) -> float:
    if ours[1].owner != theirs[1].owner or ours[1].layer != theirs[1].layer:
        return 0.0
    old = kappa_bar(ours[0].content, theirs[0].content)
    new = kappa_bar(ours[1].content, theirs[1].content)
    value = 0.50 * old + 0.50 * new
    return value if value >= 0.50 else 0.0


def chain(predicted: list[tuple[Record, Record]], reference: list[tuple[Record, Record]]) -> float:
    if not predicted and not reference:
        return 1.0
    if not predicted or not reference:
        return 0.0
    weights = np.array([[edge_kappa(i, j) for j in reference] for i in predicted])
    return 2.0 * best_sum(weights) / (len(predicted) + len(reference))
