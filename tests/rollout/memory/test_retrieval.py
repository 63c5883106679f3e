"""What is embedded, the order of ties, and provenance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.network import Member, Message, Network, Roster, Session
from data.segments import Segment, segments
from rollout.memory.embedder import HashEmbedder, Thresholds
from rollout.memory.provenance import support
from rollout.memory.vectors import best, id_key, memory_text, query_text, ranking


def one_segment(*texts: str) -> Segment:
    messages = tuple(Message(f"m{i}", "a", text, "2025-10-06T12:08:00") for i, text in enumerate(texts))
    return segments(Network("n", Roster((Member("a", "Ana"),)), (Session("s", messages),)))[0]


class Planned:
    """Cosines as the test wants them: message texts are their cosine to every content."""

    id, dim, thresholds = "planned", 2, Thresholds()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        made = []
        for text in texts:
            try:
                cosine = float(text.rsplit(" ", 1)[-1])
            except ValueError:
                cosine = 1.0
            made.append([cosine, float(np.sqrt(1 - cosine**2))])
        return np.array(made, dtype=np.float32)


def test_the_embedded_text_says_who_and_when() -> None:
    record = one_segment("my locker is belmo").verbatim[0]
    assert memory_text(record) == "[Ana](by Ana)@2025-10-06 my locker is belmo"
    assert query_text("Where?", None) == "Where?"
    assert query_text("Where am I?", "Ana") == "[Ana] Where am I?"


def test_ties_go_by_confidence_then_by_the_number_of_the_id() -> None:
    records = one_segment(*["same"] * 11).verbatim
    assert [records[i].entry_id for i in ranking(records, [0.5] * 11)] == [f"v{n}" for n in range(1, 12)]
    assert sorted(["v10", "v2", "x", "d3"], key=id_key) == ["d3", "v2", "v10", "x"]


def test_up_to_three_messages_support_a_record_best_first_ties_by_turn() -> None:
    segment = one_segment("0.3", "0.9", "0.5", "0.9", "0.24")
    assert support(Planned())(["content"], segment) == [("v2", "v4", "v3")]
    assert support(Planned())(["content"], one_segment("0.25", "0.2499")) == [("v1",)]


def test_a_record_without_near_messages_cites_the_best_one() -> None:
    assert support(Planned())(["content", "content"], one_segment("0.1", "0.2", "0.2")) == [("v2",), ("v2",)]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=6), st.lists(st.text(max_size=20), max_size=4))
def test_provenance_is_never_empty_and_stays_inside_the_segment(messages: list[str], contents: list[str]) -> None:
    segment = one_segment(*messages)
    found = support(HashEmbedder())(contents, segment)
    inside = {record.entry_id for record in segment.verbatim}
    assert len(found) == len(contents)
    assert all(1 <= len(one) <= 3 and len(set(one)) == len(one) and set(one) <= inside for one in found)


def test_hash_and_minilm_thresholds_differ() -> None:
    assert HashEmbedder().thresholds != Thresholds()
    assert pytest.approx((0.25, 0.30, 0.25)) == (Thresholds().provenance, Thresholds().row, Thresholds().fallback)


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3]), max_size=12), st.integers(0, 14))
def test_the_best_are_the_head_of_the_ranking_ties_included(scores: list[float], count: int) -> None:
    records = one_segment(*["same"] * max(1, len(scores))).verbatim[: len(scores)]
    assert best(records, np.array(scores), count) == ranking(records, scores)[:count]
