"""What teacher trajectories hold: actions by kind, layer and owner, how much of the chat they cite, and duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from data.memory.records import DERIVED_LAYERS, DERIVED_UTYPES, Record
from data.memory.state import State
from data.network import GROUP, Network, fold
from data.segments import Segment
from data.teacher import Teacher, replay
from rewards.text import tokens

CLOSE = 0.8  # token-set F1 from which two current records of one owner and layer count as nearly equal
SHOWN_OWNERS = 10


@dataclass(frozen=True)
class Lesson:
    """A network with a whole teacher trajectory, ready to be counted and shown. `states` has shape [T]."""

    network: Network
    segments: tuple[Segment, ...]
    states: tuple[State, ...]

    @classmethod
    def of(cls, network: Network, parts: Sequence[Segment], teacher: Teacher) -> Lesson:
        """Errors: DataError where the teacher does not fit."""
        return cls(network, tuple(parts), tuple(replay(teacher, parts)))

    def written(self, t: int) -> list[Record]:
        """The records of position t as they stand at the end, superseded or not."""
        before = self.states[t - 1] if t else State()
        final = self.states[-1]
        return [final.get(record.entry_id) or record for record in self.states[t] if record.entry_id not in before]


@dataclass(frozen=True)
class Statistics:
    """Counts over networks. `owners` is by `network / name`; `about_others` counts records of a member by another's
    word; `cited` messages stand behind at least one record; `repeated` records say word for word what an earlier one of
    the owner, source and layer says, `close` counts pairs of current records that nearly do."""

    networks: int
    segments: int
    messages: int
    actions: Mapping[str, int]
    layers: Mapping[str, int]
    utypes: Mapping[str, int]
    owners: Mapping[str, int]
    about_others: int
    cited: int
    repeated: int
    close: int
    questions: Mapping[str, int]

    @property
    def records(self) -> int:
        return self.actions["ADD"] + self.actions["UPDATE"]

    @property
    def cited_share(self) -> float:
        return self.cited / self.messages if self.messages else 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "records": self.records, "cited_share": round(self.cited_share, 4)}

    def rows(self) -> list[tuple[str, str]]:
        """(what, number) for a table."""
        group = sum(count for owner, count in self.owners.items() if owner.endswith(f" / {GROUP}"))
        shown = list(self.owners.items())[:SHOWN_OWNERS]
        rest = len(self.owners) - len(shown)
        return [
            ("networks", str(self.networks)),
            ("segments", str(self.segments)),
            ("messages", str(self.messages)),
            *((f"actions {kind}", str(count)) for kind, count in self.actions.items()),
            *((f"layer {layer}", _share(count, self.records)) for layer, count in self.layers.items()),
            *((f"utype {utype}", _share(count, self.records)) for utype, count in self.utypes.items()),
            ("owner is the group", _share(group, self.records)),
            ("owner and source differ", _share(self.about_others, self.records)),
            *((f"owner {owner}", _share(count, self.records)) for owner, count in shown),
            *([("owners not shown", str(rest))] if rest else []),
            ("messages cited", _share(self.cited, self.messages)),
            ("records repeated word for word", str(self.repeated)),
            ("pairs of nearly equal current records", str(self.close)),
            *((f"questions {kind}", str(count)) for kind, count in self.questions.items()),
        ]


def statistics(lessons: Sequence[Lesson]) -> Statistics:
    """Counts over all lessons; kinds, layers and utypes that never occur count 0."""
    records = [(lesson.network.id, record) for lesson in lessons for record in lesson.states[-1]]
    actions = Counter("UPDATE" if record.links else "ADD" for _, record in records)
    actions["NOOP"] = sum(not lesson.written(t) for lesson in lessons for t in range(len(lesson.segments)))
    layers = Counter(record.layer for _, record in records)
    utypes = Counter(record.utype for _, record in records)
    owners = Counter(f"{network} / {record.owner}" for network, record in records)
    keys = Counter((network, one.owner, one.source, one.layer, fold(one.content)) for network, one in records)
    kinds = Counter(question.kind or "(none)" for lesson in lessons for question in lesson.network.questions)
    return Statistics(
        networks=len(lessons),
        segments=sum(len(lesson.segments) for lesson in lessons),
        messages=sum(len(part.messages) for lesson in lessons for part in lesson.segments),
        actions={kind: actions[kind] for kind in ("ADD", "UPDATE", "NOOP")},
        layers={layer.value: layers[layer] for layer in DERIVED_LAYERS},
        utypes={utype.value: utypes[utype] for utype in DERIVED_UTYPES},
        owners=dict(sorted(owners.items(), key=lambda pair: (-pair[1], pair[0]))),
        about_others=sum(not one.layer.group and one.owner != one.source for _, one in records),
        cited=sum(len({one for record in lesson.states[-1] for one in record.from_ids}) for lesson in lessons),
        repeated=sum(times - 1 for times in keys.values()),
        close=sum(_close_pairs(lesson.states[-1].heads()) for lesson in lessons),
        questions=dict(sorted(kinds.items())),
    )


def _close_pairs(heads: Iterable[Record]) -> int:
    slots: dict[tuple[str, str], list[frozenset[str]]] = {}
    for record in heads:
        slots.setdefault((record.owner, record.layer), []).append(frozenset(tokens(record.content)))
    return sum(_f1(one, other) >= CLOSE for texts in slots.values() for one, other in combinations(texts, 2))


def _f1(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one and other else 0.0


def _share(count: int, of: int) -> str:
    return f"{count} ({count / of:.0%})" if of else str(count)
