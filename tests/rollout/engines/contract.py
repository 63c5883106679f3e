"""What every engine must do, checked on a random Qwen2 whose weights the engine can be given."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import Qwen2ForCausalLM

from rollout.engines.base import Completion, Engine, Request, RequestKey, SamplingParams
from tests.tiny import make_model as build

END = 2  # the turn-end token of the tiny tokenizer


def make_model(**shape: Any) -> Qwen2ForCausalLM:
    """Heads of 32, the smallest that vLLM's attention takes on a CPU."""
    return build(width=128, **shape)


def words(seed: int, count: int) -> tuple[int, ...]:
    draw = random.Random(seed)
    return tuple(draw.randrange(3, 400) for _ in range(count))


def request(g: int, prompt: tuple[int, ...], seed: int | None = None, **params: float) -> Request:
    return Request(prompt, g if seed is None else seed, SamplingParams(**params), RequestKey(0, "n", 0, g, 0))


def ask(engine: Engine, requests: Sequence[Request]) -> list[Completion]:
    async def everybody() -> list[Completion]:
        return list(await asyncio.gather(*(engine.generate(one) for one in requests)))

    return asyncio.run(everybody())


def give(engine: Engine, model: Qwen2ForCausalLM, version: int) -> None:
    asyncio.run(engine.sync(model.named_parameters(), version))


def plain(model: Qwen2ForCausalLM, one: Request, made: Completion) -> torch.Tensor:
    """Log-probabilities [K, V] of a plain forward over prompt and completion."""
    ids = torch.tensor([one.prompt_ids + made.token_ids])
    with torch.no_grad():
        return model(ids).logits[0].float().log_softmax(-1)[len(one.prompt_ids) - 1 : -1]


def logprobs_are_raw(engine: Engine) -> None:
    """Untempered and not cut to the nucleus, whatever a request's temperature and top-p; greedy ones take the best token."""
    model = make_model()
    give(engine, model, 1)
    asked = [
        request(g, words(g // 2, 30 + 50 * g), max_new_tokens=9, temperature=(0.0, 0.5)[g % 2], top_p=0.6) for g in range(6)
    ]
    for one, made in zip(asked, ask(engine, asked), strict=True):
        expected = plain(model, one, made)
        chosen = expected.gather(1, torch.tensor(made.token_ids)[:, None])[:, 0].tolist()
        assert made.logprobs == pytest.approx(chosen, abs=1e-3)
        if one.params.temperature == 0:
            assert list(made.token_ids) == expected.argmax(1).tolist()


def seeds_differ_and_a_seed_repeats(engine: Engine) -> None:
    give(engine, make_model(uniform=True), 2)
    asked = [request(g, words(0, 9), max_new_tokens=6) for g in range(8)]
    made = [one.token_ids for one in ask(engine, asked)]
    assert len(set(made)) >= 2
    assert [one.token_ids for one in ask(engine, asked)] == made
    same = ask(engine, [request(g, words(0, 9), seed=5, max_new_tokens=6) for g in range(3)])
    assert len({one.token_ids for one in same}) == 1


def only_the_turn_end_stops(engine: Engine) -> None:
    """It belongs to the completion; 0, another special token, does not stop it."""
    give(engine, make_model(uniform=True), 3)
    made = ask(engine, [request(g, words(0, 5), max_new_tokens=400, top_p=1.0, temperature=1.0) for g in range(12)])
    assert {one.finish_reason for one in made} == {"stop", "length"}
    assert any(0 in one.token_ids for one in made)
    for one in made:
        assert len(one.logprobs) == len(one.token_ids)
        assert one.token_ids.count(END) == (one.finish_reason == "stop")
        assert one.token_ids[-1] == END if one.finish_reason == "stop" else len(one.token_ids) == 400


def a_moved_weight_arrives(engine: Engine) -> None:
    """Also for a prompt that was read, and may be cached, before; the version comes with it."""
    model = make_model()
    asked = [request(0, words(4, 400), max_new_tokens=4, temperature=0.0)]
    give(engine, model, 4)
    before = ask(engine, asked)[0]
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight += 1.0
        model.model.embed_tokens.weight[5:50] += 0.5
    give(engine, model, 5)
    after = ask(engine, asked)[0]
    assert (before.weights_version, after.weights_version) == (4, 5)
    expected = plain(model, asked[0], after).gather(1, torch.tensor(after.token_ids)[:, None])[:, 0].tolist()
    assert after.logprobs == pytest.approx(expected, abs=1e-3)
    assert after.logprobs != pytest.approx(before.logprobs, abs=1e-2)


CONTRACT = (logprobs_are_raw, seeds_differ_and_a_seed_repeats, only_the_turn_end_stops, a_moved_weight_arrives)
