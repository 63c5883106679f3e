"""What the query tests share: a small chat, records by hand, an embedder whose cosines stand in the texts, and roles
that fail or misbehave on demand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from data.memory.records import Layer, Record, UType
from data.memory.state import State
from data.network import GROUP, Member, Message, Network, Question, Roster, Session
from rollout.llm.offline import offline_roles
from rollout.memory.embedder import Thresholds
from rollout.query.config import PipelineConfig, RoleNames
from rollout.query.evidence import Evidence
from rollout.query.pipeline import Pipeline
from rollout.query.roles import Call, Candidate, Gold, Query, Reply, Selected, Sufficiency, Verdict
from rollout.query.view import MemoryView

ROSTER = Roster((Member("a", "Ana"), Member("b", "Bob"), Member("c", "Cleo")))


class Tagged:
    """`#0.4` in a text is its cosine to every text without a tag."""

    id, dim, thresholds = "tagged", 2, Thresholds()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        found = [re.search(r"#(-?\d\.?\d*)", text) for text in texts]
        cosines = [float(one.group(1)) if one else 1.0 for one in found]
        return np.array([[one, np.sqrt(1 - one * one)] for one in cosines], dtype=np.float32)


def network(*said: tuple[str, str], questions: Sequence[Question] = (), sessions: int = 1) -> Network:
    """(member id, text) in order, dealt evenly over sessions; message ids m1, m2, ..."""
    messages = [Message(f"m{i}", who, text, f"2025-10-0{1 + i % 9}T10:00:00") for i, (who, text) in enumerate(said, 1)]
    size = -(-len(messages) // sessions)
    parts = [tuple(messages[start : start + size]) for start in range(0, len(messages), size)]
    made = tuple(Session(f"s{i}", part) for i, part in enumerate(parts, 1))
    return Network("net", ROSTER, made, tuple(questions))


def state(*records: tuple[str, ...]) -> State:
    """(owner, source, content) writes a record, (content, older id) updates one; ids d1, d2, ... in order."""
    made = State()
    for n, one in enumerate(records, 1):
        if len(one) == 2:
            old = made.get(one[1])
            assert old is not None
            made.append(replace(old, entry_id=f"d{n}", content=one[0], links=(old.entry_id,), confidence=0.8))
            continue
        owner, source, content = one
        layer = Layer.INTERACTION if owner == GROUP else Layer.CORE
        made.append(Record(f"d{n}", content, owner, source, layer, UType.FACT, "s1", 0, 1, "2025-10-01T10:00:00", ("v1",)))
    return made


def pipeline(embedder: object = None, config: PipelineConfig | None = None, **roles: object) -> Pipeline:
    """Offline but for the roles given."""
    names = RoleNames(**{role: one.name for role, one in roles.items()})  # type: ignore[attr-defined]
    config = replace(config or PipelineConfig(), roles=names)
    return Pipeline(config, embedder or Tagged(), replace(offline_roles(), **roles))  # type: ignore[arg-type]


def view(made: Network, *records: tuple[str, ...]) -> MemoryView:
    return MemoryView.of(made, state(*records))


@dataclass
class Scripted:
    """A role that gives the replies it was told to, in order, and the last one again; it keeps what it was given."""

    replies: list[object]
    role: str = "answer"
    name: str = "scripted"
    fingerprint: str = "1"
    seen: list[object] = field(default_factory=list)

    def _next(self, given: object) -> Reply:
        self.seen.append(given)
        value = self.replies[min(len(self.seen), len(self.replies)) - 1]
        return Reply(value(given) if callable(value) else value, Call(self.role, self.name))

    async def project(self, query: Query, names: Sequence[str]) -> Reply:
        return self._next(query)

    async def select(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Selected]:
        return self._next([one.record.entry_id for one in candidates])

    async def ask(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Sufficiency]:
        return self._next([one.record.entry_id for one in candidates])

    async def answer(self, query: Query, evidence: Evidence) -> Reply[str]:
        return self._next(evidence.text)

    async def judge(self, query: Query, gold: Gold, answer: str) -> Reply[Verdict]:
        return self._next(answer)
