"""An event loop in a thread of its own, for what outlives one `asyncio.run` of its callers: connections, an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from threading import Thread
from typing import Any, TypeVar

from rollout.engines.base import EngineError

T = TypeVar("T")
LAST = 5.0  # seconds that cancelled work may still take


class LoopThread:
    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that runs in this loop, from another one; cancelled with its caller."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The same from code that has no event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Cancel what still runs, then end loop and thread."""
        if self._loop.is_running():
            self.wait(_cancelled())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _cancelled() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=LAST)


async def step(what: str, seconds: float, work: Awaitable[T]) -> T:
    """One step of a sync under its deadline. Raises EngineError that names the step and holds the engine's own words."""
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError as error:
        raise EngineError(
            f"{what} did not end within {seconds:g} s; is the engine alive, or is the deadline too short?"
        ) from error
    except EngineError:
        raise
    except Exception as error:  # whatever an engine raises is told on in ours
        raise EngineError(f"{what} failed: {type(error).__name__}: {' '.join(str(error).split())}") from error
