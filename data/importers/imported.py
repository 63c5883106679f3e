"""What an import gives back: networks, the lines that were set aside and why, and what was assumed on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from data.network import Network


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A source entry that became no message. `line` is its 1-based line in `file` (its element in a JSON array)."""

    line: int
    reason: str
    file: str = ""


@dataclass(frozen=True)
class Imported:
    """Networks of one import. `read` counts the entries of the source: a line of JSONL, a record of CSV, a JSON
    message, or a WhatsApp header line with the lines that continue it. Every entry is a message or quarantined:
    anything else is a fault of the importer and raises RuntimeError."""

    networks: tuple[Network, ...]
    quarantined: tuple[Quarantined, ...] = ()
    read: int = 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.messages + len(self.quarantined) != self.read:
            raise RuntimeError(
                f"importer lost entries: {self.messages} messages and {len(self.quarantined)} quarantined of {self.read} read"
            )

    @property
    def messages(self) -> int:
        return sum(len(session.messages) for network in self.networks for session in network.sessions)

    def reasons(self) -> dict[str, int]:
        """How many entries were set aside for each reason, most frequent first."""
        return dict(Counter(one.reason for one in self.quarantined).most_common())


def from_networks(networks: list[Network]) -> Imported:
    """A benchmark's networks as an import: benchmarks load whole or not at all, so nothing is quarantined."""
    return Imported(tuple(networks), read=sum(len(session.messages) for one in networks for session in one.sessions))
