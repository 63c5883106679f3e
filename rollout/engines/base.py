"""The engine interface: prompt token ids in, completion token ids out (design section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from data.network import DataError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rollout.engines.weights import WeightSum

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Decoding of one request. temperature 0 is greedy."""

    temperature: float = 0.8
    top_p: float = 0.95
    max_new_tokens: int = 2048


@dataclass(frozen=True, slots=True, order=True)
class RequestKey:
    """Who asks: fixes the order inside a batch and, with the run's seed, the request's seed."""

    round: int
    network: str
    visit: int
    g: int
    t: int


@dataclass(frozen=True, slots=True)
class Request:
    prompt_ids: tuple[int, ...]
    seed: int
    params: SamplingParams
    key: RequestKey


@dataclass(frozen=True, slots=True)
class Completion:
    """Sampled tokens, the turn-end token included when finish_reason is `stop`. `logprobs` are raw (untempered, not
    renormalised by top-p) and for diagnostics only. Shapes [K]. `usage` holds the tokens (prompt, completion) that an
    interface counted, where the model behind it has a tokenizer of its own."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    weights_version: int
    usage: tuple[int, int] | None = None


class EngineError(DataError):
    """An engine that failed, with its own words."""


@runtime_checkable
class Engine(Protocol):
    """What generates Writer completions: hf, vllm, vllm-server, replay."""

    async def generate(self, request: Request) -> Completion: ...

    async def sync(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None: ...


@runtime_checkable
class Inspectable(Protocol):
    """An engine whose weights can be proved. `dtype` is that in which it holds them (none: float32); a request with the key
    g = i, round -1 and network "" reaches replica i of `replicas`."""

    dtype: torch.dtype | None
    replicas: int

    async def weight_sums(self) -> list[WeightSum]:
        """Sums of what the engine holds, or nothing where it cannot tell. Raises EngineError where replicas differ."""
        ...


@runtime_checkable
class Managed(Protocol):
    """An engine outside the trainer's own model."""

    async def sleep(self) -> None:
        """Give the memory of a shared device to the trainer; the next request or sync wakes the engine."""
        ...

    def close(self) -> None: ...
