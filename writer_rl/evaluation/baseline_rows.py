"""Rows of the systems without a Writer, through the same Compose, Answer and Judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tqdm import tqdm

from data.memory.state import State
from data.network import DataError, Question
from rollout.llm.client import run
from rollout.query.answer import ABSTENTION
from rollout.query.pipeline import AnchorHits, Asked, Pipeline
from rollout.query.roles import Gold, Missing, Query, Verdict, VerdictKind
from rollout.query.view import MemoryView
from writer_rl.cases import Case
from writer_rl.evaluation.arms import with_ask
from writer_rl.evaluation.asking import asked_fields, check_evidence, network_hash, pipeline_fields, question_fields
from writer_rl.evaluation.baselines import Baseline, Count, Kind, check_window, retrieved
from writer_rl.evaluation.partial import lacks_score, partial_score
from writer_rl.evaluation.rows import Row, RowFile, judged, key
from writer_rl.runtime import Runtime


def evaluate_baseline(
    runtime: Runtime, baseline: Baseline, cases: Sequence[Case], count: Count, rows: RowFile | None = None
) -> list[Row]:
    """`question` rows of one baseline, once each (nothing is sampled); there is no memory to score. What `rows` holds with
    a verdict is not asked again. `count` gives the tokens of a text, for the window of a full context.

    Errors: a conversation that does not fit the window, before anything is asked; NoEvidence.
    """
    return run(_evaluate(runtime, baseline, cases, count, rows or RowFile(None)))


async def _evaluate(runtime: Runtime, baseline: Baseline, cases: Sequence[Case], count: Count, rows: RowFile) -> list[Row]:
    pipeline = with_ask(runtime.pipeline, False)
    for row in rows.of([baseline.name]):
        if (row["writer_id"], row["pipeline_id"]) != (baseline.id, pipeline.id):
            raise DataError(
                f"the rows of {baseline.name!r} were made by another baseline or through another pipeline; name it otherwise, "
                "or use another file"
            )
    views = {case.network.id: MemoryView.of(case.network) for case in cases}
    for name, view in views.items():
        check_window(baseline, view, name, count)
    planned = sum(len(case.network.questions) for case in cases)
    without = 0
    for case in tqdm(cases, desc=f"ask {baseline.name}", leave=False, disable=not runtime.accelerator.is_main_process):
        base = _base(baseline, pipeline, case)
        held = {key(row): row for row in rows.of([baseline.name])}
        view = views[case.network.id].prepared(runtime.embedder)
        due = [one for one in case.network.questions if not _done(held, base, one)]
        fresh = await asyncio.gather(*(_row(runtime, baseline, pipeline, case, view, one, base) for one in due))
        rows.append(fresh)
        if baseline.kind is not Kind.ABSTAIN:
            of_network = [row for row in rows.of([baseline.name]) if row["network"] == case.network.id]
            without += sum(row["without_evidence"] for row in of_network)
            check_evidence(baseline.name, without, planned)
    return [row for row in rows.of([baseline.name]) if row["network"] in views]


def _base(baseline: Baseline, pipeline: Pipeline, case: Case) -> Row:
    return {
        "writer": baseline.name,
        "system": baseline.name,
        "writer_id": baseline.id,
        "settings": baseline.id,
        "variant": "",
        "trained_on": False,
        "benchmark": case.network.benchmark,
        "network": case.network.id,
        "network_hash": network_hash(case.network),
        "seed": 0,
        "state_hash": "",
        **pipeline_fields(pipeline),
    }


async def _row(
    runtime: Runtime, baseline: Baseline, pipeline: Pipeline, case: Case, view: MemoryView, question: Question, base: Row
) -> Row:
    if baseline.kind is Kind.ABSTAIN:
        asked = await _abstained(pipeline, view, question)
    else:
        asked = await pipeline.finish(retrieved(baseline, pipeline, view, question), State())
    fields = asked_fields(asked, keep_evidence=baseline.kind is not Kind.FULL)
    partial = await partial_score(runtime, case.network.benchmark, question, asked.answer)
    return base | question_fields(question) | fields | partial.fields(fields["calls"])


async def _abstained(pipeline: Pipeline, view: MemoryView, question: Question) -> Asked:
    """Says to every question that nothing is known; judged like any answer. No evidence is looked for."""
    gold = Gold(question.answer, question.correct_option, question.abstain)
    query = Query(question.text, question.format, question.options)
    reply = await pipeline.roles.judge.judge(query, gold, ABSTENTION)
    verdict = reply.value
    if isinstance(verdict, Missing):
        verdict = Verdict(VerdictKind.MISSING, f"judge {verdict.reason}: {verdict.detail}")
    total = sum(message in view.entry_of for message in set(question.evidence))
    anchors = AnchorHits(total, 0, 0, 0)
    return Asked(question.id, None, (), (), "", False, ABSTENTION, ABSTENTION, verdict, anchors, (reply.call,))


def _done(held: dict[tuple[str, str, str, int, str], Row], base: Row, question: Question) -> bool:
    row = held.get(("question", base["writer"], base["network"], 0, question.id))
    return row is not None and row["network_hash"] == base["network_hash"] and judged(row) and not lacks_score(row)
