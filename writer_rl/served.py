"""An exported Writer behind a server: what it serves is proved against the contract, then token ids go in and come out."""

from __future__ import annotations

import asyncio
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import torch

from data.network import DataError
from rollout.engines.base import Completion, SamplingParams
from rollout.engines.loop import LoopThread
from rollout.engines.vllm_server import read_completion
from rollout.llm.errors import MissingKind, MissingReply, SetupError
from rollout.llm.provider import LOCAL_KEY, Transient, redact
from writer_rl import contract
from writer_rl.contract import Contract, ContractMismatch
from writer_rl.parity import BOUNDS
from writer_rl.probe import TOP

STAGE = "write"
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that another attempt may mend
NEVER = frozenset({401, 403, 404, 405})


@dataclass(frozen=True, slots=True)
class ServedConfig:
    """`concurrency` requests are in flight at most: whoever asks beyond that waits for a turn, and so does the chat behind it.
    `deadline` is seconds per attempt; `retries` further attempts follow the first, `backoff` seconds after it, doubled each
    time up to `longest_wait` (a server's Retry-After counts instead; a longer one ends the call)."""

    concurrency: int = 64
    deadline: float = 600.0
    retries: int = 4
    backoff: float = 0.5
    longest_wait: float = 60.0


class Served:
    """One export behind one server. For any number of conversations, threads and event loops at once.

    Equal requests in flight share one call, so a caller that gave up and asks again never doubles the work. Errors:
    MissingReply on an outage or a request the server refuses, ContractMismatch where it serves something else, SetupError
    where it can never work.
    """

    def __init__(self, url: str, folder: Path | None = None, config: ServedConfig = ServedConfig()) -> None:
        """`folder` is the export as this machine has it; None: the server's own model folder, where both share a disk."""
        if not url.startswith(("http://", "https://")):
            raise SetupError(f"server:{url}: give the server's address, for example server:http://127.0.0.1:8000")
        self.url = url.rstrip("/").removesuffix("/v1")
        self.most = 0  # requests that were in flight together so far
        self._given = folder
        self._config = config
        self._loop = LoopThread("served-writer")
        key = os.environ.get(LOCAL_KEY)
        self._client = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=config.deadline,
            limits=httpx.Limits(max_connections=config.concurrency),
            trust_env=False,
        )
        self._gate = asyncio.Semaphore(config.concurrency)
        self._active = 0
        self._flights: dict[str, asyncio.Future[Any]] = {}
        self._opening: asyncio.Future[tuple[Path, Contract]] | None = None
        self._opened: tuple[Path, Contract] | None = None

    async def open(self) -> tuple[Path, Contract]:
        """The export's folder and contract, once the server has proved to serve it."""
        return await self._loop.run(self._open())

    async def complete(self, prompt_ids: tuple[int, ...], params: SamplingParams, seed: int, grammar: str = "") -> Completion:
        """One completion under the training's rule: the turn end ends it and nothing else does. `grammar` (EBNF) binds it."""
        return await self._loop.run(self._complete(prompt_ids, params, seed, grammar))

    async def difference(self, terms: Contract) -> float:
        """Largest difference between the log-probabilities of the fixed chat that the server and the checkpoint give."""
        return await self._loop.run(self._difference(terms))

    def close(self) -> None:
        self._loop.wait(self._client.aclose())
        self._loop.close()

    async def _complete(self, prompt_ids: tuple[int, ...], params: SamplingParams, seed: int, grammar: str) -> Completion:
        _, terms = await self._open()
        body: dict[str, Any] = {
            "model": terms.id,
            "prompt": list(prompt_ids),
            "max_tokens": params.max_new_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "seed": seed,
            "stop_token_ids": [terms.turn_end_id],
            "ignore_eos": not grammar,  # behind a finished grammar only an end of text may come, whichever the model has
            "logprobs": 0,
            **PLAIN,
        }
        if grammar:
            body["structured_outputs"] = {"grammar": grammar}
        answer = await self._shared("/v1/completions", body)
        return read_completion(answer, self.url, 0)

    async def _open(self) -> tuple[Path, Contract]:
        """All who wait share one proof, and its failure: while a server is away, they do not wait for it one by one."""
        if self._opened is None:
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._prove())
                self._opening.add_done_callback(self._proved)
            self._opened = await asyncio.shield(self._opening)
        return self._opened

    def _proved(self, proof: asyncio.Future[Any]) -> None:
        self._opening = None
        if not proof.cancelled():
            proof.exception()  # seen, also where nobody waits any more

    async def _prove(self) -> tuple[Path, Contract]:
        models = (await self._attempts("GET", "/v1/models", None))["data"]
        folder = self._given or self._folder_of(models)
        terms = contract.read(folder)
        card = next((one for one in models if one["id"] == terms.id), None)
        if card is None:
            raise ContractMismatch(
                f"{self.url} serves {', '.join(repr(one['id']) for one in models)}, not Writer {terms.id}; start the server by "
                "the command that the export printed (it names the model), or name the export that it serves: server:URL#FOLDER"
            )
        needed, window = terms.limits.prompt_tokens + terms.limits.new_tokens, card.get("max_model_len")
        if window is not None and window < needed:
            raise ContractMismatch(
                f"{self.url} reads {window} tokens, Writer {terms.id} was trained with {needed}; start the server with "
                f"--max-model-len {needed}"
            )
        worst = await self._difference(terms)
        bound = BOUNDS[getattr(torch, terms.dtype)]
        if not worst <= bound:
            raise ContractMismatch(
                f"{self.url} gives a fixed text log-probabilities that differ by {worst:.4f} from those of Writer {terms.id} "
                f"(allowed {bound} in {terms.dtype}): it serves other weights under this name; start it "
                "with the command that the export printed"
            )
        return folder, terms

    def _folder_of(self, models: list[dict[str, Any]]) -> Path:
        """The model folder that the server names, where it is an export on this machine too."""
        for one in models:
            root = Path(str(one.get("root") or ""))
            if (root / contract.FILE).is_file():
                return root
        raise DataError(
            f"{self.url}: the folder that it serves is no export, or is not on this machine; name the export here: "
            "server:URL#FOLDER"
        )

    async def _difference(self, terms: Contract) -> float:
        probe = terms.probe
        body = {
            "model": terms.id,
            "prompt": [*probe.prompt_ids, *probe.greedy_ids],
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": TOP,
            **PLAIN,
        }
        choice = (await self._attempts("POST", "/v1/completions", body))["choices"][0]
        read = choice.get("prompt_logprobs")
        if not read:
            raise ContractMismatch(f"{self.url} gives no log-probabilities of a prompt: what it serves is unproved; use vLLM")
        here = read[len(probe.prompt_ids) :]
        differences = [
            abs(position[str(token)]["logprob"] - value)
            for position, ids, values in zip(here, probe.top_ids, probe.top_logprobs, strict=True)
            for token, value in zip(ids, values, strict=True)
            if str(token) in position
        ]
        own = sum(str(token) in position for position, token in zip(here, probe.greedy_ids, strict=True))
        return max(differences) if own == len(probe.greedy_ids) and differences else float("inf")

    async def _shared(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a request; to one that is in flight already, the same."""
        key = sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.ensure_future(self._attempts("POST", path, body))
            flight.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(flight)  # one waiter's cancellation is not the others'

    def _landed(self, key: str, flight: asyncio.Future[Any]) -> None:
        self._flights.pop(key, None)
        if not flight.cancelled():
            flight.exception()  # seen, also where nobody waits any more

    async def _attempts(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        wait = self._config.backoff
        for attempt in range(self._config.retries + 1):
            try:
                async with self._gate:
                    return await self._send(method, path, body)
            except Transient as failure:
                pause = failure.retry_after
                if pause is None:
                    pause = min(wait * _spread(body), self._config.longest_wait)
                if attempt == self._config.retries or pause > self._config.longest_wait:
                    raise MissingReply(MissingKind.OUTAGE, STAGE, f"{failure} (attempt {attempt + 1})") from None
            await asyncio.sleep(pause)  # outside the gate: others go on
            wait *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        self._active += 1
        self.most = max(self.most, self._active)
        try:
            async with asyncio.timeout(self._config.deadline):
                response = await self._client.request(method, path, json=body)
        except TimeoutError:
            raise Transient(f"{self.url}{path}: no answer within {self._config.deadline:g} s") from None
        except httpx.HTTPError as error:
            raise Transient(redact(f"{self.url}{path}: {type(error).__name__}: {error}")) from None
        finally:
            self._active -= 1
        if response.status_code == 200:
            try:
                return response.json()
            except ValueError:
                raise Transient(f"{self.url}{path}: the answer is not JSON") from None
        said = redact(f"{self.url}{path} answered {response.status_code}: {' '.join(response.text.split())}")
        if response.status_code in AGAIN:
            raise Transient(said, _seconds(response.headers.get("retry-after")))
        if response.status_code in NEVER:
            raise SetupError(f"{said}. Is a vLLM server there? Its key, where it wants one, is read from {LOCAL_KEY}")
        raise MissingReply(MissingKind.REJECTED, STAGE, said)


# Said outright, since a server may take other defaults from its model's folder; ids, since text would be tokenized again.
PLAIN: dict[str, Any] = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "return_token_ids": True,
    "add_special_tokens": False,
}


def _spread(body: Mapping[str, Any] | None) -> float:
    """0.5 to 1.5, by the request: calls that failed together do not come back together."""
    return 0.5 + zlib.crc32(json.dumps(body, sort_keys=True).encode()) / 0xFFFFFFFF


def _seconds(value: str | None) -> float | None:
    """Retry-After as seconds; the HTTP-date form is left to the backoff (no wall clock is read)."""
    try:
        return max(0.0, float(value)) if value is not None else None
    except ValueError:
        return None
