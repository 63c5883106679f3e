"""How alike two contents are: tokens, the F1 of their sets, and Python's sequence ratio (Eq. 13, Eq. 15)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.network import fold

try:  # a compiled twin of difflib with equal results, several times faster
    from cydifflib import SequenceMatcher
except ImportError:
    from difflib import SequenceMatcher

ALPHA_TOKEN = 0.60
ALPHA_SEQUENCE = 0.40
AUTOJUNK_LENGTH = 200  # from here on difflib drops frequent characters of the reference, which collapses the ratio

_SPANS = re.compile("[a-z0-9]+|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WORDS = re.compile(r"\w+")


def tokens(content: str) -> tuple[str, ...]:
    """T(c): lower-cased `[a-z0-9]+` spans and single CJK characters in text order.

    A content that has none of them (Hangul, kana, Cyrillic alone) is read as its `\\w+` runs instead; one without
    any (emoji, punctuation) has no tokens. Shape [K].
    """
    lowered = content.lower()
    return tuple(_SPANS.findall(lowered) or _WORDS.findall(lowered))


@dataclass(frozen=True, slots=True)
class Text:
    """A content as the rewards read it. `joined` is its tokens with single spaces between them; `identity` stands in
    for a content that has none, and is empty otherwise.

    `letters` and `beyond` are the multiset of its characters, in a form that makes the common part of two cheap:
    characters fall into 128 buckets by code point, a bucket of c characters sets the lowest min(c, 32) of its 32 bits
    in `letters`, and `beyond` counts those that found no bit.
    """

    identity: str
    joined: str
    vocabulary: frozenset[str]
    letters: int
    beyond: int

    @property
    def long(self) -> bool:
        """Whether autojunk applies when this is the reference."""
        return len(self.joined) >= AUTOJUNK_LENGTH


_BUCKETS, _SLOT = 128, 32
_LOW_BITS = np.array([(1 << count) - 1 for count in range(_SLOT + 1)], dtype="<u4")


def read(content: str) -> Text:
    """Everything about one content that comparing it needs."""
    found = tokens(content)
    joined = " ".join(found)
    letters = int.from_bytes(_LOW_BITS.take(_buckets(joined), mode="clip").tobytes(), "little")
    identity = "" if found else fold(content)
    return Text(identity, joined, frozenset(found), letters, len(joined) - letters.bit_count())


def _buckets(joined: str) -> NDArray[np.intp]:
    """Characters by code point modulo 128. Shape [128]."""
    if joined.isascii():
        return np.bincount(np.frombuffer(joined.encode(), dtype=np.uint8), minlength=_BUCKETS)
    points = np.frombuffer(joined.encode("utf-32-le"), dtype="<u4")  # a token never holds a lone surrogate
    return np.bincount(points % _BUCKETS, minlength=_BUCKETS)


def ratio_bound(predicted: Text, reference: Text) -> float:
    """An upper bound of S_seq that needs no search.

    Matching blocks are disjoint in both strings, so at most the multiset intersection of their characters can match;
    shared buckets and counts beyond a slot only raise it. The division rounds like that of `ratio()`.
    """
    length = len(predicted.joined) + len(reference.joined)
    if not length:
        return 1.0
    common = (predicted.letters & reference.letters).bit_count() + min(predicted.beyond, reference.beyond)
    return 2.0 * common / length


def token_f1(predicted: Text, reference: Text) -> float:
    """F1 of the two token sets. Where neither has tokens it is 1 for identical contents, else 0: two emoji differ."""
    size = len(predicted.vocabulary) + len(reference.vocabulary)
    if not size:
        return float(predicted.identity == reference.identity)
    return 2.0 * len(predicted.vocabulary & reference.vocabulary) / size


def sequence_ratio(predicted: Text, reference: Text) -> float:
    """S_seq: `SequenceMatcher(None, predicted, reference).ratio()` on the joined tokens, autojunk as by default.

    Not symmetric: autojunk looks at the reference, and ties fall by the order of the two.
    """
    ratio: float = SequenceMatcher(None, predicted.joined, reference.joined).ratio()
    return ratio


def blend(f1: float, ratio: float) -> float:
    """kappa-bar of its two terms (Eq. 13), in float64. Monotone in both, rounding included."""
    return ALPHA_TOKEN * f1 + ALPHA_SEQUENCE * ratio


def kappa_bar(predicted: str, reference: str) -> float:
    """Soft content match of two contents in [0, 1] (Eq. 13), before the coordinate gate and the threshold."""
    a, b = read(predicted), read(reference)
    return blend(token_f1(a, b), sequence_ratio(a, b))
