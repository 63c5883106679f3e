"""Provenance: which messages of its segment support a derived record (`from_ids`)."""

from __future__ import annotations

from collections.abc import Sequence

from data.memory.executor import Support
from data.segments import Segment
from rollout.memory.embedder import Embedder
from rollout.memory.vectors import cosines, embed_records

MOST = 3  # messages that a record may cite


def support(embedder: Embedder) -> Support:
    """Contents [n] of a segment -> for each the ids of up to three messages with a cosine of at least the embedder's
    provenance threshold, best first, ties by turn; never empty: else the best message alone."""

    def supporting(contents: Sequence[str], segment: Segment) -> list[tuple[str, ...]]:
        messages = embed_records(embedder, segment.verbatim)  # [m, dim]
        least = embedder.thresholds.provenance
        result = []
        for content in embedder.embed(list(contents)):
            scores = cosines(messages, content)
            order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
            near = [index for index in order if scores[index] >= least][:MOST]
            result.append(tuple(segment.verbatim[index].entry_id for index in near or order[:1]))
        return result

    return supporting
