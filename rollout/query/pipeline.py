"""The frozen query pipeline: share (System 1, once a question) and finish (System 2 to verdict, once a state)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from data.memory.state import State
from data.network import DataError, Question
from rollout.llm.offline import offline_roles
from rollout.memory.embedder import Embedder, Thresholds
from rollout.memory.vectors import query_text
from rollout.query.answer import final_answer
from rollout.query.compose import compose
from rollout.query.config import PipelineConfig
from rollout.query.evidence import Evidence, Row
from rollout.query.identity import pipeline_id
from rollout.query.project import Projection, resolve
from rollout.query.roles import BlankQuery, Call, Gold, Missing, Query, Reply, Roles, Verdict, VerdictKind
from rollout.query.system1 import Track, Verbatim
from rollout.query.system2 import rows
from rollout.query.view import MemoryView

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Shared:
    """What a question's arms have in common; nothing here depends on a derived state. `missing` says why a question
    cannot be asked at all: every arm of it is then missing."""

    view: MemoryView
    question: Question
    query: Query
    projection: Projection | None
    verbatim: Verbatim | None
    calls: tuple[Call, ...]
    missing: Missing | None = None


@dataclass(frozen=True, slots=True)
class AnchorHits:
    """How many of the question's evidence messages exist here, were recalled, stand in the cut System 1 evidence, and
    are cited or quoted by the System 2 rows."""

    total: int
    recalled: int
    selected: int
    rows: int


@dataclass(frozen=True)
class Asked:
    """One question against one state: everything a result row needs. `calls` holds shared ones too, marked cached
    where another arm paid for them."""

    question: str
    projection: Projection | None
    system1: tuple[str, ...]
    rows: tuple[Row, ...]
    evidence: str
    without_evidence: bool
    raw_answer: str
    answer: str
    verdict: Verdict
    anchors: AnchorHits
    calls: tuple[Call, ...]


class Pipeline:
    """Frozen: `id` covers settings, thresholds, embedder, roles with their prompts, and the sources."""

    def __init__(self, config: PipelineConfig, embedder: Embedder, roles: Roles) -> None:
        for role, name in asdict(config.roles).items():
            if getattr(roles, role).name != name:
                raise DataError(f"pipeline: role {role} is set to {name!r}, but {getattr(roles, role).name!r} was given")
        self.config = config
        self.embedder = embedder
        self.roles = roles
        self.thresholds: Thresholds = config.thresholds or embedder.thresholds
        self.id = pipeline_id(
            {
                "config": asdict(config),
                "thresholds": asdict(self.thresholds),
                "embedder": embedder.id,
                "roles": roles.fingerprints(),
            }
        )

    @property
    def offline(self) -> bool:
        """True where answers or verdicts are lexical: such scores are labelled wherever they are shown."""
        return "offline" in (self.config.roles.answer, self.config.roles.judge)

    async def share(self, view: MemoryView, question: Question) -> Shared:
        """Project and System 1. Raises BlankQuery for a question without text."""
        if not question.text.strip():
            raise BlankQuery(f"question {question.id!r} has no text; a blank query is never run")
        view = view.prepared(self.embedder)
        assert view.vectors is not None
        asker = None if question.asker is None else view.roster.name(question.asker)
        query = Query(question.text, question.format, question.options, asker)
        reply = await self.roles.project.project(Query(question.text, asker=asker), view.roster.names)
        if isinstance(reply.value, Missing):
            return Shared(view, question, query, None, None, (reply.call,), reply.value)
        projection = resolve(reply.value, view.roster, question.text)
        track = Track(view, view.vectors, query, self.roles.select, self.config.budgets)
        vector = self.embedder.embed([query_text(question.text, asker)])[0]
        ask = self.roles.ask if self.config.ask else None
        found = await track.run(vector, ask, lambda term: self.embedder.embed([term])[0])
        calls = (reply.call, *track.calls)
        if isinstance(found, Missing):
            return Shared(view, question, query, projection, None, calls, found)
        return Shared(view, question, query, projection, found, calls)

    async def finish(self, shared: Shared, state: State) -> Asked:
        """System 2, Compose, Answer and Judge for one derived state."""
        return (await self.finish_all(shared, [state]))[0]

    async def finish_all(self, shared: Shared, states: Sequence[State]) -> list[Asked]:
        """States [G] -> results [G]. Equal evidence is answered once and equal answers are judged once, so equal
        states get equal verdicts whatever plays the roles."""
        found, projection = shared.verbatim, shared.projection
        if found is None or projection is None:
            assert shared.missing is not None
            return [self._unasked(shared, shared.missing) for _ in states]
        issue = self.embedder.embed([projection.issue])[0]
        budgets = self.config.budgets
        row_sets = [rows(state, shared.view, projection, issue, self.embedder, budgets, self.thresholds) for state in states]
        messages = [shared.view.by_id[one] for one in found.selected]
        evidence = [compose(messages, one, projection.tense, projection.source, shared.view.numbers) for one in row_sets]
        answers = await self._answer(shared.query, evidence)
        finals = [_final(reply) for reply in answers]
        verdicts = await self._judge(shared, finals)
        again = replace(shared, calls=tuple(replace(call, cached=True) for call in shared.calls))  # the first arm paid
        arms = zip([shared, *[again] * len(states)], row_sets, evidence, answers, finals, verdicts, strict=False)
        return [self._asked(*one) for one in arms]

    async def _answer(self, query: Query, evidence: Sequence[Evidence]) -> list[Reply[str]]:
        unique = {one.text: one for one in evidence}
        replies = await asyncio.gather(*(self.roles.answer.answer(query, one) for one in unique.values()))
        return _dealt([one.text for one in evidence], dict(zip(unique, replies, strict=True)))

    async def _judge(self, shared: Shared, finals: Sequence[str | Missing]) -> list[Reply[Verdict] | None]:
        question = shared.question
        gold = Gold(question.answer, question.correct_option, question.abstain)
        unique = list(dict.fromkeys(one for one in finals if isinstance(one, str)))
        replies = await asyncio.gather(*(self.roles.judge.judge(shared.query, gold, one) for one in unique))
        judged = iter(_dealt([one for one in finals if isinstance(one, str)], dict(zip(unique, replies, strict=True))))
        return [next(judged) if isinstance(one, str) else None for one in finals]

    def _asked(
        self,
        shared: Shared,
        row_set: tuple[Row, ...],
        evidence: Evidence,
        answer: Reply[str],
        final: str | Missing,
        verdict: Reply[Verdict] | None,
    ) -> Asked:
        assert shared.verbatim is not None
        calls = (*shared.calls, answer.call, *(() if verdict is None else (verdict.call,)))
        return Asked(
            question=shared.question.id,
            projection=shared.projection,
            system1=shared.verbatim.selected,
            rows=row_set,
            evidence=evidence.text,
            without_evidence=evidence.empty,
            raw_answer=answer.value if isinstance(answer.value, str) else "",
            answer=final if isinstance(final, str) else "",
            verdict=_verdict(final, verdict),
            anchors=_anchors(shared, row_set),
            calls=calls,
        )

    def _unasked(self, shared: Shared, why: Missing) -> Asked:
        verdict = Verdict(VerdictKind.MISSING, _reason(why))
        anchors = AnchorHits(len(_anchor_ids(shared)), 0, 0, 0)
        return Asked(shared.question.id, shared.projection, (), (), "", False, "", "", verdict, anchors, shared.calls)


def offline_pipeline(config: PipelineConfig, embedder: Embedder) -> Pipeline:
    """The pipeline with its deterministic lexical roles."""
    return Pipeline(config, embedder, offline_roles())


def _final(reply: Reply[str]) -> str | Missing:
    return reply.value if isinstance(reply.value, Missing) else final_answer(reply.value)


def _reason(why: Missing) -> str:
    return f"{why.reason}: {why.detail}" if why.detail else why.reason


def _verdict(final: str | Missing, reply: Reply[Verdict] | None) -> Verdict:
    if isinstance(final, Missing):
        return Verdict(VerdictKind.MISSING, f"answer {_reason(final)}")
    assert reply is not None
    if isinstance(reply.value, Missing):
        return Verdict(VerdictKind.MISSING, f"judge {_reason(reply.value)}")
    return reply.value


def _dealt(keys: Sequence[str], replies: dict[str, Reply[T]]) -> list[Reply[T]]:
    """One reply for each key; the first to hold a key pays for it, the others have it cached."""
    paid: set[str] = set()
    result = []
    for key in keys:
        reply = replies[key]
        result.append(replace(reply, call=replace(reply.call, cached=True)) if key in paid else reply)
        paid.add(key)
    return result


def _anchor_ids(shared: Shared) -> set[str]:
    known = shared.view.entry_of
    return {known[message] for message in shared.question.evidence if message in known}


def _anchors(shared: Shared, row_set: Sequence[Row]) -> AnchorHits:
    anchors = _anchor_ids(shared)
    assert shared.verbatim is not None
    cited = {one for row in row_set for record in row.records for one in (record.entry_id, *record.from_ids)}
    recalled, selected = set(shared.verbatim.recalled), set(shared.verbatim.selected)
    return AnchorHits(len(anchors), len(anchors & recalled), len(anchors & selected), len(anchors & cited))
