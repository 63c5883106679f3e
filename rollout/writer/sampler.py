"""Sampling trajectories: many episodes at once against one engine, each request with its own fixed seed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from data.memory.executor import Support
from data.network import DataError
from data.segments import Segment
from rollout.engines.base import Engine, Request, RequestKey, SamplingParams
from rollout.writer.environment import Environment
from rollout.writer.prompt import WriterPrompt
from rollout.writer.trajectory import Trajectory, Write
from rollout.writer.view import HEAD_TOKEN_BUDGET, TextEmbedder

OnWrite = Callable[[RequestKey, Write], None]
OnEnd = Callable[[Trajectory], Awaitable[object]]


class PromptTooLong(DataError):
    """A prompt beyond the limit: never truncated."""


@dataclass(frozen=True)
class Episode:
    """One trajectory to be sampled: which network (its segments [T]), and who asks."""

    segments: tuple[Segment, ...]
    round: int = 0
    visit: int = 0
    g: int = 0

    def key(self, t: int) -> RequestKey:
        return RequestKey(self.round, self.segments[0].network, self.visit, self.g, t)


def request_seed(seed: int, key: RequestKey) -> int:
    """The seed of one request, a pure function of the run's seed and the request's key; in [0, 2^63)."""
    name = json.dumps([seed, key.round, key.network, key.visit, key.g, key.t])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


async def sample(
    engine: Engine,
    episodes: Sequence[Episode],
    prompt: WriterPrompt,
    params: SamplingParams,
    seed: int,
    *,
    support: Support,
    embedder: TextEmbedder,
    prompt_limit: int,
    pipeline_id: str = "",
    head_token_budget: int = HEAD_TOKEN_BUDGET,
    on_write: OnWrite | None = None,
    on_end: OnEnd | None = None,
) -> list[Trajectory]:
    """Run all episodes to their ends, concurrently and free; the result is in the order of `episodes`.

    `on_write` is called after each write (progress), `on_end` when a trajectory ends, while others still run.
    `prompt_limit` is in tokens. Errors: PromptTooLong names network and position; the first failure of any episode cancels
    the others and is raised.
    """

    async def run(episode: Episode) -> Trajectory:
        environment = Environment(episode.segments, prompt, support, embedder, head_token_budget)
        while not environment.done:
            key = episode.key(environment.t)
            prompt_ids = environment.observe()
            if len(prompt_ids) > prompt_limit:
                raise PromptTooLong(
                    f"network {key.network!r}, position {key.t}: the prompt has {len(prompt_ids)} tokens, the limit is "
                    f"{prompt_limit}; use smaller segments (a window), a smaller head budget, or a larger limit"
                )
            completion = await engine.generate(Request(prompt_ids, request_seed(seed, key), params, key))
            write = environment.step(completion)
            if on_write is not None:
                on_write(key, write)
        first = episode.key(0)
        made = Trajectory(first.network, episode.round, episode.visit, episode.g, environment.writes, pipeline_id)
        if on_end is not None:
            await on_end(made)
        return made

    tasks = [asyncio.create_task(run(episode)) for episode in episodes]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
