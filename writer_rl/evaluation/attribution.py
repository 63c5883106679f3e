"""What is wrong with a memory beside its Phi: right content under the wrong owner or source, and stale heads."""

from __future__ import annotations

from collections import Counter

from data.memory.records import Record
from data.memory.state import State
from rewards.matching import Matcher
from rewards.speaker_levenshtein import phi

SAME = 0.8  # kappa-bar from which on two contents say the same


def attribution(predicted: State, reference: State) -> dict[str, float]:
    """Counts over the current heads. `attribution_errors`: the best matching reference head says the same but has
    another owner or source. `stale_heads`: content that the reference has superseded. `missed`: reference heads that no
    predicted head matches in content and coordinates."""
    matcher = Matcher()
    heads, gold = predicted.heads(), reference.heads()
    superseded = [record for record in reference if not record.head]
    wrong = stale = 0
    for record in heads:
        best = max(gold, key=lambda one: _likeness(record, one, matcher), default=None)
        if best is not None and matcher.kappa(record.content, best.content) >= SAME:
            wrong += (record.owner, record.source) != (best.owner, best.source)
        old = max((matcher.kappa(record.content, one.content) for one in superseded), default=0.0)
        now = 0.0 if best is None else matcher.kappa(record.content, best.content)
        stale += old >= SAME and old > now
    missed = sum(not any(_same(one, record, matcher) for record in heads) for one in gold)
    return {"heads": len(heads), "attribution_errors": wrong, "stale_heads": stale, "missed": missed, "gold_heads": len(gold)}


def coverage(predicted: State, reference: State) -> dict[str, float]:
    """Owner -> share of the owner's reference heads that a predicted head holds (aligned as Phi aligns: same owner,
    source and layer, kappa-bar >= 0.5, each head once)."""
    gold = Counter(record.owner for record in reference.heads())
    held = Counter(pair.reference.owner for pair in phi(predicted.heads(), reference.heads()).pairs)
    return {owner: held[owner] / count for owner, count in sorted(gold.items())}


def _likeness(record: Record, one: Record, matcher: Matcher) -> tuple[float, bool]:
    """Content first; among equals, the one with the record's own coordinates."""
    return matcher.kappa(record.content, one.content), (record.owner, record.source) == (one.owner, one.source)


def _same(one: Record, record: Record, matcher: Matcher) -> bool:
    coordinates = (one.owner, one.source, one.layer) == (record.owner, record.source, record.layer)
    return coordinates and matcher.kappa(record.content, one.content) >= SAME
