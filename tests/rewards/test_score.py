from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from data.memory.actions import to_json
from data.memory.executor import Report, execute
from data.memory.state import State
from data.segments import Segment, segments
from data.socialmem import load
from data.teacher import load_teacher, replay, resolve
from rewards.matching import Matcher
from rewards.score import RewardWeights, WriteFacts, score
from tests.rewards import reference
from tests.rewards.builders import NOOP, add, facts, run, update

SOCIALMEM = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "socialmem"


def two_writes() -> list[WriteFacts]:
    first = facts([add("the locker is red"), add("bob likes tea", owner="Bob")])
    return [first, facts([update("d1", "the locker is blue"), add("x", owner="Zoe")], first.state, cut_off=True)]


def wanted() -> list[State]:
    _, _, first = run([add("the locker is red"), add("bob likes green tea", owner="Bob")])
    return [first, run([update("d1", "the locker is green")], first)[2]]


def test_every_part_stands_in_the_score_and_adds_up_to_the_return():
    scored = score(two_writes(), wanted(), 0.5)
    first, last = (position.parts() for position in scored.positions)
    assert first["phi"] == reference.phi(two_writes()[0].state, wanted()[0])
    assert (first["valid"], first["chain"], first["penalty"]) == (1.0, 1.0, 0.0)
    assert first["mem"] == 0.80 * first["phi"] + 0.20 * 1.0
    assert first["qa_term"] == pytest.approx(0.35 * 0.95 * 0.5)
    assert last["chain"] == reference.chain(two_writes()[1].state.edges(), wanted()[1].edges()) < 1.0
    assert (last["penalty_json"], last["penalty_act"], last["penalty_count"], last["penalty_length"]) == (0.0, 1.0, 0.0, 1.0)
    assert (last["json"], last["schema"], last["dup"], last["stop"]) == (1.0, 0.5, 1.0, 0.0)
    assert last["qa_gain"] == 0.5
    for part in (first, last):
        total = 0.20 * part["valid"] + 0.45 * part["mem"] + part["penalty"] + part["qa_term"]
        assert part["return"] == pytest.approx(total, abs=1e-15)
    assert scored.returns == (first["return"], last["return"])


def test_a_missing_gain_is_left_out_and_worth_nothing():
    parts = score(two_writes(), wanted(), None).positions[0].parts()
    assert "qa_gain" not in parts
    assert parts["qa_term"] == 0.0


@pytest.mark.parametrize(
    ("weights", "total"),
    [
        (RewardWeights(w_mem=0.0, w_qa=0.0), lambda p: 0.20 * p["valid"] + p["penalty"]),
        (RewardWeights(w_qa=0.0), lambda p: 0.20 * p["valid"] + 0.45 * p["mem"] + p["penalty"]),
        (RewardWeights(w_phi=0.0), lambda p: 0.20 * p["valid"] + 0.45 * 0.20 * p["chain"] + p["penalty"] + p["qa_term"]),
        (RewardWeights(w_chain=0.0), lambda p: 0.20 * p["valid"] + 0.45 * 0.80 * p["phi"] + p["penalty"] + p["qa_term"]),
    ],
)
def test_a_weight_of_zero_takes_a_part_out_of_the_return_but_not_out_of_the_trace(weights, total):
    full = score(two_writes(), wanted(), 0.5)
    for ablated, before in zip(score(two_writes(), wanted(), 0.5, weights=weights).positions, full.positions, strict=True):
        parts = ablated.parts()
        assert parts["return"] == pytest.approx(total(parts), abs=1e-15)
        assert (parts["phi"], parts["chain"], parts["qa_gain"]) == (before.phi, before.chain, 0.5)


def test_one_matcher_for_a_group_changes_nothing():
    matcher = Matcher()
    group = [two_writes(), [facts([NOOP]), facts([])], two_writes()]
    shared = [score(writes, wanted(), 0.25, matcher) for writes in group]
    assert shared == [score(writes, wanted(), 0.25) for writes in group]


def test_the_share_of_long_contents_is_counted_over_both_states():
    write = facts([add("ab " * 70), add("short")])
    scored = score([write], [run([add("short")])[2]], None)
    assert (scored.positions[0].long_texts, scored.positions[0].texts) == (1, 3)
    assert scored.long_share == pytest.approx(1 / 3)
    assert score([facts([])], [State()], None).long_share == 0.0


def test_a_trajectory_of_another_length_is_an_error():
    with pytest.raises(ValueError, match="2 writes but 1 reference"):
        score(two_writes(), wanted()[:1], None)


def test_the_worst_output_is_still_scored():
    parts = score([facts([], json_valid=False, cut_off=True)], wanted()[:1], -1.0).positions[0].parts()
    assert parts["return"] == pytest.approx(0.45 * 0.20 - 0.35 - 0.35)


@pytest.mark.skipif(not SOCIALMEM.is_dir(), reason="the real networks are not at ../shared/data/socialmem")
def test_the_teacher_replayed_on_the_real_networks_has_full_marks():
    for network in load(SOCIALMEM / "networks"):
        cut = segments(network)
        teacher = load_teacher(SOCIALMEM / "teacher" / f"{network.id}.json")
        references = replay(teacher, cut)
        matcher, writes, state = Matcher(), [], State()
        for t, actions in enumerate(resolve(teacher, cut)):
            attempts = tuple(to_json(action) for action in actions)
            report = replay_report(state, attempts, cut[t])
            writes.append(WriteFacts(True, attempts, report, state, references[t], cut_off=False))
            state = references[t]
        for position in score(writes, references, 0.0, matcher).positions:
            assert (position.phi, position.chain) == (pytest.approx(1.0, abs=1e-12), pytest.approx(1.0, abs=1e-12))
            assert position.penalty.total == 0.0
            assert (position.validity.json, position.validity.schema, position.validity.dup) == (1.0, 1.0, 1.0)


def replay_report(state: State, attempts: tuple[object, ...], segment: Segment) -> Report:
    return execute(state.clone(), attempts, segment, lambda contents, _: [(segment.verbatim[0].entry_id,)] * len(contents))


def test_rewards_know_nothing_of_rollout_or_training():
    check = "import sys, rewards.score;print([m for m in sys.modules if m.split('.')[0] in ('rollout', 'writer_rl', 'torch')])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
