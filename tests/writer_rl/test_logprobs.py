from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from tests.tiny import make_model
from tests.writer_rl.builders import VOCAB, dense_logprobs, make_samples
from writer_rl.batches import batch_of
from writer_rl.logprobs import completion_logprobs

LENGTHS = [(9, 5), (3, 11), (20, 1), (1, 7)]


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, num_key_value_heads=2, initializer_range=0.2, **sizes))


MODELS = {"qwen2 tied": make_model, "qwen2 untied": lambda: make_model(tied=False), "llama": llama}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chunk", [1, 3, 7, 1024])
def test_chunked_equals_dense_in_value_and_gradient(name, chunk):
    samples = make_samples(LENGTHS)
    slopes = torch.linspace(-1, 1, sum(completion for _, completion in LENGTHS))
    model, plain = MODELS[name]().double(), MODELS[name]().double()  # so that only the algebra can differ
    batch = batch_of(samples, range(4))
    own = completion_logprobs(model, batch, chunk)
    assert own.dtype == torch.float32 and (own[~batch.mask] == 0).all()
    dense = torch.cat([dense_logprobs(plain, sample) for sample in samples])
    assert torch.allclose(own[batch.mask], dense, atol=1e-6, rtol=1e-6)
    (own[batch.mask] * slopes).sum().backward()
    (dense * slopes).sum().backward()
    for (where, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-6, rtol=0), where


def test_a_sample_s_value_does_not_depend_on_its_neighbours():
    samples = make_samples(LENGTHS)
    model = make_model()
    together = completion_logprobs(model, batch_of(samples, range(4)))
    for number, sample in enumerate(samples):
        alone = completion_logprobs(model, batch_of(samples, [number]))
        assert torch.allclose(together[number, : len(sample.completion_ids)], alone[0], atol=1e-6)


def test_the_head_sees_completion_tokens_only_and_never_more_than_a_chunk():
    """Peak memory of the logits is chunk x V, whatever the prompt and the completion hold."""
    model, rows = make_model(), []
    model.lm_head.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    samples = make_samples([(200, 10), (100, 13)])
    completion_logprobs(model, batch_of(samples, [0, 1]), chunk=8).sum().backward()
    assert max(rows) == 8
    assert sum(rows) == 23 + 15  # each token once; again in the backward pass but for the last chunk, a whole one


def test_chunks_of_a_large_vocabulary_are_not_kept_for_the_backward_pass():
    model = make_model(2000)
    kept: set[int] = set()
    samples = make_samples([(5, 64)])

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.shape == (8, 2000):
            kept.add(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        completion_logprobs(model, batch_of(samples, [0]), chunk=8)
    assert len(kept) == 1  # of eight chunks


def test_the_logits_become_their_gradient_and_are_summed_over_once(monkeypatch):
    """No second tensor of their size, and no second pass for the sum when a chunk is computed again."""
    model, places, same, sums = make_model(), [], [], []
    plain = functional.cross_entropy
    monkeypatch.setattr(functional, "cross_entropy", lambda *args, **kwargs: sums.append(1) or plain(*args, **kwargs))

    def watch(module, inputs, logits):
        places.append(logits.data_ptr())
        logits.register_hook(lambda gradient: same.append(gradient.data_ptr() == places[-1]))

    model.lm_head.register_forward_hook(watch)
    completion_logprobs(model, batch_of(make_samples([(9, 23)]), [0]), chunk=8).sum().backward()
    assert len(places) == 5 and same == [True] * 3 and len(sums) == 3


def test_under_bf16_autocast_the_result_is_fp32_and_near():
    samples = make_samples(LENGTHS)
    model, batch = make_model(), batch_of(samples, range(4))
    exact = completion_logprobs(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        near = completion_logprobs(model, batch)
    assert near.dtype == torch.float32
    assert not torch.equal(near, exact) and (near - exact).abs().mean() < 0.1
