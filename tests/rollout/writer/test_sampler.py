from __future__ import annotations

import asyncio
import json

import pytest

from data.memory.actions import Add, render
from data.memory.records import Layer, UType
from data.network import DataError
from data.segments import segments
from rollout.engines.base import Completion, RequestKey, SamplingParams
from rollout.engines.hf import HFEngine
from rollout.engines.replay import ReplayEngine
from rollout.writer.environment import Environment
from rollout.writer.prompt import WriterPrompt
from rollout.writer.sampler import Episode, PromptTooLong, request_seed, sample
from rollout.writer.trajectory import ParseStatus
from tests.rollout.writer.stubs import NoEmbedder, first_message
from tests.tiny import make_model, make_network, make_tokenizer

SEGMENTS = segments(make_network())
FIRST = render([Add("Ana's locker is belmo.", "Ana", "Ana", Layer.CORE, UType.FACT)])
SECOND = json.dumps({"actions": [{"action": "UPDATE", "entry_id": "d1", "content": "Ana's locker is tarvi."}]})


def run(engine, prompt, episodes, **changes):
    options = {"support": first_message, "embedder": NoEmbedder(), "prompt_limit": 2000, "params": SamplingParams(), "seed": 1}
    return asyncio.run(sample(engine, episodes, prompt, **(options | changes)))


def completion(prompt, text):
    ids = prompt.target_ids(text)
    return Completion(ids, (0.0,) * len(ids), "stop", 0)


@pytest.fixture(scope="module")
def prompt():
    return WriterPrompt("compact", make_tokenizer())


def new_environment(prompt, **options):
    return Environment(SEGMENTS, prompt, first_message, NoEmbedder(), **options)


def test_an_episode_writes_and_updates(prompt):
    environment = new_environment(prompt)
    write = environment.step(completion(prompt, FIRST))
    assert (write.text, write.parsed.status, write.report.valid) == (FIRST, ParseStatus.STRICT, 1)
    assert (len(write.pre_state), len(write.state)) == (0, 1)
    assert "d1 Ana core: Ana's locker is belmo." in prompt.tokenizer.decode(environment.observe())
    environment.step(completion(prompt, SECOND))
    assert environment.done
    assert [one.content for one in environment.state.chain("d1")] == ["Ana's locker is belmo.", "Ana's locker is tarvi."]
    assert [one.content for one in environment.writes[1].pre_state] == ["Ana's locker is belmo."]


def test_a_clone_goes_its_own_way(prompt):
    environment = new_environment(prompt)
    environment.step(completion(prompt, FIRST))
    snapshot, twin = list(environment.state), environment.clone()
    twin.step(completion(prompt, SECOND))
    assert list(environment.state) == snapshot and not environment.done
    assert environment.state.get("d1").head and not twin.state.get("d1").head
    environment.step(completion(prompt, '{"actions": []}'))
    assert len(environment.state) == 1 and len(twin.state) == 2


def test_ids_stay_as_sampled_where_encoding_the_text_gives_others(prompt):
    letters = tuple(i for char in FIRST for i in prompt.encode(char))
    assert letters != prompt.encode(FIRST)
    ids = (*letters, prompt.turn_end_id)
    write = new_environment(prompt).step(Completion(ids, (0.0,) * len(ids), "stop", 0))
    assert write.completion.token_ids == ids
    assert write.text == FIRST and write.report.valid == 1


def test_only_strict_json_acts_unless_the_environment_salvages(prompt):
    for salvage, count in ((False, 0), (True, 1)):
        write = new_environment(prompt, salvage=salvage).step(completion(prompt, f"Sure: {FIRST}"))
        assert (write.parsed.status, len(write.state)) == (ParseStatus.SCANNED, count)


def test_an_episode_without_segments_is_an_error(prompt):
    with pytest.raises(DataError, match="segment"):
        Environment((), prompt, first_message, NoEmbedder())


def test_replayed_texts_become_trajectories_in_the_order_asked(prompt):
    episodes = [Episode(SEGMENTS, round=3, visit=1, g=g) for g in (2, 0, 1)]
    seen = []
    engine = ReplayEngine(lambda key: (FIRST, SECOND)[key.t], prompt)
    made = run(engine, prompt, episodes, on_write=lambda key, write: seen.append((key, write.text)), pipeline_id="p")
    assert [(one.network, one.round, one.visit, one.g, one.pipeline_id) for one in made] == [
        ("tiny", 3, 1, g, "p") for g in (2, 0, 1)
    ]
    assert all(len(one.writes) == 2 and len(one.final_state) == 2 for one in made)
    assert sorted(seen) == sorted((RequestKey(3, "tiny", 1, g, t), (FIRST, SECOND)[t]) for g in (0, 1, 2) for t in (0, 1))


def test_replay_cuts_at_the_limit_and_names_a_missing_key(prompt):
    made = run(ReplayEngine(lambda key: FIRST, prompt), prompt, [Episode(SEGMENTS)], params=SamplingParams(max_new_tokens=5))
    assert (made[0].writes[0].completion.finish_reason, len(made[0].writes[0].completion.token_ids)) == ("length", 5)
    with pytest.raises(DataError, match="network='tiny'"):
        run(ReplayEngine({}, prompt), prompt, [Episode(SEGMENTS)])


def test_a_prompt_that_is_too_long_is_an_error_with_its_place(prompt):
    with pytest.raises(PromptTooLong, match=r"network 'tiny', position 0: .* the limit is 20"):
        run(ReplayEngine(lambda key: FIRST, prompt), prompt, [Episode(SEGMENTS, g=g) for g in range(3)], prompt_limit=20)


def test_seeds_depend_on_every_part_of_the_key_and_nothing_else():
    keys = [RequestKey(0, "n", 0, 0, 0), RequestKey(1, "n", 0, 0, 0), RequestKey(0, "m", 0, 0, 0), RequestKey(0, "n", 1, 0, 0),
            RequestKey(0, "n", 0, 1, 0), RequestKey(0, "n", 0, 0, 1)]  # fmt: skip
    seeds = [request_seed(seed, key) for seed in (0, 1) for key in keys]
    assert len(set(seeds)) == 12
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert request_seed(7, RequestKey(2, "grp_é", 1, 3, 4)) == 9119433825291008909


def test_the_same_round_gives_the_same_bytes(prompt):
    engine = HFEngine(make_model(), prompt.turn_end_id)
    episodes = [Episode(SEGMENTS, g=g) for g in range(4)]
    params = SamplingParams(max_new_tokens=12)
    once, again = (run(engine, prompt, episodes, params=params) for _ in range(2))
    assert [[write.completion for write in one.writes] for one in once] == [
        [write.completion for write in one.writes] for one in again
    ]
    backwards = run(engine, prompt, episodes[::-1], params=params)[::-1]
    assert [one.writes[1].completion for one in once] == [one.writes[1].completion for one in backwards]
    other = run(engine, prompt, episodes, params=params, seed=2)
    assert once[0].writes[0].completion.token_ids != other[0].writes[0].completion.token_ids
