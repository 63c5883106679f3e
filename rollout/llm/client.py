"""One client for all model calls: cache, concurrency, deadline, retries, accounting. Async inside, `run` outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from rollout.llm.accounting import Accounting
from rollout.llm.cache import Reply, ReplyCache, content_key
from rollout.llm.errors import MissingKind, MissingReply, SetupError, Unparsable
from rollout.llm.provider import Answered, ChatCall, Transient, priced, send

T = TypeVar("T")
Send = Callable[[ChatCall, float], Awaitable[Answered]]
ROUND_TRIPS = frozenset({MissingKind.EMPTY, MissingKind.UNPARSABLE})  # may come out better when asked again


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """`deadline` is seconds per attempt, `retries` further attempts after the first, `backoff` the first wait in
    seconds (doubled each time, at most `longest_wait`; a longer Retry-After ends the call as an outage)."""

    cache: Path | None = None  # a file; None caches in memory
    concurrency: int = 8
    deadline: float = 60.0
    retries: int = 4
    backoff: float = 0.5
    longest_wait: float = 60.0
    budget_usd: float | None = None
    budget_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.retries < 0 or self.deadline <= 0:
            raise SetupError(
                f"client: concurrency {self.concurrency}, retries {self.retries}, deadline {self.deadline}: "
                "give concurrency >= 1, retries >= 0 and a deadline above 0 seconds"
            )


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """A usable reply as its reader understood it, and its tokens. A cached or shared one took no attempt: nothing was paid."""

    value: T
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 0


class Client:
    """Calls models. A usable reply is cached by the content of its request; a missing one never is.

    Equal requests in flight share one call. `accounting` says what every stage has used so far.
    """

    def __init__(self, config: ClientConfig, send: Send = send) -> None:
        self.config = config
        self.accounting = Accounting(config.budget_usd, config.budget_tokens)
        self._cache = ReplyCache(config.cache)
        self._send = send
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gate = asyncio.Semaphore(config.concurrency)
        self._flights: dict[str, asyncio.Future[tuple[Reply, int]]] = {}

    async def ask(self, call: ChatCall, read: Callable[[str], T]) -> T:
        """The reply to a call, as `read` understands its text (`read` raises Unparsable); errors as `exchange`."""
        return (await self.exchange(call, read)).value

    async def exchange(self, call: ChatCall, read: Callable[[str], T]) -> Outcome[T]:
        """The same with what it took.

        Errors: MissingReply where no usable reply came within the retries, BudgetExceeded at a cap, SetupError where
        the call can never work.
        """
        use = self.accounting.stage(call.stage)
        use.calls += 1
        key = content_key(call.content())
        try:
            cached = self._cache.get(key)
            if cached is not None:
                try:
                    value = read(cached.text)
                except Unparsable:  # cached by a reader of an earlier version
                    self._cache.drop(key)
                else:
                    use.cached += 1
                    return Outcome(value, True, cached.prompt_tokens, cached.completion_tokens)
            return await self._shared(call, key, read)
        except Unparsable as error:
            missing = MissingReply(MissingKind.UNPARSABLE, call.stage, str(error))
            use.missing[missing.kind] += 1
            raise missing from error
        except MissingReply as missing:
            use.missing[missing.kind] += 1
            raise

    async def _shared(self, call: ChatCall, key: str, read: Callable[[str], T]) -> Outcome[T]:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # a new `run`: gates and futures belong to one loop
            self._loop, self._gate, self._flights = loop, asyncio.Semaphore(self.config.concurrency), {}
        flight = self._flights.get(key)
        if flight is not None:
            self.accounting.stage(call.stage).shared += 1
            reply, _ = await asyncio.shield(flight)
            return Outcome(read(reply.text), True, reply.prompt_tokens, reply.completion_tokens)
        flight = self._flights[key] = asyncio.ensure_future(self._attempts(call, key, read))
        flight.add_done_callback(lambda _: self._flights.pop(key, None))
        reply, attempts = await asyncio.shield(flight)  # one waiter's cancellation is not the others'
        return Outcome(read(reply.text), False, reply.prompt_tokens, reply.completion_tokens, attempts)

    async def _attempts(self, call: ChatCall, key: str, read: Callable[[str], Any]) -> tuple[Reply, int]:
        """The first usable reply and the number of the attempt that brought it."""
        if self.config.budget_usd is not None and call.api_base is None and not priced(call.model):
            raise SetupError(
                f"{call.stage}: no price is known for {call.model!r}, so a cap in USD cannot hold; set budget_tokens instead"
            )
        use = self.accounting.stage(call.stage)
        for attempt in range(self.config.retries + 1):
            last = attempt == self.config.retries
            try:
                async with self._gate:
                    self.accounting.check()
                    use.attempts += 1
                    answered = await self._send(call, self.config.deadline)
                usage = answered.reply
                self.accounting.spend(call.stage, usage.prompt_tokens, usage.completion_tokens, answered.cost_usd)
                reply = self._usable(call, answered, read)
            except Transient as failure:
                wait = self._wait(key, attempt, failure.retry_after)
                if last or wait > self.config.longest_wait:
                    raise MissingReply(MissingKind.OUTAGE, call.stage, f"{failure} (attempt {attempt + 1})") from None
            except MissingReply as missing:
                wait = self._wait(key, attempt, None)
                if last or missing.kind not in ROUND_TRIPS:
                    raise
            else:
                self._cache.put(key, reply)
                return reply, attempt + 1
            use.retries += 1
            await asyncio.sleep(wait)  # outside the gate: others go on
        raise AssertionError("the last attempt returns or raises")

    def _usable(self, call: ChatCall, answered: Answered, read: Callable[[str], Any]) -> Reply:
        """The reply, if it is one that may be cached and scored; else MissingReply."""
        reply = answered.reply
        tokens = (reply.prompt_tokens, reply.completion_tokens)
        if answered.refusal:
            detail = "the model declined or a content filter stopped it"
            raise MissingReply(MissingKind.REFUSAL, call.stage, detail, tokens)
        if answered.finish_reason == "length":
            raise MissingReply(MissingKind.CUT_OFF, call.stage, f"the reply reached {call.max_tokens} tokens", tokens)
        if not reply.text.strip():
            raise MissingReply(MissingKind.EMPTY, call.stage, "the reply is empty", tokens)
        try:
            read(reply.text)
        except Unparsable as error:
            raise MissingReply(MissingKind.UNPARSABLE, call.stage, str(error), tokens) from error
        return reply

    def _wait(self, key: str, attempt: int, retry_after: float | None) -> float:
        """Seconds before the next attempt: the server's wish, else doubling backoff spread by 0.5 to 1.5 by the key
        (so that calls that failed together do not come back together, and a run repeats)."""
        if retry_after is not None:
            return retry_after
        spread = 0.5 + int(key[:8], 16) / 0xFFFFFFFF
        return min(self.config.backoff * 2.0**attempt * spread, self.config.longest_wait)

    def close(self) -> None:
        self._cache.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run async work from plain code, also inside a notebook (whose loop is busy: a thread of its own is used)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    result: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(asyncio.run(work))
        except BaseException as error:  # handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]
