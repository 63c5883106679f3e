"""Messages of held-out networks that are equal or near-equal to training messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from data.network import Network, fold
from data.splits import LONG

WORDS = re.compile(r"\w+")
SHINGLE = 3  # words
NEAR = 0.6  # Jaccard similarity of word shingles from which on two messages are near-equal
COMMON = 50  # training messages that hold a shingle; what is in more of them ("what do you think") tells nothing


@dataclass(frozen=True, slots=True)
class Overlap:
    """A held-out network: `close` of `compared` longer messages are near a training message; `questions` are asked in
    both; one example."""

    network: str
    compared: int
    close: int
    questions: int
    example: str


def overlap(train: Sequence[Network], heldout: Sequence[Network]) -> list[Overlap]:
    """One row for each held-out network; messages shorter than LONG characters are no evidence and left out."""
    sets = [shingles for network in train for _, shingles in _messages(network)]
    holders: dict[str, list[int]] = {}
    for number, shingles in enumerate(sets):
        for shingle in shingles:
            holders.setdefault(shingle, []).append(number)
    asked = {fold(question.text) for network in train for question in network.questions}
    rows = []
    for network in heldout:
        messages = list(_messages(network))
        close = [text for text, shingles in messages if _near(shingles, sets, holders)]
        questions = sum(fold(question.text) in asked for question in network.questions)
        rows.append(Overlap(network.id, len(messages), len(close), questions, close[0] if close else ""))
    return rows


def _messages(network: Network) -> Iterator[tuple[str, frozenset[str]]]:
    """(text, word shingles): case, punctuation and emoji do not count; a text of fewer words is one shingle."""
    for message in network.messages():
        if len(message.text) >= LONG:
            words = WORDS.findall(fold(message.text))
            last = max(1, len(words) - SHINGLE + 1)
            yield message.text, frozenset(" ".join(words[start : start + SHINGLE]) for start in range(last))


def _near(shingles: frozenset[str], sets: list[frozenset[str]], holders: dict[str, list[int]]) -> bool:
    """Whether a training message shares NEAR of the shingles; candidates are those that share a rare one."""
    shared: Counter[int] = Counter()
    for shingle in sorted(shingles):
        if len(found := holders.get(shingle, [])) <= COMMON:
            shared.update(found)
    for number, _ in shared.most_common(10):
        both = len(shingles & sets[number])
        if both >= NEAR * (len(shingles) + len(sets[number]) - both):
            return True
    return False
