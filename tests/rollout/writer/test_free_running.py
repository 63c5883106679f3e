"""Trajectories wait for nobody: a rollout takes as long as its slowest trajectory, told by a clock that only moves while
everybody waits."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.rollout_traces import Clocked, ClockEngine, barrier_ratio, heads_first, hit_rate
from data.segments import segments
from rollout.engines.base import SamplingParams
from rollout.writer.prompt import WriterPrompt
from rollout.writer.sampler import Episode, sample
from rollout.writer.trajectory import Trajectory
from tests.rollout.writer.stubs import NoEmbedder, first_message
from tests.tiny import make_network, make_tokenizer

LENGTHS = [[3, 100], [100, 3], [50, 60]]  # [G][T]: a barrier at each position would take 200, not 110


async def rolled_out(ended: list[tuple[int, float]], ask_for: float = 0.0) -> list[Trajectory]:
    network = make_network()
    episodes = [Episode(segments(network), 0, 0, g) for g in range(len(LENGTHS))]

    async def end(trajectory: Trajectory) -> None:
        ended.append((trajectory.g, asyncio.get_running_loop().time()))
        await asyncio.sleep(ask_for)

    prompt = WriterPrompt("compact", make_tokenizer())
    about = {"support": first_message, "embedder": NoEmbedder(), "prompt_limit": 4096}
    return await sample(ClockEngine(LENGTHS), episodes, prompt, SamplingParams(), 0, on_end=end, **about)


def clocked(ask_for: float = 0.0) -> tuple[list[tuple[int, float]], float]:
    ended: list[tuple[int, float]] = []
    with asyncio.Runner(loop_factory=Clocked) as runner:
        made = runner.run(rolled_out(ended, ask_for))
        wall = runner.get_loop().time()
    assert [one.g for one in made] == [0, 1, 2]
    return ended, wall


def test_a_rollout_takes_as_long_as_its_slowest_trajectory() -> None:
    ended, wall = clocked()
    assert wall == pytest.approx(110)
    assert barrier_ratio(LENGTHS) == pytest.approx(200 / 110)
    assert ended == [(0, pytest.approx(103)), (1, pytest.approx(103)), (2, pytest.approx(110))]


def test_what_follows_a_trajectory_begins_at_its_own_end() -> None:
    ended, wall = clocked(ask_for=7)
    assert [at for _, at in ended] == [pytest.approx(103), pytest.approx(103), pytest.approx(110)]
    assert wall == pytest.approx(117)  # the first two were asked while the third still wrote


def test_a_prefix_cache_has_what_stands_first_in_whole_blocks() -> None:
    first, second = list(range(40)), [*range(32), *range(90, 98)]
    assert hit_rate([first, second], block=16) == pytest.approx(32 / 80)
    assert hit_rate([first, first], block=8) == pytest.approx(32 / 80)  # the last token is always read, and its block with it
    assert hit_rate([first[::-1], second], block=16) == 0


def test_the_memory_can_be_put_before_the_messages() -> None:
    turn = (
        "<|im_start|>user\nAna, Bob\nAna: hi\nBob: = ho\n=\nd1 Ana core: x\nd2 Bob core: y<|im_end|>\n<|im_start|>assistant\n"
    )
    assert heads_first(turn) == (
        "<|im_start|>user\nAna, Bob\nd1 Ana core: x\nd2 Bob core: y\n=\nAna: hi\nBob: = ho<|im_end|>\n<|im_start|>assistant\n"
    )
