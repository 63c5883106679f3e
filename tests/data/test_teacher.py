from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data.catalog import load_networks
from data.memory.actions import Add, Noop, Update, render
from data.memory.records import Layer, UType
from data.memory.state import State
from data.network import DataError
from data.segments import Segment, segments
from data.teacher import Step, Teacher, load_teacher, replay, resolve, save_teacher
from tests.data.builders import NO_SOCIALMEM, SOCIALMEM, network, write

real = pytest.mark.skipif(not (SOCIALMEM / "networks").is_dir(), reason=NO_SOCIALMEM)
PARTS = segments(network(3, 3, 2))


def step_add(ref: str, content: str, *evidence: str, **changes: str) -> Step:
    made = Step("ADD", content, "ben ", "u1", "per_speaker_profile", "observation", ref, evidence=evidence)
    return replace(made, **changes)


def step_update(target: str, ref: str, content: str, *evidence: str) -> Step:
    return Step("UPDATE", content, ref=ref, target=target, evidence=evidence)


STEPS = (
    (step_add("a", "Ben has 38 %", "s1m2", "s1m0"), step_add("b", "Ben is tired", "s1m1")),
    (step_update("a", "c", "Ben has 97 %", "s2m0", "s1m0"), step_update("c", "d", "Ben is full", "s2m1")),
    (),
)
TEACHER = Teacher("net", STEPS, "t.json", ("s1", "s2", "s3"))


def test_refs_become_the_ids_that_replay_writes() -> None:
    assert resolve(TEACHER, PARTS) == [
        [
            Add("Ben has 38 %", "Ben", "Ann", Layer.PROFILE, UType.OBSERVATION),
            Add("Ben is tired", "Ben", "Ann", Layer.PROFILE, UType.OBSERVATION),
        ],
        [Update("d1", "Ben has 97 %"), Update("d3", "Ben is full")],
        [Noop()],
    ]


def test_reference_states_are_those_after_each_position() -> None:
    states = replay(TEACHER, PARTS)
    assert [len(state) for state in states] == [2, 4, 4]
    assert [[record.entry_id for record in state.heads()] for state in states] == [["d1", "d2"], ["d2", "d4"], ["d2", "d4"]]
    assert [record.content for record in states[1].chain("d1")] == ["Ben has 38 %", "Ben has 97 %", "Ben is full"]


def test_records_point_to_the_steps_evidence_inside_the_segment_in_message_order() -> None:
    last = replay(TEACHER, PARTS)[-1]
    assert [record.from_ids for record in last] == [("v1", "v3"), ("v2",), ("v4",), ("v5",)]
    assert [record.turn for record in last] == [2, 1, 0, 1]


def test_a_segment_without_steps_and_one_noop_are_the_same() -> None:
    noop = replace(TEACHER, segments=(*STEPS[:2], (Step("NOOP"),)))
    assert resolve(noop, PARTS) == resolve(TEACHER, PARTS)
    assert replay(noop, PARTS) == replay(TEACHER, PARTS)


def test_replaying_twice_gives_the_same_bytes_and_later_positions_change_no_earlier_state() -> None:
    def dump() -> str:
        return repr([list(state) for state in replay(TEACHER, PARTS)])

    assert dump() == dump()
    assert replay(TEACHER, PARTS)[0].heads()[0].superseded_by is None


A = step_add("x", "Ben naps", "s2m0")
INVALID: list[tuple[tuple[Step, ...], str]] = [
    ((replace(A, owner="Dora"),), "ref 'x': invalid ADD, unknown_owner: .*'Dora' is not on the roster"),
    ((replace(A, layer="group_insight"),), "ref 'x': invalid ADD, scope"),
    ((replace(A, utype="utterance"),), "ref 'x': invalid ADD, bad_utype"),
    ((A, replace(A, ref="y")), "ref 'y': invalid ADD, duplicate_add"),
    ((step_update("a", "x", "ben has  38 %", "s2m0"),), "ref 'x': invalid UPDATE, unchanged: d1"),
    ((step_update("a", "x", "1", "s2m0"), step_update("a", "y", "2", "s2m0")), "ref 'y': invalid UPDATE, not_a_head: d1"),
    ((step_update("zz", "x", "1", "s2m0"),), "ref 'x': invalid UPDATE, unknown_entry: no record 'zz'"),
    ((step_add("x", "1", "s3m0"),), "ref 'x': evidence 's3m0' is no message up to this segment"),
    ((step_add("x", "1", "nope"),), "ref 'x': evidence 'nope' is no message"),
    ((step_add("x", "1", "s1m0"),), "ref 'x': no evidence inside the segment"),
    ((Step("NOOP"), A), "invalid NOOP, noop_not_alone"),
    (tuple(step_add(f"x{n}", f"{n}", "s2m0") for n in range(9)), "9 steps where the budget is 8"),
]


@pytest.mark.parametrize(("steps", "message"), INVALID)
@pytest.mark.parametrize("use", [resolve, replay])
def test_a_step_that_memory_rejects_is_an_error_with_file_segment_ref_and_reason(use: Any, steps: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        use(replace(TEACHER, segments=(STEPS[0], steps, ())), PARTS)
    assert str(error.value).startswith("t.json [net], segment 2 (s2)")


@pytest.mark.parametrize(
    ("teacher", "parts", "message"),
    [
        (TEACHER, PARTS[:2], "3 segments where the network is cut into 2"),
        (TEACHER, segments(network(4, 3, 2), window=2), "3 segments where the network is cut into 4"),
        (TEACHER, segments(network(4, 3, 2), window=2)[:3], "segment 2: session 's2' where the network has 's1'"),
        (replace(TEACHER, sessions=("s1", "s3", "s2")), PARTS, "segment 2: session 's3' where the network has 's2'"),
        (replace(TEACHER, network="other"), PARTS, "is for network 'other', not net"),
    ],
)
def test_a_teacher_of_another_cut_is_an_error(teacher: Teacher, parts: tuple[Segment, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replay(teacher, parts)


def test_a_saved_teacher_reads_back_equal(tmp_path: Path) -> None:
    teacher = replace(
        TEACHER, segments=((step_add("a", "Cléo mag 你好", "s1m0"),), (Step("NOOP"),), ()), source=str(tmp_path / "t.json")
    )
    save_teacher(teacher, tmp_path / "t.json")
    assert load_teacher(tmp_path / "t.json") == teacher
    assert "你好" in (tmp_path / "t.json").read_text(encoding="utf-8")
    save_teacher(replace(teacher, sessions=()), tmp_path / "t.json")
    assert load_teacher(tmp_path / "t.json").sessions == ()


ADD = {
    "action": "ADD",
    "ref": "a",
    "owner": "Ann",
    "source": "Ann",
    "layer": "x",
    "utype": "y",
    "content": "c",
    "evidence": ["m"],
}
UPDATE = {"action": "UPDATE", "target": "a", "ref": "b", "content": "c", "evidence": ["m"]}


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([{"action": "DROP"}], "segment 1, step 1: field 'action' is 'DROP'"),
        ([ADD | {"topic": "t"}], r"segment 1, step 1 \(ref 'a'\): field 'topic' does not belong to ADD"),
        ([ADD | {"evidence": []}], r"\(ref 'a'\): field 'evidence' is empty"),
        ([ADD | {"evidence": "m"}], r"\(ref 'a'\): field 'evidence' is a text where a list"),
        ([ADD | {"content": None}], r"\(ref 'a'\): field 'content' is null"),
        ([{k: v for k, v in ADD.items() if k != "owner"}], r"\(ref 'a'\): field 'owner' is missing"),
        ([ADD, ADD], r"step 2 \(ref 'a'\): field 'ref' names a record that exists"),
        ([UPDATE], r"step 1 \(ref 'b'\): field 'target' is 'a', which no earlier step wrote"),
        ([ADD, UPDATE | {"target": "b"}], r"step 2 \(ref 'b'\): field 'target' is 'b'"),
        ([ADD, UPDATE | {"owner": "Ann"}], r"field 'owner' does not belong to UPDATE"),
        ([ADD, {"action": "NOOP"}], "segment 1: NOOP beside other steps"),
        ("NOOP", "segment 1: field 'actions' is a text"),
        (["NOOP"], "segment 1, step 1: is a text where an object"),
    ],
)
def test_a_misfit_in_a_teacher_file_is_an_error_that_names_its_place(tmp_path: Path, actions: Any, message: str) -> None:
    path = write(tmp_path / "t.json", {"network_id": "net", "segments": [{"actions": copy.deepcopy(actions)}]})
    with pytest.raises(DataError, match=message) as error:
        load_teacher(path)
    assert "t.json" in str(error.value)


@real
def test_the_teacher_replayed_over_the_real_networks_has_no_invalid_action() -> None:
    kinds: Counter[str] = Counter()
    states = 0
    for made, teacher in load_networks("socialmem", SOCIALMEM):
        assert teacher is not None
        parts = segments(made)
        kinds.update(type(action).__name__ for actions in resolve(teacher, parts) for action in actions)
        references = replay(teacher, parts)
        states += len(references)
        _check(references, parts)
    assert kinds == {"Add": 483, "Update": 142}
    assert states == 50


@real
def test_the_bundled_teachers_are_the_shared_ones() -> None:
    for file in (SOCIALMEM / "teacher").glob("*.json"):
        bundled = Path(load_teacher.__code__.co_filename).parent / "bundled" / "socialmem" / "teacher" / file.name
        assert json.loads(bundled.read_text(encoding="utf-8")) == json.loads(file.read_text(encoding="utf-8"))


def test_the_own_teachers_replay_and_every_target_can_be_written() -> None:
    for made, teacher in load_networks("own"):
        assert teacher is not None
        parts = segments(made)
        _check(replay(teacher, parts), parts)
        for actions in resolve(teacher, parts):
            assert "\\u" not in render(actions)


def _check(references: list[State], parts: tuple[Segment, ...]) -> None:
    """History never shrinks, from_ids are inside the segment, a chain has one head."""
    before: list[str] = []
    for state, part in zip(references, parts, strict=True):
        ids = [record.entry_id for record in state]
        assert ids[: len(before)] == before
        inside = {record.entry_id for record in part.verbatim}
        for entry_id in ids[len(before) :]:
            record = state.get(entry_id)
            assert record is not None and record.from_ids and inside.issuperset(record.from_ids)
        before = ids
        assert len(state) - len(state.edges()) == len(state.heads())
