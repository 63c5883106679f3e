from __future__ import annotations

import pytest

from data.memory.records import Layer
from data.memory.state import State
from data.network import Member, Message, Network, Roster, Session
from data.segments import segments
from rollout.writer.prompt import WriterPrompt
from rollout.writer.view import build_view
from tests.rollout.writer.stubs import LetterEmbedder, NoEmbedder, record, state_of
from tests.tiny import make_network


def crowd(people: int, each: int):
    roster = Roster(tuple(Member(f"u{i}", f"P{i}") for i in range(people)))
    network = Network("crowd", roster, (Session("s1", (Message("m1", "u0", "zebra zoo"), Message("m2", "u1", "hello"))),))
    rows = [record(i * each + j + 1, f"P{i}", f"fact {j} of person {i}") for i in range(people) for j in range(each)]
    return segments(network)[0], state_of(*rows)


def test_nothing_is_embedded_while_everything_fits(tiny_tokenizer):
    segment, state = crowd(5, 6)
    view = build_view(segment, state, NoEmbedder(), WriterPrompt("compact", tiny_tokenizer))
    assert [(owner.owner, len(owner.heads)) for owner in view.owners] == [(f"P{i}", 6) for i in range(5)]
    assert view.omitted == 0


def test_owners_come_in_roster_order_and_group_last(tiny_tokenizer):
    segment = segments(make_network())[0]
    state = state_of(
        record(1, "GROUP", "a norm", Layer.INSIGHT, "Bob"),
        record(2, "Chen", "x"),
        record(3, "Ana", "y"),
        record(4, "Chen", "z"),
    )
    view = build_view(segment, state, NoEmbedder(), WriterPrompt("compact", tiny_tokenizer))
    assert [(owner.owner, [one.entry_id for one in owner.heads]) for owner in view.owners] == [
        ("Ana", ["d3"]),
        ("Chen", ["d2", "d4"]),
        ("GROUP", ["d1"]),
    ]


@pytest.mark.parametrize("style", ["full", "compact"])
def test_sixty_owners_with_fifty_heads_each_stay_visible_within_the_budget(tiny_tokenizer, style):
    segment, state = crowd(60, 50)
    prompt = WriterPrompt(style, tiny_tokenizer)
    view = build_view(segment, state, LetterEmbedder(), prompt, head_token_budget=6000)
    assert [owner.owner for owner in view.owners] == [f"P{i}" for i in range(60)]
    assert all(owner.heads and len(owner.heads) + owner.omitted == 50 for owner in view.owners)
    empty = build_view(segment, State(), NoEmbedder(), prompt)
    assert len(prompt.prompt_ids(view)) - len(prompt.prompt_ids(empty)) <= 6000
    for owner in view.owners:
        assert f"{owner.omitted} more not shown" in prompt.text(view) if style == "full" else f"{owner.owner} +{owner.omitted}"


@pytest.mark.parametrize("style", ["full", "compact"])
def test_an_owner_without_room_for_a_head_keeps_its_omitted_count(tiny_tokenizer, style):
    segment, state = crowd(60, 50)
    prompt = WriterPrompt(style, tiny_tokenizer)
    view = build_view(segment, state, LetterEmbedder(), prompt, head_token_budget=0)
    assert [(owner.owner, owner.heads, owner.omitted) for owner in view.owners] == [(f"P{i}", (), 50) for i in range(60)]
    assert all(f"\nP{i}" in prompt.text(view) for i in range(60))
    assert prompt.text(view).count("50 more not shown" if style == "full" else " +50") == 60


def test_at_most_forty_heads_an_owner_and_the_most_similar_stay_in_write_order(tiny_tokenizer):
    segment = segments(make_network())[0]
    state = state_of(*(record(i, "Ana", "locker belmo" if i in (3, 49) else "qqq") for i in range(1, 51)))
    prompt = WriterPrompt("compact", tiny_tokenizer)
    view = build_view(segment, state, LetterEmbedder(), prompt, head_token_budget=10**6)
    shown = [one.entry_id for one in view.owners[0].heads]
    assert (len(shown), view.omitted) == (40, 10)
    assert {"d3", "d49"} <= set(shown)
    assert shown == sorted(shown, key=lambda name: int(name[1:]))
    few = build_view(segment, state, LetterEmbedder(), prompt, max_heads_per_owner=2)
    assert [one.entry_id for one in few.owners[0].heads] == ["d3", "d49"]


def test_superseded_records_are_not_shown(tiny_tokenizer):
    segment = segments(make_network())[0]
    state = state_of(record(1, "Ana", "old"))
    newer = record(2, "Ana", "new")
    state.append(type(newer)(**{**{f: getattr(newer, f) for f in newer.__slots__}, "links": ("d1",)}))
    view = build_view(segment, state, NoEmbedder(), WriterPrompt("compact", tiny_tokenizer))
    assert [one.entry_id for one in view.owners[0].heads] == ["d2"]
