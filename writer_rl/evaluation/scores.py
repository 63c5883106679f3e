"""Scores of single answers that need no model: token-F1 of the paper, option letters, and LoCoMo's own."""

from __future__ import annotations

import re
import string
from collections import Counter

import Stemmer

from data.answers import option_letter

LOCOMO_ABSTENTIONS = ("no information available", "not mentioned")
_ARTICLES = re.compile(r"\b(?:a|an|the|and)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def f1_tokens(text: str) -> frozenset[str]:
    """Lower case, stripped, trailing periods of the string off, white space folded, split, as a set (Eq. 11)."""
    return frozenset(text.lower().strip().rstrip(".").split())


def token_f1(answer: str, gold: str) -> float:
    """F1 of token sets (Eq. 11), in [0, 1]; 0 where either is empty or nothing is shared."""
    said, wanted = f1_tokens(answer), f1_tokens(gold)
    shared = len(said & wanted)
    if not shared:
        return 0.0
    precision, recall = shared / len(said), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def letter_score(answer: str, option: str) -> float:
    """1 where the answer picks the gold option's letter, else 0: the official score of multiple choice."""
    return float(option_letter(answer) == option)


def locomo_tokens(text: str) -> list[str]:
    """LoCoMo's normalisation: no commas, lower case, no punctuation, no articles (nor "and"), Porter stems."""
    plain = _ARTICLES.sub(" ", text.replace(",", "").lower().translate(_PUNCTUATION))
    return [str(one) for one in Stemmer.Stemmer("porter").stemWords(plain.split())]


def stemmed_f1(answer: str, gold: str) -> float:
    """F1 of stem multisets; 0 where nothing is shared."""
    said, wanted = locomo_tokens(answer), locomo_tokens(gold)
    shared = sum((Counter(said) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(said), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def locomo_score(answer: str, gold: str, category: str) -> float:
    """LoCoMo's official score by category id. 1: golds split at commas, each with its best part of the answer. 3: the
    gold ends at its first semicolon. 5: whether the answer says that nothing is known. 2 and 4: plain stemmed F1.

    Stems are the original Porter algorithm's; the official script's stemmer differs from it in a few irregular words.
    """
    if category == "5":
        return float(any(phrase in answer.lower() for phrase in LOCOMO_ABSTENTIONS))
    if category == "1":
        parts = answer.split(",")
        golds = gold.split(",")
        return sum(max(stemmed_f1(part, one) for part in parts) for one in golds) / len(golds)
    return stemmed_f1(answer, gold.split(";")[0].strip() if category == "3" else gold)
