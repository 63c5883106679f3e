"""What the embedded base learns from: first plain copying, then an endless stream of gym positions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from data import gym
from data.gym import GymConfig
from rollout.memory.embedder import HashEmbedder
from rollout.writer.prompt import WriterPrompt
from writer_rl.cases import make_case
from writer_rl.examples import Example, examples_of

HEAD_TOKENS = 4096  # far above what a gym memory needs: nothing is left out


def copies(rng: random.Random, vocab: Sequence[int], length: int = 48) -> Example:
    """A few random tokens said again and again: from the second time on, each can only be copied."""
    unit = [rng.choice(vocab) for _ in range(rng.randint(4, 24))]
    repeated = (unit * (length // len(unit) + 1))[:length]
    return Example(tuple(unit), tuple(repeated[len(unit) :]))


def gym_stream(prompt: WriterPrompt, config: GymConfig, seed: int) -> Iterator[Example]:
    """Positions of training networks 0, 1, 2, ... of a seed, without end."""
    index = 0
    while True:
        network, teacher = gym.generate(config, "train", seed, index)
        yield from examples_of(make_case(network, teacher, None), prompt, HashEmbedder(), HEAD_TOKENS)
        index += 1


def batches(stream: Iterator[Example], tokens: int, pool: int = 512) -> Iterator[list[Example]]:
    """Batches of like length within a budget of padded tokens, from pools of the stream, in shuffled order."""
    rng = random.Random("batches")
    while True:
        ranked = sorted((next(stream) for _ in range(pool)), key=lambda one: len(one.prompt_ids) + len(one.completion_ids))
        cuts: list[list[Example]] = [[]]
        for one in ranked:
            if (len(cuts[-1]) + 1) * (len(one.prompt_ids) + len(one.completion_ids)) > tokens and cuts[-1]:
                cuts.append([])
            cuts[-1].append(one)
        rng.shuffle(cuts)
        yield from cuts
