"""Log-probabilities of completion tokens, without ever holding the logits of a whole batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from writer_rl.batches import Batch

CHUNK = 256  # completion tokens whose logits exist at a time: 0.16 GB in fp32 at V = 151k


def completion_logprobs(model: nn.Module, batch: Batch, chunk: int = CHUNK) -> Tensor:
    """log pi(y_k | x, y_<k) of the untempered policy at every completion token: fp32 [S, K], 0 at padding.

    The head runs on completion tokens only, `chunk` at a time, and a chunk's logits are computed again in the backward
    pass rather than kept: peak memory does not grow with the prompt nor with K * V. Value and gradient are those of a
    dense log-softmax. Under autocast the matrix products are in the lower precision, the log-softmax stays in fp32.
    """
    decoder, head = decoder_and_head(model)
    # No attention mask: padding stands right of every real token and attention is causal, so no real token sees it,
    # and without a mask the fast causal kernels apply.
    hidden = decoder(input_ids=batch.input_ids, use_cache=False).last_hidden_state  # [S, L, H]
    rows, steps = batch.mask.nonzero(as_tuple=True)  # [M], [M]: the real completion tokens
    before = batch.prompt_lengths[rows] - 1 + steps  # the position that predicts each of them
    flat = _chunked(head, hidden[rows, before], batch.targets[rows, steps], chunk)  # [M]
    return torch.zeros(batch.targets.shape, device=flat.device).index_put((rows, steps), flat)


def decoder_and_head(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The transformer without its head, and the head: of a Hugging Face causal model, or of one inside a PEFT model."""
    outer: Any = model
    causal = outer.get_base_model() if hasattr(outer, "get_base_model") else outer
    return causal.base_model, causal.get_output_embeddings()


def _chunked(head: nn.Module, hidden: Tensor, targets: Tensor, chunk: int) -> Tensor:
    """[M, H], [M] -> [M]. The last chunk keeps its logits: the backward pass starts with it. So it is a whole one, and the
    first is what remains."""
    sizes = _sizes(len(targets), chunk) if not _sharded(head) else _level_sizes(len(targets), chunk, targets.device)
    parts = []
    for number, (some, aimed) in enumerate(zip(hidden.split(sizes), targets.split(sizes), strict=True), 1):
        work = _Chunk(head)
        if torch.is_grad_enabled() and number < len(sizes):
            recomputed = checkpoint(work, some, aimed, use_reentrant=False, preserve_rng_state=False)
            assert isinstance(recomputed, Tensor)
            parts.append(recomputed)
        else:
            parts.append(work(some, aimed))
    return torch.cat(parts)


def _sizes(tokens: int, chunk: int) -> list[int]:
    whole, rest = divmod(tokens, chunk)
    return [rest] * bool(rest) + [chunk] * whole


def _sharded(head: nn.Module) -> bool:
    """Whether the head's weights are spread over ranks (ZeRO-3), so that each call of it gathers them."""
    return any(hasattr(parameter, "ds_id") for parameter in head.parameters())


def _level_sizes(tokens: int, chunk: int, device: torch.device) -> list[int]:
    """As many chunks as the rank with the most tokens has, some of them empty: every rank must gather equally often."""
    most = torch.tensor(-(-tokens // chunk), device=device)
    torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
    return [len(one) for one in torch.arange(tokens).tensor_split(int(most))]


class _Chunk:
    """The head on one chunk. Called again, by the checkpoint in the backward pass, it makes the logits anew and sums over
    the vocabulary no second time."""

    def __init__(self, head: nn.Module) -> None:
        self._head = head
        self._logps: Tensor | None = None

    def __call__(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = self._head(hidden).float()
        if self._logps is None:
            self._logps = -functional.cross_entropy(logits.detach(), targets, reduction="none")
        logps: Tensor = _Picked.apply(logits, targets, self._logps)
        return logps


class _Picked(torch.autograd.Function):
    """log softmax(z)_y, known already, with the gradient g (1[v = y] - softmax(z)_v) to the logits z [M, V].

    The gradient is written over the logits, which nothing else needs by then: autograd's own log-softmax would hold three
    tensors of that size, and reading and writing them is most of the time where V is large and H is not.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, logps: Tensor) -> Tensor:
        norms = logits.gather(1, targets[:, None])[:, 0] - logps  # log of the sum of exp(z)
        ctx.save_for_backward(logits, targets, norms)
        return logps.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None, None]:
        logits, targets, norms = ctx.saved_tensors
        made = logits.sub_(norms[:, None]).exp_().mul_(-slopes[:, None])
        return made.scatter_add_(1, targets[:, None], slopes[:, None]), None, None
