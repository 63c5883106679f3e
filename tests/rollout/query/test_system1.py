"""The verbatim track: recall, order, Expand, ASK, cut; never a look at derived records."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.network import Question
from rollout.query.config import Budgets, PipelineConfig
from rollout.query.roles import BlankQuery, Missing, Selected, Sufficiency, VerdictKind
from rollout.query.view import MemoryView
from tests.rollout.query.chats import Scripted, network, pipeline, state, view

COSINE = Scripted([Selected(())], role="select")  # ranks nothing: what it leaves out follows by cosine
QUESTION = Question("q", "Where is Ana's locker?", "belmo")
CHAT = network(*[("ab"[i % 2], f"text {i} #0.{50 - i:02d}") for i in range(1, 50)], sessions=7)


def share(made, chat=CHAT, question=QUESTION):
    return asyncio.run(made.share(view(chat), question))


def test_forty_are_recalled_and_ten_kept_best_first() -> None:
    found = share(pipeline(select=COSINE)).verbatim
    assert found.recalled == tuple(f"v{n}" for n in range(1, 41))
    assert found.selected == tuple(f"v{n}" for n in range(1, 11))


def test_ties_go_by_id_and_blank_messages_are_never_evidence() -> None:
    chat = network(("a", "same #0.5"), ("a", "  "), ("b", "same #0.5"), ("c", "near #0.9"))
    assert share(pipeline(select=COSINE), chat).verbatim.selected == ("v4", "v1", "v3")


def test_a_blank_question_is_a_typed_error() -> None:
    with pytest.raises(BlankQuery, match="'q7'"):
        share(pipeline(), question=Question("q7", " \n", "x"))


def test_expand_brings_five_neighbours_of_two_anchors_in_the_same_session() -> None:
    chat = network(*[("a", f"text {i} #0.{99 - i:02d}") for i in range(1, 31)], sessions=2)  # s1: v1..v15, s2: v16..v30
    select = Scripted([Selected((), ("v2", "v15", "v9")), Selected(())], role="select")
    made = pipeline(config=PipelineConfig(Budgets(recall=15, top_k=10)), select=select)
    found = share(made, chat).verbatim
    assert found.expanded == ()  # v3..v7 and v10..v14 were recalled, v16.. is another session
    made = pipeline(config=PipelineConfig(Budgets(recall=10, top_k=10)), select=Scripted([Selected((), ("v8", "v9", "v2"))]))
    assert share(made, chat).verbatim.expanded == ("v11", "v12", "v13", "v14")


def test_expand_stops_after_two_rounds() -> None:
    chat = network(*[("a", f"text {i} #0.{99 - i:02d}") for i in range(1, 41)])
    select = Scripted([lambda ids: Selected(tuple(reversed(ids)), (max(ids, key=lambda one: int(one[1:])),))])
    made = pipeline(config=PipelineConfig(Budgets(recall=1, top_k=1)), select=select)
    shared = share(made, chat)
    assert [len(ids) for ids in select.seen] == [1, 6, 11]
    assert shared.verbatim.selected == ("v11",)
    assert [call.role for call in shared.calls] == ["project", "answer", "answer", "answer"]


def test_what_select_leaves_out_follows_by_cosine_and_unknown_ids_are_reported() -> None:
    select = Scripted([Selected(("v7", "v99", "v7", "v3"), ("v98",))])
    found = share(pipeline(select=select)).verbatim
    assert found.selected[:5] == ("v7", "v3", "v1", "v2", "v4")
    assert len(set(found.selected)) == 10
    assert found.ignored == ("v99", "v98")


def test_ask_sees_the_cut_evidence_recalls_twenty_more_and_ranks_again() -> None:
    chat = network(*[("a", f"text {i} #0.{90 - i:02d}") for i in range(1, 61)])
    ask = Scripted([Sufficiency(False, "far #-1")], role="ask")
    select = Scripted([lambda ids: Selected(tuple(sorted(ids, key=lambda one: -int(one[1:]))))])
    config = PipelineConfig(Budgets(recall=12, top_k=10), ask=True)
    found = share(pipeline(config=config, ask=ask, select=select), chat).verbatim
    assert ask.seen == [[f"v{n}" for n in range(12, 2, -1)]]
    assert [len(ids) for ids in select.seen] == [12, 32]
    assert found.asked == "far #-1"
    assert found.selected == tuple(f"v{n}" for n in range(60, 50, -1))
    enough = pipeline(config=config, ask=Scripted([Sufficiency(True, "far #-1")]), select=Scripted([Selected(())]))
    assert share(enough, chat).verbatim.selected == tuple(f"v{n}" for n in range(1, 11))


def test_ask_is_off_unless_it_is_switched_on() -> None:
    ask = Scripted([Sufficiency(False, "more")])
    share(pipeline(ask=ask))
    assert ask.seen == []


def test_a_missing_select_makes_the_question_missing_in_every_arm() -> None:
    made = pipeline(select=Scripted([Missing("outage", "503")]))
    shared = share(made)
    asked = asyncio.run(made.finish_all(shared, [state(), state(("Ana", "Ana", "x #0.9"))]))
    assert [(one.verdict.kind, one.verdict.reason) for one in asked] == [(VerdictKind.MISSING, "outage: 503")] * 2


def test_the_asker_takes_part_in_retrieval() -> None:
    seen = []

    class Spy(type(pipeline().embedder)):  # type: ignore[misc]
        def embed(self, texts):
            seen.extend(texts)
            return super().embed(texts)

    share(pipeline(Spy()), question=Question("q", "Where is my locker?", "x", asker="b"))
    assert "[Bob] Where is my locker?" in seen


owners = st.sampled_from(["Ana", "Bob", "Cleo", "GROUP"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(owners, owners, st.text(max_size=12)), max_size=5))
def test_derived_records_never_change_system_1(records: list[tuple[str, str, str]]) -> None:
    made = pipeline()
    with_records = MemoryView.of(CHAT, state(*records))
    shared = asyncio.run(made.share(with_records, QUESTION))
    assert shared.verbatim == share(made).verbatim
    arms = asyncio.run(made.finish_all(shared, [state(), state(*records)]))
    assert arms[0].system1 == arms[1].system1
