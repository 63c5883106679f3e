"""Small states, and hypothesis strategies for contents and records that meet often."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from data.memory.executor import Report, execute
from data.memory.records import Layer, Record, UType
from data.memory.state import State
from data.network import GROUP
from data.segments import Segment, segments
from rewards.score import WriteFacts
from tests.tiny import make_network

SEGMENT: Segment = segments(make_network())[0]  # 4 messages: the budget is 8 actions
WORDS = ("ana", "bob", "locker", "red", "the", "picnic", "friday", "moved", "to", "park", "七", "京", "abcdefgh", "aaaa")
OWNERS = ("Ana", "Bob", GROUP)

texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.lists(st.sampled_from(WORDS), min_size=30, max_size=60).map(" ".join),  # in autojunk's reach
    st.text(max_size=30),
    st.sampled_from(["👍", "👎", "!!", "안녕 하세요", "Привет мир", "ありがとう", "İstanbul", ""]),
)


def record(
    content: str,
    owner: str = "Ana",
    source: str = "Bob",
    layer: Layer = Layer.CORE,
    entry_id: str = "d1",
    links: tuple[str, ...] = (),
) -> Record:
    return Record(entry_id, content, owner, source, layer, UType.FACT, "s1", 0, 1, "", links=links)


@st.composite
def states(draw: st.DrawFn, max_size: int = 10) -> State:
    """States of up to `max_size` records, some of them UPDATEs of earlier ones."""
    state = State()
    for content in draw(st.lists(texts, max_size=max_size)):
        heads = state.heads()
        old = draw(st.sampled_from([None, *heads]))
        if old is None:
            coordinates = (
                draw(st.sampled_from(OWNERS)),
                draw(st.sampled_from(["Ana", "Bob"])),
                draw(st.sampled_from(list(Layer)[1:3])),
            )
            state.append(record(content, *coordinates, entry_id=state.next_id()))
        else:
            state.append(record(content, old.owner, old.source, old.layer, state.next_id(), (old.entry_id,)))
    return state


def add(
    content: str, owner: str = "Ana", source: str = "Bob", layer: str = "per_speaker_core", utype: str = "fact"
) -> dict[str, str]:
    return {"action": "ADD", "content": content, "owner": owner, "source": source, "layer": layer, "utype": utype}


def update(entry_id: str, content: str) -> dict[str, str]:
    return {"action": "UPDATE", "entry_id": entry_id, "content": content}


NOOP = {"action": "NOOP"}


def run(attempts: Sequence[object], pre_state: State | None = None) -> tuple[Report, State, State]:
    """The report of executing the attempts, the state before and the state after."""
    before = State() if pre_state is None else pre_state
    after = before.clone()
    report = execute(after, attempts, SEGMENT, lambda contents, segment: [("v1",)] * len(contents))
    return report, before, after


def facts(
    attempts: Sequence[object], pre_state: State | None = None, json_valid: bool = True, cut_off: bool = False
) -> WriteFacts:
    report, before, after = run(attempts, pre_state)
    return WriteFacts(json_valid, tuple(attempts), report, before, after, cut_off)


def decoded(text: str) -> list[object]:
    return json.loads(text)["actions"]
