"""The `hf` engine: a Transformers model in this process, generating in ticks (design sections 3 and 7).

A tick takes every request that waits, in the order of their keys, so that batches, and with them the bytes, depend on the
set of waiting requests alone. Each distinct prompt is read once, prompts that begin alike share that beginning, and a row
leaves its batch when it finishes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from data.network import DataError
from rollout.engines.base import Completion, FinishReason, Request
from rollout.engines.nucleus import choose
from rollout.engines.rows import RowCache, stepping
from rollout.engines.weights import WeightSum, weight_sum

UNIFORMS = 64  # random numbers drawn at once for a row
MIN_SHARED = 64  # a shared beginning shorter than this is read again


class HFEngine:
    """Generates with `model`, which may be the live training model: its weights are then always the current ones.

    `turn_end_id` ends a completion; nothing else does. `max_batch_tokens` bounds rows x (longest prompt + new tokens) of
    one batch. `dtype` (bf16) runs the model under autocast. Log-probabilities are raw, fp32. No padding token is ever read:
    shorter prompts are left-padded in the cache, and masked.
    Errors: DataError for a model without full sdpa attention (this engine passes its own masks).
    """

    replicas = 1

    def __init__(
        self, model: PreTrainedModel, turn_end_id: int, max_batch_tokens: int = 65536, dtype: torch.dtype | None = None
    ) -> None:
        attention = model.config._attn_implementation
        if attention != "sdpa" or "sliding_attention" in (getattr(model.config, "layer_types", None) or ()):
            raise DataError(f"the hf engine needs full attention by sdpa, the model has {attention}; load it with sdpa")
        self.model = model
        self.turn_end_id = turn_end_id
        self.max_batch_tokens = max_batch_tokens
        self.dtype = dtype
        self.version = 0
        self._waiting: list[tuple[Request, asyncio.Future[Completion]]] = []
        self._tick: asyncio.Task[None] | None = None

    async def generate(self, request: Request) -> Completion:
        """Join the next tick."""
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._tick is None or self._tick.done():
            self._tick = asyncio.create_task(self._run_tick())
        return await future

    async def sync(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Load weights, unless they are the model's own already, and move the version.

        An empty iterable says that the live model is the source. Otherwise every weight must be given: DataError
        names an unknown, misshapen or missing one.
        """
        targets = self.model.state_dict()  # tied weights: two names, one storage
        given = set()
        for name, tensor in named_tensors:
            if name not in targets or targets[name].shape != tensor.shape:
                raise DataError(f"sync: weight {name!r} of shape {list(tensor.shape)} does not fit this model; send its own")
            given.add(targets[name].data_ptr())
            if targets[name].data_ptr() != tensor.data_ptr():
                with torch.no_grad():
                    targets[name].copy_(tensor)
        missing = [name for name, tensor in targets.items() if given and tensor.data_ptr() not in given]
        if missing:
            raise DataError(f"sync: weight {missing[0]!r} was not sent ({len(missing)} missing); send all of them")
        self.version = version

    async def weight_sums(self) -> list[WeightSum]:
        return [weight_sum((name,), [parameter], self.dtype) for name, parameter in self.model.named_parameters()]

    async def _run_tick(self) -> None:
        arrived = -1
        while arrived != len(self._waiting):  # trajectories that were answered together ask again together
            arrived = len(self._waiting)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        waiting = sorted((one for one in self._waiting if not one[1].done()), key=lambda one: one[0].key)
        self._waiting, self._tick = [], None
        try:
            completions = self.complete([request for request, _ in waiting])
        except Exception as error:  # handed to everybody who waits, none is swallowed
            for _, future in waiting:
                future.set_exception(error)
            return
        for (_, future), completion in zip(waiting, completions, strict=True):
            future.set_result(completion)

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer requests, in their order; as many batches as `max_batch_tokens` asks for."""
        batches: list[list[Request]] = []
        longest = 0
        for request in requests:
            if not request.prompt_ids or request.params.max_new_tokens < 1:
                raise DataError(f"request {request.key} has an empty prompt or no token to generate")
            need = len(request.prompt_ids) + request.params.max_new_tokens
            if batches and max(longest, need) * (len(batches[-1]) + 1) <= self.max_batch_tokens:
                batches[-1].append(request)
                longest = max(longest, need)
            else:
                batches.append([request])
                longest = need
        with self._inference():
            return [completion for batch in batches for completion in _Batch(self, batch).run()]

    @contextmanager
    def _inference(self) -> Iterator[None]:
        training = self.model.training
        self.model.eval()
        autocast: AbstractContextManager[object] = nullcontext()
        if self.dtype is not None:
            autocast = torch.autocast(self.model.device.type, dtype=self.dtype)
        try:
            with torch.inference_mode(), autocast:
                yield
        finally:
            self.model.train(training)


class _Batch:
    """The rows that run together. Per-row tensors are kept dense: a finished row is replaced by the last one."""

    def __init__(self, engine: HFEngine, requests: Sequence[Request]) -> None:
        self.engine = engine
        self.requests = requests
        device = engine.model.device
        params = [request.params for request in requests]
        lengths = [len(request.prompt_ids) for request in requests]
        self.width = max(lengths)  # columns of the cache in use
        self.capacity = self.width + max(one.max_new_tokens for one in params)
        self.alive = list(range(len(requests)))  # row -> request
        self.generators = [torch.Generator().manual_seed(request.seed) for request in requests]
        self.position = torch.tensor(lengths, device=device)  # [R], where the next token stands
        self.temperature = torch.tensor([one.temperature for one in params], device=device)  # [R]
        self.top_p = torch.tensor([one.top_p for one in params], dtype=torch.float64, device=device)  # [R]
        columns = torch.arange(self.capacity, device=device)
        self.mask = (columns >= (self.width - self.position).unsqueeze(1))[:, None, None, :]  # [R, 1, 1, C]
        self.uniform = torch.empty(len(requests), UNIFORMS, dtype=torch.float64, device=device)
        self.tokens: list[list[int]] = [[] for _ in requests]
        self.logprobs: list[list[float]] = [[] for _ in requests]
        self.finish: list[FinishReason] = ["length"] * len(requests)

    def run(self) -> list[Completion]:
        cache, logits = self._prefill()
        step = 0
        while True:
            if step % UNIFORMS == 0:
                drawn = [torch.rand(UNIFORMS, dtype=torch.float64, generator=self.generators[i]) for i in self.alive]
                self.uniform[: len(drawn)] = torch.stack(drawn).to(self.uniform.device)
            rows = len(self.alive)
            token, logprob = choose(
                logits.float(), self.temperature[:rows], self.top_p[:rows], self.uniform[:rows, step % UNIFORMS]
            )
            for row in self._record(token.tolist(), logprob.tolist()):
                self._drop(row, cache, token)
            rows = len(self.alive)
            if not rows:
                break
            self.width += 1
            logits = self._next_logits(cache, token[:rows, None])
            self.position += 1
            step += 1
        made = zip(self.tokens, self.logprobs, self.finish, strict=True)
        return [Completion(tuple(ids), tuple(values), why, self.engine.version) for ids, values, why in made]

    def _next_logits(self, cache: RowCache, token: Tensor) -> Tensor:
        """Run one step of the rows' newest tokens [R, 1]; logits [R, V]."""
        rows = len(token)
        with stepping(self.engine.model.config):
            output = self.engine.model(
                input_ids=token,
                attention_mask=self.mask[:rows, :, :, : self.width],
                position_ids=self.position[:rows, None],
                past_key_values=cache,
                use_cache=True,
            )
        return output.logits[:, -1]

    def _record(self, tokens: list[int], logprobs: list[float]) -> list[int]:
        """Append a step to every row; the rows that finish with it, last row first."""
        finished = []
        for row, (token, logprob) in enumerate(zip(tokens, logprobs, strict=True)):
            request = self.alive[row]
            self.tokens[request].append(token)
            self.logprobs[request].append(logprob)
            if token == self.engine.turn_end_id:
                self.finish[request] = "stop"
                finished.append(row)
            elif len(self.tokens[request]) == self.requests[request].params.max_new_tokens:
                finished.append(row)
        return finished[::-1]

    def _drop(self, row: int, cache: RowCache, token: Tensor) -> None:
        last = len(self.alive) - 1
        for tensor in (self.position, self.temperature, self.top_p, self.mask, self.uniform, token):
            tensor[row] = tensor[last]
        self.alive[row] = self.alive[last]
        self.alive.pop()
        cache.drop(row)

    def _prefill(self) -> tuple[RowCache, Tensor]:
        """Read each distinct prompt once, in sorted order, going on from what it shares with the one before.

        Returns the rows' cache and the logits [R, V] behind each prompt.
        """
        askers: dict[tuple[int, ...], list[int]] = {}
        for row, request in enumerate(self.requests):
            askers.setdefault(request.prompt_ids, []).append(row)
        rows: RowCache | None = None
        logits: Tensor | None = None
        cache = DynamicCache()
        previous: tuple[int, ...] = ()
        for prompt in sorted(askers):
            shared = _shared(previous, prompt)
            if shared:
                cache.crop(shared - len(previous))
            else:
                cache = DynamicCache()
            device = self.engine.model.device
            output = self.engine.model(
                input_ids=torch.tensor([prompt[shared:]], device=device),
                position_ids=torch.arange(shared, len(prompt), device=device).unsqueeze(0),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]  # [1, V]
            if rows is None or logits is None:
                rows = RowCache.empty(cache, len(self.requests), self.capacity, self.width, self.engine.dtype)
                logits = output.repeat(len(self.requests), 1)
            for row in askers[prompt]:
                rows.fill(row, cache)
                logits[row] = output[0]
            previous = prompt
        assert rows is not None and logits is not None  # a batch has at least one request
        return rows, logits


def _shared(previous: tuple[int, ...], prompt: tuple[int, ...]) -> int:
    """Tokens at the beginning that need not be read again; the last token of a prompt always is."""
    count = 0
    for mine, theirs in zip(previous, prompt[:-1], strict=False):
        if mine != theirs:
            break
        count += 1
    return count if count >= MIN_SHARED else 0
