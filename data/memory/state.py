"""The in-memory state: all derived records of a network, superseded ones too, and their update edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from data.memory.records import Record


class State:
    """Derived records by id in write order. Copies are cheap (one dict copy: records are immutable and shared)."""

    __slots__ = ("_records",)

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: dict[str, Record] = {record.entry_id: record for record in records}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and list(self) == list(other)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._records

    def get(self, entry_id: str) -> Record | None:
        return self._records.get(entry_id)

    def clone(self) -> State:
        """A state that changes independently of this one."""
        made = State()
        made._records = self._records.copy()
        return made

    def append(self, record: Record) -> None:
        """Add a new node; where it links to an older one, that one is marked superseded. Nothing is ever removed."""
        if record.entry_id in self._records:
            raise ValueError(f"record {record.entry_id} exists already; ids are never reused")
        for older in record.links:
            old = self._records[older]
            if not old.head:
                raise ValueError(f"record {older} is superseded by {old.superseded_by}; chains never fork")
            self._records[older] = replace(old, superseded_by=record.entry_id)
        self._records[record.entry_id] = record

    def next_id(self) -> str:
        """Ids are short deterministic counters: d1, d2, ..."""
        return f"d{len(self._records) + 1}"

    def heads(self) -> list[Record]:
        """Current nodes in write order."""
        return [record for record in self if record.head]

    def edges(self) -> list[tuple[Record, Record]]:
        """Update edges (old, new) in write order."""
        return [(self._records[older], record) for record in self for older in record.links]

    def chain(self, entry_id: str) -> list[Record]:
        """The slot of a record, old to new; KeyError for an unknown id."""
        first = self._records[entry_id]
        while first.links:
            first = self._records[first.links[0]]
        nodes = [first]
        while nodes[-1].superseded_by is not None:
            nodes.append(self._records[nodes[-1].superseded_by])
        return nodes
