"""The evidence of one question: lines of both tracks, each with owner, source, time and provenance."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from data.memory.records import Record


class Tense(StrEnum):
    """Whether a query returns current nodes only, or whole chains."""

    HEAD = "head"
    FULL = "full"


class RowStatus(StrEnum):
    """What a row's own records gave. Source supplements never change it."""

    HIT = "hit"  # at least one chain reached the threshold
    BELOW_THRESHOLD = "below_threshold"  # the row has chains, none reached it, and no raw message stands in
    FALLBACK_RAW = "fallback_raw"  # no chain, but one message of the person's own
    NONE = "none"  # nothing at all


class Part(StrEnum):
    """Where a line stands in the evidence."""

    MESSAGE = "message"  # System 1
    OWN = "own"  # a node of one of the row's chains
    SAID = "said"  # a record that the row's person said about someone else
    FALLBACK = "fallback"  # a raw message that stands in for an empty row


@dataclass(frozen=True, slots=True)
class Line:
    """One record in the evidence. `order` is the network's message number of its latest support (of the message
    itself for a verbatim one): what newest and oldest mean for both tracks alike; `depth` is the place in its chain."""

    part: Part
    row: str | None
    record: Record
    order: int
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A PERSON or GROUP row. `chains` hold the ids shown, best chain first, each old to new; `below` counts the chains
    that did not reach the threshold."""

    name: str
    status: RowStatus
    chains: tuple[tuple[Record, ...], ...] = ()
    said: tuple[tuple[Record, ...], ...] = ()
    fallback: Record | None = None
    below: int = 0

    @property
    def records(self) -> tuple[Record, ...]:
        """Everything shown in the row, in the order shown."""
        own = [record for chain in (*self.chains, *self.said) for record in chain]
        return tuple(own if self.fallback is None else [*own, self.fallback])


@dataclass(frozen=True)
class Evidence:
    """`text` is what an LLM answerer reads, `lines` the same content for an offline one."""

    text: str
    lines: tuple[Line, ...]
    tense: Tense
    source: str | None

    @property
    def empty(self) -> bool:
        return not any(line.record.content.strip() for line in self.lines)


def one_line(text: str) -> str:
    """Text from outside as it may stand in structured text: control characters and every kind of line break become
    spaces, runs of white space one."""
    cleaned = "".join(" " if unicodedata.category(char) in ("Cc", "Zl", "Zp") else char for char in text)
    return " ".join(cleaned.split())


def quoted(text: str) -> str:
    """Content on one line in quotes, its own quotes and backslashes escaped: no content can end its quotation and go on
    as a line, a row or a speaker (pitfall 34). Characters stay as they are."""
    return json.dumps(one_line(text), ensure_ascii=False)
