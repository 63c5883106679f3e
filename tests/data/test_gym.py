"""The gym: exact gold, disjoint splits, and levers that do what they say."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.gym import SPLITS, GymConfig, generate, networks, vocabulary, wording
from data.gym.__main__ import page
from data.gym.config import EVENTS
from data.gym.questions import KINDS, NOT_MENTIONED
from data.memory.state import State
from data.network import DataError
from data.segments import segments
from data.teacher import replay
from rollout.memory.embedder import HashEmbedder
from rollout.query.config import PipelineConfig
from rollout.query.pipeline import offline_pipeline
from rollout.query.view import MemoryView

CONFIG = GymConfig()
FIXED = {"vudom": "train", "groskol": "dev", "drugro": "test"}
SHARED = (
    *vocabulary.ATTRIBUTES,
    *" ".join(vocabulary.ATTRIBUTES.values()).split(),
    *vocabulary.TOPICS,
    *vocabulary.CUSTOMS,
    *vocabulary.RELATIONS,
    *wording.STANCES,
)


def as_bytes(pair) -> bytes:
    network, teacher = pair
    return json.dumps([asdict(network), asdict(teacher)], default=str).encode()


def spoken_words(pair) -> set[str]:
    network, teacher = pair
    texts = [message.text for message in network.messages()] + [step.content for steps in teacher.segments for step in steps]
    texts += [text for question in network.questions for text in (question.text, question.answer)]
    return set(re.findall(r"[a-z]+", " ".join([*texts, *network.roster.names]).lower()))


def final_states(config: GymConfig, count: int, split="train"):
    for network, teacher in networks(config, split, 0, count):
        yield network, teacher, replay(teacher, segments(network))


@pytest.fixture(scope="module")
def sample():
    return list(networks(CONFIG, "train", 1, 150))


def kinds_of_steps(pairs) -> Counter[str]:
    return Counter(step.action for _, teacher in pairs for steps in teacher.segments for step in steps)


def test_the_same_arguments_give_the_same_bytes():
    assert as_bytes(generate(CONFIG, "dev", 3, 5)) == as_bytes(generate(CONFIG, "dev", 3, 5))
    assert as_bytes(list(networks(CONFIG, "dev", 3, 6))[5]) == as_bytes(generate(CONFIG, "dev", 3, 5))


def test_seed_index_and_split_each_change_the_network():
    made = {as_bytes(generate(CONFIG, *where)) for where in (("dev", 0, 0), ("dev", 0, 1), ("dev", 1, 0), ("test", 0, 0))}
    assert len(made) == 4


def test_bytes_do_not_depend_on_the_process():
    program = "from data.gym import *; print(generate(GymConfig(), 'test', 0, 7))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and b"gym_test_0_7" in outputs.pop()


def test_the_split_of_a_word_is_fixed_for_good():
    assert {word: vocabulary.split_of(word) for word in FIXED} == FIXED


def test_splits_share_no_name_and_no_value():
    words = {split: set().union(*map(spoken_words, networks(CONFIG, split, 0, 60))) for split in SPLITS}
    frame = set(re.findall(r"[a-z]+", " ".join(map(str, vars(wording).values())).lower()))
    for first, second in (("train", "dev"), ("train", "test"), ("dev", "test")):
        both = words[first] & words[second]
        coined = {word for word in both if word not in frame and not set(word.split()) & set(SHARED)}
        coined -= {word for pair in vocabulary.HABITS.items() for word in pair}
        questions = set(re.findall(r"[a-z]+", " ".join(text for texts in question_wordings() for text in texts).lower()))
        relations = {word + "s" for word in vocabulary.RELATIONS}
        assert coined - questions - relations - {"group", "not", "mentioned"} == set()


def question_wordings():
    from data.gym.questions import WORDINGS

    return WORDINGS.values()


@pytest.mark.parametrize("split", SPLITS)
def test_every_teacher_replays_without_an_invalid_action(split):
    for network, teacher, states in final_states(CONFIG, 60, split):
        assert len(states) == len(network.sessions)
        writes = [step for steps in teacher.segments for step in steps if step.action != "NOOP"]
        assert [record.content for record in states[-1]] == [step.content for step in writes]


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        GymConfig,
        members=st.sampled_from([(2, 2), (2, 6), (6, 6)]),
        segments=st.sampled_from([(1, 1), (8, 8)]),
        messages=st.sampled_from([(2, 2), (3, 12)]),
        update=st.sampled_from([0.0, 1.0]),
        elliptic=st.sampled_from([0.0, 1.0]),
        quiet=st.sampled_from([0.0, 1.0]),
        distractors=st.sampled_from([0.0, 1.0]),
        conflict=st.sampled_from([0.0, 1.0]),
        **{name: st.sampled_from([0.5, 3.0]) for name in EVENTS},
    ),
    st.integers(0, 3),
)
def test_every_config_makes_valid_networks(config, seed):
    network, teacher = generate(config, "train", seed, 0)
    replay(teacher, segments(network))
    assert config.members[0] <= len(network.roster.names) <= config.members[1]
    assert len(network.questions) <= config.questions[1]


def test_sizes_stay_inside_their_ranges(sample):
    for network, teacher in sample:
        assert 3 <= len(network.roster.names) <= 5 and 4 <= len(network.sessions) <= 6
        assert all(4 <= len(session.messages) <= 8 for session in network.sessions)
        assert all(1 <= len(steps) <= 4 for steps in teacher.segments)
        assert 4 <= len(network.questions) <= 8
        assert all(len(message.text.split()) <= 14 for message in network.messages())
        assert all(len(step.content.split()) <= 9 for steps in teacher.segments for step in steps)


def test_every_kind_of_question_occurs_and_only_never_abstains(sample):
    asked = Counter(question.kind for network, _ in sample for question in network.questions)
    assert set(asked) == set(KINDS) and min(asked.values()) >= 10
    for network, _ in sample:
        for question in network.questions:
            assert question.abstain == (question.kind == "never") == (question.answer == NOT_MENTIONED)


def test_evidence_of_questions_exists_and_is_empty_only_for_never(sample):
    for network, _ in sample:
        ids = {message.id for message in network.messages()}
        for question in network.questions:
            assert set(question.evidence) <= ids
            assert bool(question.evidence) != question.abstain


def test_every_answer_follows_from_the_reference_state():
    for network, _, states in final_states(CONFIG, 60):
        records = list(states[-1])
        for question in network.questions:
            fitting = [record for record in records if set(question.evidence) & messages_of(record, network)]
            match question.kind:
                case "never":
                    noun = next(word for word in re.findall(r"\w+", question.text) if word in vocabulary.ATTRIBUTES)
                    assert not any(f"'s {vocabulary.ATTRIBUTES[noun]} is" in record.content for record in records)
                case "holder" | "exception":
                    assert question.answer in {record.owner for record in fitting}
                case "said":
                    assert question.answer in {record.source for record in fitting}
                case "earlier":
                    assert any(record.content.endswith(f"is {question.answer}") and not record.head for record in fitting)
                case _:
                    assert any(record.content.endswith(f"is {question.answer}") and record.head for record in fitting)


def messages_of(record, network) -> set[str]:
    numbered = {f"v{i}": message.id for i, message in enumerate(network.messages(), 1)}
    return {numbered[one] for one in record.from_ids}


def test_a_lured_value_is_never_written():
    config = replace(CONFIG, distractors=1.0, lures=1.0)
    assert kinds_of_steps(networks(config, "train", 0, 30)).keys() == {"NOOP"}


def test_a_value_that_is_told_again_is_not_written_again(sample):
    for _, teacher in sample:
        contents = [
            step.content
            for steps in teacher.segments
            for step in steps
            if step.action == "ADD" and "stance" not in step.content
        ]
        reports = [step for steps in teacher.segments for step in steps if step.action == "ADD"]
        assert len({(step.owner, step.source, step.content) for step in reports}) == len(reports)
        assert len(set(contents)) == len(contents)


def test_shares_do_what_they_say():
    def count(**changes):
        return list(networks(replace(CONFIG, **changes), "train", 2, 60))

    def rate(pairs, action):
        steps = kinds_of_steps(pairs)
        return steps[action] / sum(steps.values())

    assert rate(count(update=0.0), "UPDATE") == 0 < rate(count(update=0.3), "UPDATE") < rate(count(update=0.9), "UPDATE")
    assert rate(count(quiet=0.0, distractors=0.0), "NOOP") == 0 and rate(count(quiet=1.0), "NOOP") == 1
    noops = [teacher.segments for _, teacher in count(quiet=0.3, distractors=0.2)]
    share = sum(steps[0].action == "NOOP" for segs in noops for steps in segs) / sum(map(len, noops))
    assert 0.2 < share < 0.4
    assert all(m.reply_to is None for network, _ in count(elliptic=0.0, norm=0.0) for m in network.messages())
    assert any(m.reply_to for network, _ in count(elliptic=1.0, norm=0.0) for m in network.messages())


@pytest.mark.parametrize("kind", EVENTS)
def test_a_weight_of_zero_removes_a_kind_and_a_large_one_brings_it(kind):
    marker = {"fact": "fact", "stance": "stance on", "vote": "vote for", "decision": "decision", "habit": "usual"}
    marker |= {"norm": "norm for", "relation": "relation to", "report": ""}

    def count(config):
        steps = [step for _, teacher in networks(config, "train", 0, 25) for steps in teacher.segments for step in steps]
        adds = [step for step in steps if step.action == "ADD"]
        if kind == "fact":
            return sum(step.utype == "fact" and "exception" not in step.content for step in adds)
        if kind == "report":
            others = ("usual", "exception")
            return sum(
                step.layer == "per_speaker_profile" and not any(word in step.content for word in others) for step in adds
            )
        return sum(marker[kind] in step.content for step in adds)

    assert count(replace(CONFIG, **{kind: 0.0})) == 0
    assert count(replace(CONFIG, **{kind: 30.0})) > 1.3 * count(CONFIG) > 0


def test_members_share_attributes_and_topics_so_that_ownership_matters(sample):
    contested = 0
    for _, teacher in sample:
        adds = [step for steps in teacher.segments for step in steps if step.action == "ADD" and "'s " in step.content]
        nouns = Counter(re.sub(r"^\w+'s | is \w+$", "", step.content) for step in adds)
        contested += any(number > 1 for number in nouns.values())
    assert contested > 0.5 * len(sample)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"members": (1, 3)}, "members"),
        ({"members": (2, 7)}, "members"),
        ({"messages": (5, 4)}, "messages"),
        ({"update": 1.5}, "update"),
        ({"fact": -1.0}, "weights"),
        (dict.fromkeys(EVENTS, 0.0), "weights"),
    ],
)
def test_a_config_that_cannot_be_is_refused_by_name(changes, named):
    with pytest.raises(DataError, match=named):
        GymConfig(**changes)


def test_the_teacher_answers_nearly_all_and_an_empty_memory_far_fewer():
    pipeline = offline_pipeline(PipelineConfig(), HashEmbedder())

    async def verdicts(network, state):
        view = MemoryView.of(network).prepared(pipeline.embedder)
        shared = [await pipeline.share(view, question) for question in network.questions]
        return [[one.verdict.correct for one in await pipeline.finish_all(each, [state, State()])] for each in shared]

    rows = [row for network, _, states in final_states(CONFIG, 25, "dev") for row in asyncio.run(verdicts(network, states[-1]))]
    teacher, empty = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    assert teacher >= 0.95 and 0.2 <= empty <= 0.5


def test_the_preview_shows_messages_actions_and_questions():
    network, teacher = generate(CONFIG, "dev", 0, 0)
    shown = page(network, teacher)
    assert network.questions[0].text in shown and "> ADD r1" in shown and next(network.messages()).text in shown
