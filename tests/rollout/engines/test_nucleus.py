from __future__ import annotations

import torch

from rollout.engines.nucleus import TOP, choose


def pick(logits, temperature=1.0, top_p=1.0, uniform=0.0):
    rows = len(logits)
    return choose(
        logits.float(),
        torch.full((rows,), temperature),
        torch.full((rows,), top_p, dtype=torch.float64),
        torch.as_tensor(uniform, dtype=torch.float64).expand(rows),
    )


def test_tokens_come_out_in_proportion_to_their_probability():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(1000, 4)
    token, logprob = pick(logits, uniform=torch.linspace(0.0005, 0.9995, 1000, dtype=torch.float64))
    assert torch.bincount(token).tolist() == [500, 300, 150, 50]
    assert torch.allclose(logprob, logits[0][token])


def test_the_nucleus_is_the_smallest_set_that_reaches_top_p_and_logprobs_stay_raw():
    logits = torch.tensor([0.05, 0.3, 0.5, 0.15]).log().expand(1000, 4)
    token, logprob = pick(logits, top_p=0.9, uniform=torch.linspace(0, 0.9999, 1000, dtype=torch.float64))
    assert torch.bincount(token, minlength=4).tolist()[0] == 0
    assert torch.allclose(logprob, logits[0][token])  # log .5, not log(.5 / .95)
    assert set(pick(logits, top_p=0.79, uniform=0.9999)[0].tolist()) == {1}


def test_temperature_sharpens():
    logits = torch.tensor([[0.6, 0.4]]).log()
    assert pick(logits, temperature=1.0, uniform=0.65)[0].item() == 1
    assert pick(logits, temperature=0.5, uniform=0.65)[0].item() == 0  # .36 / .52 = .69


def test_greedy_takes_the_largest_logit():
    logits = torch.randn(6, 500)
    assert torch.equal(pick(logits, temperature=0.0, uniform=0.9)[0], logits.argmax(1))


def test_a_wide_nucleus_equals_a_full_sort_and_a_row_ignores_its_neighbours():
    generator = torch.Generator().manual_seed(0)
    flat, sharp = torch.randn(4, 4 * TOP, generator=generator) * 0.1, torch.randn(4, 4 * TOP, generator=generator) * 9
    mixed = torch.cat([flat, sharp])
    uniform = torch.rand(8, generator=generator, dtype=torch.float64)
    together, _ = pick(mixed, temperature=0.8, top_p=0.95, uniform=uniform)
    for row in range(8):
        alone, _ = pick(mixed[row : row + 1], temperature=0.8, top_p=0.95, uniform=uniform[row])
        probability, order = (mixed[row] / 0.8).double().softmax(0).sort(descending=True)
        cumulative = probability.cumsum(0)
        last = int((cumulative < 0.95).sum())
        index = int((cumulative <= uniform[row] * cumulative[last]).sum())
        assert together[row] == alone[0] == order[index]
