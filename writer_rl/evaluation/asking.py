"""Question rows: one question against one memory, with everything that any table needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from data.memory.state import State
from data.network import DataError, Network, Question
from rollout.query.evidence import Row as EvidenceRow
from rollout.query.pipeline import Asked, Pipeline
from rollout.query.project import Projection
from writer_rl.evaluation.rows import Row

EVIDENCE_LIMIT = 0.05  # share of a system's questions without any evidence from which on retrieval is at fault (pitfall 38)


class NoEvidence(DataError):
    """So many questions found nothing that the retrieval, not the Writer, must be broken."""


def network_hash(network: Network) -> str:
    """sha256 over all that a network holds."""
    return _sha(json.dumps({**asdict(network), "source": ""}, sort_keys=True, ensure_ascii=False, default=str))


def state_hash(state: State) -> str:
    """sha256 over the records of a state in write order."""
    return _sha(json.dumps([asdict(record) for record in state], ensure_ascii=False))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pipeline_fields(pipeline: Pipeline) -> Row:
    """What a row says of the pipeline it came through."""
    budgets = pipeline.config.budgets
    return {
        "pipeline_id": pipeline.id,
        "offline": pipeline.offline,
        "ask": pipeline.config.ask,
        "budgets": [budgets.recall, budgets.top_k, budgets.k, budgets.source_k],
    }


def question_fields(question: Question) -> Row:
    """What a row says of its question; `gold` is the letter of a multiple choice, else the answer."""
    return {
        "row": "question",
        "question": question.id,
        "type": question.kind,
        "format": question.format,
        "text": question.text,
        "gold": question.correct_option or question.answer,
        "gold_text": question.answer,
        "gold_option": question.correct_option,
        "abstain": question.abstain,
        "extra": [list(pair) for pair in question.extra],
    }


def asked_fields(asked: Asked, keep_evidence: bool) -> Row:
    """What came of asking. The evidence's text is left out of a full context (its ids and hash are there)."""
    anchors = asked.anchors
    return {
        "verdict": asked.verdict.kind.value,
        "reason": asked.verdict.reason,
        "answer": asked.answer,
        "raw_answer": asked.raw_answer,
        "projection": None if asked.projection is None else _projection(asked.projection),
        "statuses": {row.name: row.status.value for row in asked.rows},
        "rows": [_evidence_row(row) for row in asked.rows],
        "system1": list(asked.system1),
        "anchors": [anchors.total, anchors.recalled, anchors.selected, anchors.rows],
        "evidence": asked.evidence if keep_evidence else None,
        "evidence_hash": _sha(asked.evidence),
        "without_evidence": asked.without_evidence,
        "calls": [asdict(call) for call in asked.calls],
    }


def _projection(one: Projection) -> Mapping[str, Any]:
    rows, unknown = list(one.rows), list(one.unknown)
    return {"issue": one.issue, "rows": rows, "tense": one.tense.value, "source": one.source, "unknown": unknown}


def _evidence_row(row: EvidenceRow) -> Mapping[str, Any]:
    return {
        "name": row.name,
        "status": row.status.value,
        "below": row.below,
        "chains": [[record.entry_id for record in chain] for chain in row.chains],
        "said": [[record.entry_id for record in chain] for chain in row.said],
        "fallback": None if row.fallback is None else row.fallback.entry_id,
    }


def check_evidence(label: str, without: int, planned: int) -> None:
    """Raise NoEvidence once more than 5 % of the planned questions found no evidence at all."""
    if planned and without / planned > EVIDENCE_LIMIT:
        raise NoEvidence(
            f"{label}: {without} of {planned} questions found no evidence (allowed: {EVIDENCE_LIMIT:.0%}). That is a fault of "
            "retrieval, not of the memory: check the embedder, the thresholds and the network's messages, then run again; "
            "rows so far are kept"
        )
