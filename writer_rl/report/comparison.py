"""A predicted state beside its reference: which record was matched to which, and what became of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from data.memory.records import Record
from data.memory.state import State
from rewards.matching import Matcher
from rewards.speaker_levenshtein import SpeakerLevenshtein, phi

NEAREST = 3  # references with the same content that are named for a record


@dataclass(frozen=True)
class Comparison:
    """`pairs` as the reward aligned them: (predicted id, reference id, kappa). Of the predicted records without a
    partner, `misplaced` say what a reference record says, but under another owner, source or layer; `repeated` say, in the
    right place, what another record was matched for; `foreign` say what no reference record says."""

    score: SpeakerLevenshtein
    pairs: tuple[tuple[str, str, float], ...]
    misplaced: tuple[str, ...]
    repeated: tuple[str, ...]
    foreign: tuple[str, ...]
    missing: tuple[str, ...]


def near(record: Record, references: Iterable[Record], matcher: Matcher) -> list[tuple[Record, float]]:
    """Reference records that say the same (kappa-bar >= 0.50) wherever they stand, best first, the same place first among
    equals."""
    found = [(one, matcher.kappa(record.content, one.content)) for one in references]
    likely = sorted((pair for pair in found if pair[1] > 0), key=lambda pair: (-pair[1], not same_place(record, pair[0])))
    return likely[:NEAREST]


def same_place(one: Record, other: Record) -> bool:
    return (one.owner, one.source, one.layer) == (other.owner, other.source, other.layer)


def compare(predicted: State, reference: State, matcher: Matcher) -> Comparison:
    """Both states as the reward sees them, superseded records too."""
    scored = phi(predicted, reference, matcher)
    taken = {pair.predicted.entry_id for pair in scored.pairs}
    found = {pair.reference.entry_id for pair in scored.pairs}
    kinds: dict[str, list[str]] = {"misplaced": [], "repeated": [], "foreign": []}
    for record in predicted:
        if record.entry_id not in taken:
            kinds[_kind(record, near(record, reference, matcher))].append(record.entry_id)
    return Comparison(
        scored,
        tuple((pair.predicted.entry_id, pair.reference.entry_id, pair.kappa) for pair in scored.pairs),
        missing=tuple(record.entry_id for record in reference if record.entry_id not in found),
        **{name: tuple(ids) for name, ids in kinds.items()},
    )


def _kind(record: Record, alike: list[tuple[Record, float]]) -> str:
    if not alike:
        return "foreign"
    return "repeated" if any(same_place(record, one) for one, _ in alike) else "misplaced"
