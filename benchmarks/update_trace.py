"""Lengths of real samples, and samples of random tokens that have them.

python -m benchmarks.update_trace checkpoints/social_cpu/trace/grpo/round-0000.jsonl checkpoints/smollm2-135m

takes the lengths of a GRPO round from its trace, and those of gym positions (teacher's memory and target, the compact
prompt) from the generator, and writes benchmarks/update_lengths.json.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

from rollout.engines.base import RequestKey
from writer_rl.advantages import Sample

LENGTHS = Path(__file__).with_name("update_lengths.json")
GYM_NETWORKS, GYM_SEED = 8, 0
FIRST_ID = 3  # below it tokenizers keep what is special

Lengths = list[tuple[int, int]]  # (prompt tokens, completion tokens) of every sample


def read_lengths(name: str, path: Path = LENGTHS) -> Lengths:
    """The trace `name` of the committed file, in the order of the round: by trajectory, then by position."""
    return [(prompt, completion) for prompt, completion in json.loads(path.read_text("utf-8"))[name]["lengths"]]


def spread(lengths: Lengths, count: int) -> Lengths:
    """`count` of them, evenly over the round; the stride is odd, so that it does not always meet the same position."""
    stride = max(1, len(lengths) // count) | 1
    return [lengths[i * stride % len(lengths)] for i in range(count)]


def make_samples(lengths: Sequence[tuple[int, int]], vocab_size: int, seed: int = 0) -> list[Sample]:
    """Random tokens of these lengths. Trajectories g = 0, 1 of one position lie side by side, with returns 1 and -1."""
    draw = random.Random(seed)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(FIRST_ID, vocab_size) for _ in range(count))

    return [
        Sample(RequestKey(0, "trace", 0, i % 2, i // 2), ids(prompt), ids(completion), 1.0 - 2 * (i % 2), (0.0,) * completion)
        for i, (prompt, completion) in enumerate(lengths)
    ]


def round_lengths(trace: Path) -> Lengths:
    rows = [json.loads(line) for line in trace.read_text("utf-8").splitlines()]
    return [(row["prompt_tokens"], row["completion_tokens"]) for row in sorted(rows, key=lambda row: (row["g"], row["t"]))]


def gym_lengths(tokenizer_folder: Path) -> Lengths:
    from transformers import AutoTokenizer

    from data import gym
    from data.gym import GymConfig
    from rollout.memory.embedder import HashEmbedder
    from rollout.writer.prompt import WriterPrompt
    from writer_rl.cases import make_case
    from writer_rl.examples import examples_of

    prompt = WriterPrompt("compact", AutoTokenizer.from_pretrained(tokenizer_folder))
    found = []
    for index in range(GYM_NETWORKS):
        network, teacher = gym.generate(GymConfig(), "dev", GYM_SEED, index)
        examples = examples_of(make_case(network, teacher, None), prompt, HashEmbedder(), 4096)
        found += [(len(one.prompt_ids), len(one.completion_ids)) for one in examples]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Collect the lengths that benchmarks/update_bench.py runs on.")
    parser.add_argument("trace", type=Path, help="checkpoints/RUN/trace/grpo/round-NNNN.jsonl")
    parser.add_argument("tokenizer", type=Path, help="folder of the tokenizer for the gym's texts")
    given = parser.parse_args()
    traces = {
        "social_round": {"from": "one GRPO round of recipes/social_cpu.yaml", "lengths": round_lengths(given.trace)},
        "gym": {
            "from": f"gym positions, dev networks 0 to {GYM_NETWORKS - 1} of seed {GYM_SEED}, SmolLM2's tokenizer",
            "lengths": gym_lengths(given.tokenizer),
        },
    }
    LENGTHS.write_text(json.dumps(traces).replace('"lengths"', '\n "lengths"') + "\n", "utf-8")


if __name__ == "__main__":
    main()
