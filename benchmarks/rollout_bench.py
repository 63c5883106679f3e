"""What the rollout costs beside its engine, what free running saves, and what the order of the prompt is worth.

    python -m benchmarks.rollout_bench

Writes docs/results/rollout_bench.json and .md. Two models, the tiny random one of the tests and SmolLM2-135M, each through
`hf` and through vLLM; on a CPU vLLM is here for fidelity, not for speed. Ratios mean more than seconds.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from transformers import AutoTokenizer

from benchmarks.results import write_result
from benchmarks.rollout_traces import BLOCK, Clocked, ClockEngine, Lengths, barrier_ratio, heads_first, hit_rate, traced
from rollout.engines.base import Engine, Request, RequestKey, SamplingParams
from rollout.engines.hf import HFEngine
from rollout.engines.vllm import VLLMEngine
from rollout.memory.embedder import HashEmbedder
from rollout.memory.provenance import support
from rollout.writer.prompt import WriterPrompt
from rollout.writer.sampler import Episode, sample
from rollout.writer.trajectory import Trajectory
from tests.rollout.engines.contract import make_model
from tests.tiny import make_tokenizer
from writer_rl import parity
from writer_rl.cases import load_cases
from writer_rl.policy import Policy
from writer_rl.recipe import Recipe, load
from writer_rl.runtime import Runtime, model_path

REPEATS = 2


@dataclass(frozen=True)
class Load:
    """What is rolled out with a model: G trajectories of one synthetic network."""

    model: str
    group: int
    tokens: int


LOADS = (Load("tiny", 8, 96), Load("smollm2", 4, 48))


def clocked_wall(lengths: Lengths) -> float:
    """Virtual seconds of a rollout of these lengths over those of its slowest trajectory: 1 without any barrier."""
    shape = f"segments:[{len(lengths[0])},{len(lengths[0])}]"
    recipe = load("tiny", [f"data.gym.config={{{shape},messages:[2,3]}}", "data.gym.train=1"])
    prompt = WriterPrompt("compact", make_tokenizer())
    with asyncio.Runner(loop_factory=Clocked) as runner:
        begun = runner.get_loop().time()
        runner.run(rollout(recipe, ClockEngine(lengths), prompt, len(lengths), 1))
        took = runner.get_loop().time() - begun
    return took / max(map(sum, lengths))


async def rollout(recipe: Recipe, engine: Engine, prompt: WriterPrompt, group: int, tokens: int) -> list[Trajectory]:
    case = load_cases(recipe.data, "train")[0]
    embedder = HashEmbedder()
    episodes = [Episode(case.segments, 0, 0, g) for g in range(group)]
    params = SamplingParams(0.8, 0.95, tokens)
    limit = recipe.writer.max_prompt_tokens
    about = {"support": support(embedder), "embedder": embedder, "prompt_limit": limit}
    return await sample(engine, episodes, prompt, params, 0, head_token_budget=recipe.writer.head_tokens, **about)


async def bare(generate: Callable[[Request], Coroutine[Any, Any, Any]], made: Sequence[Trajectory]) -> list[list[Any]]:
    """The same prompts and lengths at the same concurrency, without prompt, parser, executor or memory between them."""

    async def one(trajectory: Trajectory) -> list[Any]:
        answers = []
        for t, write in enumerate(trajectory.writes):
            params = SamplingParams(0.8, 0.95, len(write.completion.token_ids))
            key = RequestKey(0, "bare", 0, trajectory.g, t)
            answers.append(await generate(Request(write.prompt_ids, t, params, key)))
        return answers

    return list(await asyncio.gather(*(one(trajectory) for trajectory in made)))


def bare_hf(engine: HFEngine) -> Callable[[Request], Coroutine[Any, Any, Any]]:
    return HFEngine(engine.model, -1, engine.max_batch_tokens).generate  # no token ends a completion


def bare_vllm(engine: VLLMEngine) -> Callable[[Request], Coroutine[Any, Any, Any]]:
    """vLLM itself, asked from its own loop; the answer holds how many tokens of the prompt were cached."""
    from vllm.sampling_params import RequestOutputKind
    from vllm.sampling_params import SamplingParams as Params

    async def inside(request: Request) -> Any:
        asked = request.params
        forced = {"max_tokens": asked.max_new_tokens, "min_tokens": asked.max_new_tokens, "ignore_eos": True, "logprobs": 0}
        kind = RequestOutputKind.FINAL_ONLY
        params = Params(temperature=asked.temperature, top_p=asked.top_p, seed=1, detokenize=False, output_kind=kind, **forced)
        name = f"bare-{time.perf_counter()}-{request.key.g}-{request.key.t}"
        final = None
        async for output in engine._llm.generate({"prompt_token_ids": list(request.prompt_ids)}, params, name):
            final = output
        return final

    async def generate(request: Request) -> Any:
        return await engine._loop.run(inside(request))

    return generate


def measure(name: str, policy: Policy, prompt: WriterPrompt, recipe: Recipe, engine: Engine, load_: Load) -> dict[str, Any]:
    """Sync and proof first; then rollout and bare engine in turns, the prefix cache emptied by a sync before each."""
    syncs, differences = [], []

    def synced(version: int) -> None:
        begun = time.perf_counter()
        asyncio.run(engine.sync(parity.weights_for(engine, policy), version))
        syncs.append(time.perf_counter() - begun)

    synced(0)
    differences.append(parity.check(engine, policy, prompt, 0))
    generate = bare_vllm(engine) if isinstance(engine, VLLMEngine) else bare_hf(engine)  # type: ignore[arg-type]
    spent: dict[str, list[float]] = {"rollout": [], "bare": []}
    answers: list[list[Any]] = []
    for repeat in range(REPEATS + 1):
        synced(repeat)
        begun = time.perf_counter()
        made = asyncio.run(rollout(recipe, engine, prompt, load_.group, load_.tokens))
        middle = time.perf_counter()
        synced(repeat)
        again = time.perf_counter()
        answers = asyncio.run(bare(generate, made))
        if repeat:  # the first turn warms up
            spent["rollout"].append(middle - begun)
            spent["bare"].append(time.perf_counter() - again)
        differences.append(parity.check(engine, policy, prompt, repeat))
    tokens = sum(len(write.completion.token_ids) for one in made for write in one.writes)
    read = sum(len(write.prompt_ids) for one in made for write in one.writes)
    cached = [answer.num_cached_tokens or 0 for one in answers for answer in one] if isinstance(engine, VLLMEngine) else []
    ratios = [bare_ / whole for whole, bare_ in zip(spent["rollout"], spent["bare"], strict=True)]
    return {
        "engine": name,
        "model": load_.model,
        "trajectories": load_.group,
        "generated_tokens": tokens,
        "prompt_tokens": read,
        "tokens_per_second": round(tokens / median(spent["rollout"]), 1),
        "tokens_ratio_vs_engine": round(median(ratios), 3),
        "ratios": [round(one, 3) for one in ratios],
        "cached_prompt_share": round(sum(cached) / read, 3) if cached else None,
        "sync_seconds": round(median(syncs[1:]), 3),
        "parity_max_abs": max(differences),
    }


def models(load_: Load, folder: Path) -> Recipe:
    """A recipe on the model, with the synthetic network that all engines write."""
    if load_.model == "tiny":
        path = folder / "tiny"
        make_model().save_pretrained(path)
        make_tokenizer().save_pretrained(path)
    else:
        path = Path(model_path(load("social_cpu")))
    values = ["data.gym.config={segments:[4,4],messages:[4,6]}", "data.gym.train=1", "precision=fp32", "engine.kv_cache_gib=1"]
    return load("tiny", [*values, f"model.path={path}", f"checkpoints={folder / load_.model}"])


def engines(load_: Load, folder: Path) -> list[dict[str, Any]]:
    rows = []
    for kind in ("hf", "vllm"):
        recipe = models(load_, folder).model_copy(update={"engine": load("tiny", [f"engine.kind={kind}"]).engine})
        runtime = Runtime.of(recipe)
        policy = runtime.policy()
        engine = runtime.engine(policy)
        try:
            rows.append(measure(kind, policy, runtime.prompt(policy), recipe, engine, load_))
        finally:
            if isinstance(engine, VLLMEngine):
                engine.close()
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    lengths, prompts, run = traced()
    tokenizer = AutoTokenizer.from_pretrained(model_path(load("social_cpu")))
    encoded = {
        name: [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts] for name, texts in prompts.items()
    }
    swapped = {
        name: [tokenizer(heads_first(text), add_special_tokens=False)["input_ids"] for text in texts]
        for name, texts in prompts.items()
    }
    rates = {
        "messages_first": round(fmean(hit_rate(one) for one in encoded.values()), 3),
        "memory_first": round(fmean(hit_rate(one) for one in swapped.values()), 3),
    }
    result: dict[str, Any] = {
        "run": run,
        "groups": len(lengths),
        "barrier_ratio": round(fmean(map(barrier_ratio, lengths.values())), 3),
        "clocked_wall_over_slowest": round(max(map(clocked_wall, lengths.values())), 6),
        "prefix_hit_rate": rates,
    }
    print(json.dumps(result), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for load_ in LOADS for row in engines(load_, Path(folder))]
    for name in ("tokens_ratio_vs_engine", "sync_seconds", "parity_max_abs"):
        result[name] = {f"{row['model']}/{row['engine']}": row[name] for row in rows}
    result["engines"] = rows
    write_result("rollout_bench", "Rollout", result, text(result), "python -m benchmarks.rollout_bench")


def text(result: Mapping[str, Any]) -> str:
    """The numbers for people."""
    rates = result["prefix_hit_rate"]
    lines = [
        f"Rolled out with float32 on a CPU, {REPEATS} turns of rollout and bare engine, medians. The bare engine gets the same",
        "prompts and lengths at the same concurrency; what is missing to 1 is prompt, parser, executor and memory.",
        "",
        "| model | engine | generated tokens/s | against the bare engine | sync, s | parity, largest difference |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in result["engines"]:
        lines.append(
            f"| {row['model']} | {row['engine']} | {row['tokens_per_second']} | {row['tokens_ratio_vs_engine']} | "
            f"{row['sync_seconds']} | {row['parity_max_abs']:.1e} |"
        )
    lines += [
        "",
        f"On the completion lengths of the run `{result['run']}` (groups: {result['groups']}) a barrier at each position would",
        f"cost {result['barrier_ratio']} times the slowest trajectory; free running takes",
        f"{result['clocked_wall_over_slowest']} times it (an engine with a virtual clock).",
        "",
        f"Of that run's prompt tokens a prefix cache (blocks of {BLOCK}, G trajectories in turn) has",
        f"{rates['messages_first']:.0%} with the messages before the memory, as the prompt is, and {rates['memory_first']:.0%}",
        "the other way round.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
