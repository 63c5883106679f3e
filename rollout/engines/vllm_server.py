"""The `vllm-server` engine: one or several vLLM servers with an OpenAI-compatible interface, on other GPUs or hosts.

Token ids go in and come out, so nothing is tokenized on the way. Weights reach a server as a file in a folder that it sees
under the same path, through `POST /collective_rpc` of a server in development mode: that port can do anything, so keep it
on the loopback interface (a tunnel brings it to other hosts). A LoRA adapter alone needs no development mode.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import torch
from torch import Tensor

from rollout.engines.base import Completion, EngineError, Request, RequestKey
from rollout.engines.loop import LoopThread, step
from rollout.engines.vllm import EXTENSION, LORA_RANKS
from rollout.engines.weights import WEIGHTS, WeightFolder, WeightSum

DETAIL = 500  # characters of a server's error text that are kept


@dataclass(frozen=True)
class ServersConfig:
    """`urls` such as http://127.0.0.1:8000; `folder` is where versions of the weights are written, visible to all servers.
    `adapter`, PEFT's configuration of a LoRA, says that a sync brings the adapter alone, under names made of `token`, since a
    server that outlives the run must not confuse another run's adapters with these. `deadline` is that of each step of a
    sync, `answer` that of a completion, in seconds. Of several ranks with the same servers and token one `leads`: it syncs."""

    urls: tuple[str, ...]
    folder: Path
    turn_end_id: int
    dtype: torch.dtype
    deadline: float
    answer: float
    adapter: Mapping[str, Any] | None = None
    token: str = "0"  # noqa: S105 a name, no secret
    leads: bool = True


class VLLMServers:
    """Errors: EngineError that names the server and holds its own words."""

    def __init__(self, config: ServersConfig) -> None:
        self.dtype: torch.dtype | None = config.dtype
        self.replicas = len(config.urls)
        self.version = -1
        self._config = config
        self._folder = WeightFolder(config.folder, config.dtype)
        self._loop = LoopThread("vllm-server")
        limits = httpx.Limits(max_connections=None)  # the servers queue, and batch what they have
        self._client = httpx.AsyncClient(limits=limits, trust_env=False)
        self._models: tuple[str, ...] = ()  # served name per server
        self._adapter = ""

    async def generate(self, request: Request) -> Completion:
        return await self._loop.run(self._generate(request))

    async def sync(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Bring all weights, under their Hugging Face names, or the adapter's, under PEFT's. No request may be running."""
        tensors = list(named_tensors)
        if not tensors:
            raise EngineError("servers hold their own copy of the weights: a sync needs all of them, and was given none")
        await self._loop.run(self._sync(tensors, version))

    async def weight_sums(self) -> list[WeightSum]:
        """Nothing where an adapter is served, or where a server spreads its weights over several workers. Raises EngineError
        for servers that differ."""
        if self._config.adapter is not None:
            return []
        first, *others = await self._loop.run(self._everywhere(self._sums))
        for url, other in zip(self._config.urls[1:], others, strict=True):
            if [one.names for one in other] != [one.names for one in first] or not all(map(WeightSum.agrees, other, first)):
                raise EngineError(f"{url} holds other weights than {self._config.urls[0]} after the same sync")
        return first

    async def sleep(self) -> None:
        """Servers have their own devices."""

    def close(self) -> None:
        self._loop.wait(self._client.aclose())
        self._loop.close()

    def server_of(self, key: RequestKey) -> int:
        """Which server answers: the same for a whole trajectory, another for the next of its group."""
        return (zlib.crc32(key.network.encode()) + key.visit + key.g) % self.replicas

    async def _generate(self, request: Request) -> Completion:
        if self.version < 0:
            raise EngineError("the servers have no weights of this run before its first sync")
        url, version = self._config.urls[self.server_of(request.key)], self.version
        body = {
            "model": self._adapter or await self._model(url),
            "prompt": list(request.prompt_ids),
            "temperature": request.params.temperature,
            "top_p": request.params.top_p,
            "top_k": 0,  # said outright, since a server may take other defaults from its model's folder
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "max_tokens": request.params.max_new_tokens,
            "seed": request.seed,
            "stop_token_ids": [self._config.turn_end_id],
            "ignore_eos": True,
            "logprobs": 0,
            "return_token_ids": True,
            "add_special_tokens": False,
        }
        answer = await self._post(url, "/v1/completions", body, self._config.answer)
        return read_completion(answer, url, version)

    async def _model(self, url: str) -> str:
        if not self._models:
            self._models = tuple(await self._everywhere(self._check))
        return self._models[self._config.urls.index(url)]

    async def _sync(self, tensors: list[tuple[str, Tensor]], version: int) -> None:
        """Write once, then on every server: load, forget the cached prefixes; each step within the deadline."""
        await self._model(self._config.urls[0])
        if self._config.leads:
            writing = self._folder.written(tensors, version, self._config.adapter)
            made = await step("writing the weights", self._config.deadline, writing)
            load = self._load_weights if self._config.adapter is None else self._load_adapter
            await self._everywhere(load, made, version)
            self._folder.keep_only(version)
        if self._config.adapter is not None:
            self._adapter = self._adapter_name(version)
        self.version = version

    async def _load_weights(self, url: str, folder: Path, version: int) -> None:
        await self._rpc(url, "load_weight_file", str(folder / WEIGHTS))
        answer = await self._post(url, "/reset_prefix_cache", None, self._config.deadline)
        if not answer.get("success"):
            raise EngineError(f"{url} could not reset its prefix cache: requests are still running during a sync")

    async def _load_adapter(self, url: str, folder: Path, version: int) -> None:
        """Under a new name, and so a new id and no cached prefix; the old one goes when the new one is there."""
        body = {"lora_name": self._adapter_name(version), "lora_path": str(folder)}
        await self._post(url, "/v1/load_lora_adapter", body, self._config.deadline)
        if self._adapter:
            await self._post(url, "/v1/unload_lora_adapter", {"lora_name": self._adapter}, self._config.deadline)

    def _adapter_name(self, version: int) -> str:
        return f"writer-{self._config.token}-{version}"

    async def _check(self, url: str) -> str:
        """The name of the model that a server has."""
        answer = await self._request("GET", url, "/v1/models", None, self._config.deadline)
        return str(answer["data"][0]["id"])

    async def _sums(self, url: str) -> list[WeightSum]:
        answers = await self._rpc(url, "weight_sums")
        if len(answers) > 1:  # a server that spreads its weights over several workers
            return []
        return [WeightSum(tuple(one["names"]), one["total"], one["absolute"]) for one in answers[0]]

    async def _rpc(self, url: str, method: str, *args: str) -> Any:
        body = {"method": method, "args": list(args), "timeout": self._config.deadline}
        return (await self._post(url, "/collective_rpc", body, self._config.deadline))["results"]

    async def _everywhere(self, work: Any, *args: Any) -> list[Any]:
        return list(await asyncio.gather(*(work(url, *args) for url in self._config.urls)))

    async def _post(self, url: str, path: str, body: Any, seconds: float) -> Any:
        return await self._request("POST", url, path, body, seconds)

    async def _request(self, method: str, url: str, path: str, body: Any, seconds: float) -> Any:
        """The JSON of an answer, or its text where it is not JSON."""
        sent = self._client.request(method, url + path, json=body, timeout=None)
        response = await step(f"{url}{path}", seconds, sent)
        if response.status_code != 200:
            hint = _hint(path, response.status_code)
            raise EngineError(f"{url}{path} answered {response.status_code}: {_words(response)}{hint}")
        return response.json() if "json" in response.headers.get("content-type", "") else response.text


def start_command(model: Path, port: int, dtype: str, max_tokens: int, lora_rank: int = 0) -> list[str]:
    """Arguments (after the Python interpreter) that start a server this engine can use."""
    made = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    made += ["--dtype", dtype, "--max-model-len", str(max_tokens), "--enforce-eager"]
    made += ["--logprobs-mode", "raw_logprobs", "--generation-config", "vllm"]
    if lora_rank:
        rank = next(one for one in LORA_RANKS if one >= lora_rank)
        return [*made, "--enable-lora", "--max-loras", "1", "--max-cpu-loras", "2", "--max-lora-rank", str(rank)]
    return [*made, "--worker-extension-cls", EXTENSION]


def read_completion(answer: Mapping[str, Any], url: str, version: int) -> Completion:
    """A completion from a server's answer. Raises EngineError where ids or log-probabilities are missing."""
    choice = answer["choices"][0]
    ids, logprobs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
    if ids is None or logprobs is None or len(ids) != len(logprobs) or None in logprobs:
        raise EngineError(f"{url} gave no token ids with their log-probabilities; use vLLM 0.20 or later")
    if choice["finish_reason"] not in ("stop", "length"):
        raise EngineError(f"{url} ended a request with {choice['finish_reason']!r} instead of an answer")
    return Completion(tuple(ids), tuple(map(float, logprobs)), choice["finish_reason"], version)


def _words(response: httpx.Response) -> str:
    return " ".join(response.text.split())[:DETAIL] or response.reason_phrase


def _hint(path: str, status: int) -> str:
    if status != 404 or not path.startswith(("/collective_rpc", "/reset", "/v1/load_lora")):
        return ""
    variable = "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1" if "lora" in path else "VLLM_SERVER_DEV_MODE=1"
    return f"; start the server with {variable}"
