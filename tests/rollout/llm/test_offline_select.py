"""The offline Select: what each signal does, and that nothing but the question and the candidates decides."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.memory.records import Layer, Record, UType
from data.network import DataError, Question
from rollout.llm.offline import OfflineSelect
from rollout.llm.offline_select import Weights, ranked, signals
from rollout.query.identity import source_hashes
from rollout.query.roles import Candidate, Query
from tests.rollout.query.chats import network, pipeline, view

DENSE, BM25, SPEAKER, MENTIONED, NEIGHBOUR = range(5)


def said(number: int, owner: str, text: str, cosine: float, session: str = "s1", turn: int | None = None) -> Candidate:
    where = number if turn is None else turn
    record = Record(f"v{number}", text, owner, owner, Layer.EPISODIC, UType.UTTERANCE, session, where, number, "")
    return Candidate(record, cosine)


CHAT = [
    said(1, "Ana", "the canoe trip was fun", 0.40),
    said(2, "Bob", "Ana lost her paddle", 0.30),
    said(3, "Cleo", "I bought a canoe", 0.50),
    said(4, "Ana", "nothing much", 0.20),
    said(5, "Bob", "see you", 0.10, session="s2"),
]


def test_dense_is_the_cosine_scaled_to_the_candidates() -> None:
    np.testing.assert_allclose(signals("what?", CHAT)[:, DENSE], [0.75, 0.5, 1.0, 0.25, 0.0])


def test_bm25_counts_content_words_and_neither_names_nor_stop_words() -> None:
    column = signals("Did Ana and Bob like the canoe?", CHAT)[:, BM25]
    assert column[0] > 0 and column[2] == 1.0  # the shorter of the two that hold "canoe"
    assert column[1] == column[3] == column[4] == 0.0


def test_the_named_person_s_messages_and_mentions_are_told_apart() -> None:
    table = signals("What about Ana?", CHAT)
    assert table[:, SPEAKER].tolist() == [1, 0, 0, 1, 0]
    assert table[:, MENTIONED].tolist() == [0, 1, 0, 0, 0]


def test_a_speaker_who_names_themselves_is_not_mentioned_by_another() -> None:
    table = signals("What about Ana?", [said(1, "Ana", "Ana is here", 0.1), said(2, "Bob", "hi", 0.1)])
    assert table[:, MENTIONED].tolist() == [0, 0]


def test_neighbours_are_the_turns_beside_in_the_same_session() -> None:
    np.testing.assert_allclose(signals("what?", CHAT)[:, NEIGHBOUR], [0.5, 1.0, 0.5, 1.0, 0.0])


def test_the_right_speaker_comes_before_an_equal_message_of_another() -> None:
    pair = [said(1, "Bob", "I moved to Leeds", 0.5), said(9, "Ana", "I moved to Leeds", 0.5)]
    assert ranked("Where did Ana move?", pair, Weights()) == ["v9", "v1"]
    assert ranked("Where did Bob move?", pair, Weights()) == ["v1", "v9"]


def test_ties_go_to_the_earlier_message_and_not_to_the_text_of_the_id() -> None:
    tied = [said(number, "Ana", "same", 0.5, turn=number * 3) for number in (10, 2, 7)]
    assert ranked("what?", tied, Weights()) == ["v2", "v7", "v10"]


def test_a_question_without_a_telling_word_is_ranked_by_the_other_signals() -> None:
    for text in ("?", "what is it", "Zzyzx", "😂"):
        table = signals(text, CHAT)
        assert not table[:, BM25].any() and np.isfinite(table).all()
        assert ranked(text, CHAT, Weights(1, 1, 0, 0, 0)) == ["v3", "v1", "v2", "v4", "v5"]


def test_messages_without_a_word_are_ranked_too() -> None:
    wordless = [said(1, "Ana", "😂", 0.1), said(2, "Bob", "!!", 0.2, session="s2")]
    assert ranked("Any canoe?", wordless, Weights()) == ["v2", "v1"]
    assert ranked("Any canoe?", [], Weights()) == []


def test_first_person_means_the_asker() -> None:
    select = OfflineSelect(Weights(0, 0, 1, 0, 0))
    reply = asyncio.run(select.select(Query("What did I lose?", asker="Cleo"), CHAT))
    assert reply.value.order[0] == "v3"  # type: ignore[union-attr]
    reply = asyncio.run(select.select(Query("What was lost?", asker="Cleo"), CHAT))
    assert reply.value.order[0] == "v1"  # type: ignore[union-attr]


def test_an_entry_id_that_comes_twice_is_refused() -> None:
    with pytest.raises(DataError, match="twice"):
        ranked("what?", [CHAT[0], CHAT[0]], Weights())


@settings(max_examples=40, deadline=None)
@given(st.permutations(CHAT), st.sampled_from(["Where is Ana's canoe?", "Who lost a paddle?", "?"]))
def test_the_order_of_the_candidates_changes_nothing(shuffled: list[Candidate], text: str) -> None:
    assert ranked(text, shuffled, Weights()) == ranked(text, CHAT, Weights())


def test_the_weights_are_part_of_the_fingerprint_and_the_source_of_the_pipeline_id() -> None:
    assert OfflineSelect().fingerprint != OfflineSelect(replace(Weights(), dense=0.5)).fingerprint
    assert OfflineSelect().fingerprint != OfflineSelect(anchors=OfflineSelect().anchors + 1).fingerprint
    assert "rollout/llm/offline_select.py" in source_hashes()


def test_what_is_selected_does_not_depend_on_the_derived_state() -> None:
    chat = network(*[("abc"[i % 3], f"text {i} #0.{90 - i:02d}") for i in range(1, 60)])
    question = Question("q", "What did Bob say to Ana?", "x")
    bare = asyncio.run(pipeline().share(view(chat), question)).verbatim
    written = asyncio.run(pipeline().share(view(chat, ("Bob", "Ana", "Bob likes text 9"), ("Bob likes 12", "d1")), question))
    assert bare is not None and bare == written.verbatim
    assert len(bare.selected) == 10
