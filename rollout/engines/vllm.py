"""The `vllm` engine: vLLM's AsyncLLM beside the trainer, on a CPU or sharing its GPU.

Trajectories run free: every request is answered when it is ready. Weights come through a versioned file into the running
engine (`rollout.engines.worker`), or the LoRA adapter alone under an id that was never used before.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rollout.engines.base import Completion, EngineError, Request
from rollout.engines.loop import LoopThread, step
from rollout.engines.weights import WEIGHTS, WeightFolder, WeightSum

EXTENSION = "rollout.engines.worker.WeightSync"
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM's max_lora_rank may be
ENVIRONMENT = {
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a forked engine process would have the trainer's threads in an unknown state
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",  # a busy machine is no dead worker
}
ON_CPU = {"TORCHDYNAMO_DISABLE": "1"}  # one small function of the sampler, which else waits for a C++ compiler


@dataclass(frozen=True)
class VLLMConfig:
    """`model` is a folder with the model's config; its weights come with the first sync, written to a version below `folder`.
    `adapter`, PEFT's configuration of a LoRA, says that a sync brings the adapter alone: the base is then loaded from
    `model`. `deadline` is that of each step of a sync, in seconds."""

    model: Path
    folder: Path
    turn_end_id: int
    dtype: torch.dtype
    max_tokens: int  # prompt and completion
    kv_cache_gib: float
    deadline: float
    adapter: Mapping[str, Any] | None = None
    gpu: bool = False  # the trainer's, too: the engine sleeps between rollouts

    def engine_args(self) -> dict[str, Any]:
        """Arguments of vLLM's AsyncEngineArgs."""
        made: dict[str, Any] = {
            "model": str(self.model),
            "skip_tokenizer_init": True,
            "dtype": str(self.dtype).removeprefix("torch."),
            "max_model_len": self.max_tokens,
            "enforce_eager": not self.gpu,
            "enable_prefix_caching": True,
            "kv_cache_memory_bytes": int(self.kv_cache_gib * 2**30),
            "gpu_memory_utilization": 0.1,  # only checked against the free memory: the size of the cache is given
            "logprobs_mode": "raw_logprobs",
            "generation_config": "vllm",  # no sampling defaults from the model's folder
            "enable_sleep_mode": self.gpu,
            "disable_log_stats": True,
        }
        if self.adapter is None:
            return made | {"worker_extension_cls": EXTENSION, "load_format": "dummy"}
        rank = next(one for one in LORA_RANKS if one >= self.adapter["r"])
        return made | {"enable_lora": True, "max_loras": 1, "max_cpu_loras": 2, "max_lora_rank": rank}


class VLLMEngine:
    """`llm` is an AsyncLLM that was made inside `loop`. Errors: EngineError with vLLM's own words."""

    replicas = 1

    def __init__(self, llm: Any, loop: LoopThread, config: VLLMConfig) -> None:
        self.dtype: torch.dtype | None = config.dtype
        self.version = -1
        self._llm = llm
        self._loop = loop
        self._config = config
        self._folder = WeightFolder(config.folder, config.dtype)
        self._asleep = False
        self._adapter: Any = None  # LoRARequest
        self._adapter_ids = count(1)
        self._requests = count()

    @classmethod
    def start(cls, config: VLLMConfig) -> VLLMEngine:
        """Start vLLM, which takes half a minute or more. Errors: EngineError, also where vLLM is not installed."""
        loop = LoopThread("vllm")
        try:
            with _environment(ENVIRONMENT if config.gpu else ENVIRONMENT | ON_CPU):
                return cls(loop.wait(_start(config)), loop, config)
        except ImportError as error:
            loop.close()
            words = 'vLLM cannot be loaded: pip install -e ".[gpu]" (without a GPU ".[cpu]"), or use engine.kind=hf'
            raise EngineError(f"{words} ({error})") from error
        except Exception as error:
            loop.close()
            raise EngineError(f"vLLM does not start on {config.model}: {' '.join(str(error).split())}") from error

    async def generate(self, request: Request) -> Completion:
        return await self._loop.run(self._generate(request))

    async def sync(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Bring all weights, under their Hugging Face names, or the adapter's, under PEFT's. No request may be running."""
        tensors = list(named_tensors)
        if not tensors:
            raise EngineError("vllm holds its own copy of the weights: a sync needs all of them, and was given none")
        await self._loop.run(self._sync(tensors, version))

    async def weight_sums(self) -> list[WeightSum]:
        """Nothing where an adapter is served: the base never changes then."""
        if self._config.adapter is not None:
            return []
        answers = await self._loop.run(self._call("reading the weights' sums", "weight_sums"))
        return [WeightSum(tuple(one["names"]), one["total"], one["absolute"]) for one in answers[0]]

    async def sleep(self) -> None:
        await self._loop.run(self._sleep())

    def close(self) -> None:
        self._llm.shutdown()
        self._loop.close()

    async def _generate(self, request: Request) -> Completion:
        if self.version < 0:
            raise EngineError("vllm has no weights before its first sync")
        await self._wake()
        version, name = self.version, f"{request.key.network}-{request.key.g}-{request.key.t}-{next(self._requests)}"
        prompt = {"prompt_token_ids": list(request.prompt_ids)}
        params = sampling_params(request, self._config.turn_end_id)
        final: Any = None
        try:
            async for output in self._llm.generate(prompt, params, name, lora_request=self._adapter):
                final = output
        except Exception as error:
            raise EngineError(f"vllm failed on {request.key}: {' '.join(str(error).split())}") from error
        made = final.outputs[0]
        if made.finish_reason not in ("stop", "length"):
            raise EngineError(f"vllm ended {request.key} with {made.finish_reason!r} instead of an answer")
        logprobs = tuple(float(seen[token].logprob) for token, seen in zip(made.token_ids, made.logprobs, strict=True))
        return Completion(tuple(made.token_ids), logprobs, made.finish_reason, version)

    async def _sync(self, tensors: list[tuple[str, Tensor]], version: int) -> None:
        """Write, wake the weights, load, wake the cache, forget what it held: in this order, each within the deadline."""
        adapter = self._config.adapter
        made = await self._step("writing the weights", self._folder.written(tensors, version, adapter))
        if self._asleep:
            torch.cuda.empty_cache()  # the trainer's allocator holds on to what the engine wakes into
            await self._step("waking the weights", self._llm.wake_up(tags=["weights"]))
        if adapter is None:
            await self._call("loading the weights", "load_weight_file", str(made / WEIGHTS))
        else:
            await self._load_adapter(made)
        if self._asleep:
            await self._step("waking the cache", self._llm.wake_up(tags=["kv_cache"]))
            self._asleep = False
        if not await self._step("resetting the prefix cache", self._llm.reset_prefix_cache()):
            raise EngineError("vllm could not reset its prefix cache: requests are still running during a sync")
        self.version = version
        self._folder.keep_only(version)

    async def _load_adapter(self, folder: Path) -> None:
        """Under a new id each time: vLLM goes on serving what it first loaded under an id."""
        number = next(self._adapter_ids)
        made = importlib.import_module("vllm.lora.request").LoRARequest(f"writer-{number}", number, str(folder))
        await self._step("loading the adapter", self._llm.add_lora(made))
        if self._adapter is not None:
            await self._step("removing the old adapter", self._llm.remove_lora(self._adapter.lora_int_id))
        self._adapter = made

    async def _sleep(self) -> None:
        """Weights go to the host's memory, so that a round without a step can wake without a sync; the cache is dropped."""
        if self._config.gpu and not self._asleep:
            await self._step("going to sleep", self._llm.sleep(level=1))
            self._asleep = True

    async def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            torch.cuda.empty_cache()
            await self._step("waking", self._llm.wake_up())

    async def _call(self, what: str, method: str, *args: str) -> Any:
        deadline = self._config.deadline
        return await self._step(what, self._llm.collective_rpc(method, timeout=deadline, args=args))

    async def _step(self, what: str, work: Any) -> Any:
        return await step(f"vllm: {what}", self._config.deadline, work)


def sampling_params(request: Request, turn_end_id: int) -> Any:
    """vLLM's parameters of a request: the turn end stops it and nothing else does, log-probabilities of sampled tokens."""
    vllm = importlib.import_module("vllm.sampling_params")
    return vllm.SamplingParams(
        temperature=request.params.temperature,
        top_p=request.params.top_p,
        max_tokens=request.params.max_new_tokens,
        seed=request.seed,
        stop_token_ids=[turn_end_id],
        ignore_eos=True,
        logprobs=0,
        detokenize=False,
        output_kind=vllm.RequestOutputKind.FINAL_ONLY,
    )


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """What vLLM's processes are started with; what the user has set stays, and nothing is left behind."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


async def _start(config: VLLMConfig) -> Any:
    args = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs(**config.engine_args())
    return importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM.from_engine_args(args)
