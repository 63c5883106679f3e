from __future__ import annotations

import asyncio
import random

import pytest
import torch

from data.network import DataError
from rollout.engines.base import Engine, Request, RequestKey, SamplingParams
from rollout.engines.hf import HFEngine
from tests.tiny import make_model

END = 2


def request(g: int, prompt: tuple[int, ...], seed: int | None = None, **params) -> Request:
    return Request(prompt, g if seed is None else seed, SamplingParams(**params), RequestKey(0, "n", 0, g, 0))


def words(seed: int, count: int) -> tuple[int, ...]:
    draw = random.Random(seed)
    return tuple(draw.randrange(3, 400) for _ in range(count))


def mixed_requests() -> list[Request]:
    """Eight: prompts of four lengths, each asked twice, half of them with a long common beginning."""
    common = words(99, 80)
    prompts = [(common if i % 2 else ()) + words(i, 20 + 7 * i) for i in range(4)]
    return [request(g, prompts[g // 2], max_new_tokens=10 + 4 * g, temperature=(0.0, 0.8)[g % 2]) for g in range(8)]


def test_a_batch_gives_what_its_requests_give_alone(tiny_model):
    engine = HFEngine(tiny_model, END)
    together, alone = engine.complete(mixed_requests()), [engine.complete([one])[0] for one in mixed_requests()]
    assert [one.token_ids for one in together] == [one.token_ids for one in alone]
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_small_batches_give_the_same_tokens(tiny_model):
    whole, split = HFEngine(tiny_model, END), HFEngine(tiny_model, END, max_batch_tokens=300)
    assert [one.token_ids for one in whole.complete(mixed_requests())] == [
        one.token_ids for one in split.complete(mixed_requests())
    ]


def test_logprobs_are_raw_and_equal_a_plain_forward(tiny_model):
    for one, made in zip(mixed_requests(), HFEngine(tiny_model, END).complete(mixed_requests()), strict=True):
        ids = torch.tensor([one.prompt_ids + made.token_ids])
        with torch.no_grad():
            plain = tiny_model(ids).logits[0].float().log_softmax(-1)[len(one.prompt_ids) - 1 : -1]  # [K, V]
        expected = plain.gather(1, torch.tensor(made.token_ids)[:, None])[:, 0].tolist()
        assert made.logprobs == pytest.approx(expected, abs=1e-4)
        if one.params.temperature == 0:
            assert list(made.token_ids) == plain.argmax(1).tolist()


def test_eight_samples_of_a_uniform_model_differ_and_a_seed_repeats():
    engine = HFEngine(make_model(uniform=True), END)
    made = [one.token_ids for one in engine.complete([request(g, words(0, 9), max_new_tokens=6) for g in range(8)])]
    assert len(set(made)) >= 2
    assert made == [one.token_ids for one in engine.complete([request(g, words(0, 9), max_new_tokens=6) for g in range(8)])]
    same = engine.complete([request(g, words(0, 9), seed=5, max_new_tokens=6) for g in range(3)])
    assert len({one.token_ids for one in same}) == 1


def test_only_the_turn_end_token_stops_a_row():
    model = make_model(uniform=True)
    asked = [request(g, words(0, 5), max_new_tokens=30, top_p=1.0, temperature=1.0) for g in range(24)]
    free = HFEngine(model, -1).complete(asked)
    assert {one.finish_reason for one in free} == {"length"} and {len(one.token_ids) for one in free} == {30}
    end = free[0].token_ids[4]  # a token that some rows meet
    made = HFEngine(model, end).complete(asked)
    assert {one.finish_reason for one in made} == {"stop", "length"}
    for cut, whole in zip(made, free, strict=True):
        stop = whole.token_ids.index(end) + 1 if end in whole.token_ids else 30
        assert cut.token_ids == whole.token_ids[:stop]
        assert cut.finish_reason == ("stop" if end in whole.token_ids else "length")
        assert len(cut.logprobs) == stop


def test_rows_that_leave_do_not_disturb_those_that_stay(tiny_model):
    long = [request(g, words(g, 30), max_new_tokens=40) for g in range(4)]
    expected = [one.token_ids for one in HFEngine(tiny_model, END).complete(long)]
    short = [request(g, words(g, 50 + g), max_new_tokens=1 + g) for g in range(4, 12)]
    made = HFEngine(tiny_model, END).complete([long[0], *short[:4], long[1], long[2], *short[4:], long[3]])
    assert [made[i].token_ids for i in (0, 5, 6, 11)] == expected


def test_a_tick_takes_everybody_who_waits_in_key_order(tiny_model):
    batches = []

    class Watched(HFEngine):
        def complete(self, requests):
            batches.append([one.key.g for one in requests])
            return super().complete(requests)

    engine = Watched(tiny_model, END)
    assert isinstance(engine, Engine)

    async def talk(g: int) -> list:
        first = await engine.generate(request(g, words(g, 8), max_new_tokens=3))
        await asyncio.sleep(0)
        return [first, await engine.generate(request(g, words(g, 8) + first.token_ids, max_new_tokens=3))]

    async def everybody() -> list:
        return await asyncio.gather(*(talk(g) for g in (3, 1, 0, 2)))

    assert asyncio.run(everybody()) == asyncio.run(everybody())
    assert batches == [[0, 1, 2, 3]] * 4


def test_a_failure_reaches_everybody_who_waits_and_the_engine_goes_on(tiny_model):
    engine = HFEngine(tiny_model, END)

    async def ask(*prompts) -> list:
        return await asyncio.gather(
            *(engine.generate(request(g, ids, max_new_tokens=2)) for g, ids in enumerate(prompts)), return_exceptions=True
        )

    assert all(isinstance(one, DataError) for one in asyncio.run(ask((), words(0, 5))))
    assert len(asyncio.run(ask(words(0, 5)))[0].token_ids) == 2


def test_the_model_is_left_as_it_was(tiny_model):
    tiny_model.train()
    HFEngine(tiny_model, END).complete(mixed_requests()[:2])
    assert tiny_model.training and tiny_model.config._attn_implementation == "sdpa"
    tiny_model(torch.tensor([[5, 6]])).logits.sum().backward()  # and can still learn


@pytest.mark.parametrize("tied", [True, False])
def test_a_moved_weight_reaches_the_engine_with_its_version(tied):
    engine, live = HFEngine(make_model(tied=tied), END), make_model(tied=tied)
    asked = [request(0, words(0, 9), max_new_tokens=3, temperature=0.0)]
    before = engine.complete(asked)[0]
    with torch.no_grad():
        live.model.layers[0].self_attn.q_proj.weight += 1.0
    asyncio.run(engine.sync(live.named_parameters(), 4))
    after = engine.complete(asked)[0]
    assert (before.weights_version, after.weights_version) == (0, 4)
    assert after.logprobs != before.logprobs
    assert after.logprobs == HFEngine(live, END).complete(asked)[0].logprobs
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(engine.model.parameters(), live.parameters(), strict=True))


def test_the_live_model_needs_no_copy_only_a_version(tiny_model):
    engine = HFEngine(tiny_model, END)
    asyncio.run(engine.sync(tiny_model.named_parameters(), 1))
    asyncio.run(engine.sync((), 2))
    assert engine.version == 2


def test_weights_that_do_not_fit_or_are_missing_are_errors(tiny_model):
    engine, weights = HFEngine(make_model(), END), list(tiny_model.named_parameters())
    for bad, message in (
        ([*weights, ("nowhere", torch.zeros(1))], "nowhere"),
        ([(weights[0][0], torch.zeros(2, 2)), *weights[1:]], "does not fit"),
        (weights[:-1], "not sent"),
    ):
        with pytest.raises(DataError, match=message):
            asyncio.run(engine.sync(bad, 9))
    assert engine.version == 0


def test_a_model_with_other_attention_is_refused(tiny_model):
    tiny_model.set_attn_implementation("eager")
    with pytest.raises(DataError, match="sdpa"):
        HFEngine(tiny_model, END)


def test_autocast_runs_and_reports_float32_logprobs(tiny_model):
    made = HFEngine(tiny_model, END, dtype=torch.bfloat16).complete(mixed_requests())
    plain = HFEngine(tiny_model, END).complete(mixed_requests())
    assert all(ours.logprobs[0] == pytest.approx(theirs.logprobs[0], abs=0.3) for ours, theirs in zip(made, plain, strict=True)
               if ours.token_ids[0] == theirs.token_ids[0])  # fmt: skip
