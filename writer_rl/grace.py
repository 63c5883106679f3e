"""SIGTERM: a run that is asked to end does so where nothing is half done, and within its grace period where it can."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

EXIT_CODE = 128 + signal.SIGTERM


class Terminated(SystemExit):
    """The process was asked to end. A SystemExit, because that one ends an asyncio loop from inside a task at once."""

    def __init__(self) -> None:
        super().__init__(EXIT_CODE)


class Grace:
    """Inside `with`, SIGTERM raises Terminated: at once, or where `hold` was called only when `release` is.

    What stands between the two leaves the run half done (weights that moved, a checkpoint that is being written). Outside
    the main thread, where Python has no signals, it does nothing.
    """

    def __init__(self) -> None:
        self._held = False
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Grace:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._asked_to_end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)

    def hold(self) -> None:
        """From here on a SIGTERM waits."""
        self._held = True

    def release(self) -> None:
        """Here the run may end again. Raises Terminated where a SIGTERM waits."""
        self._held = False
        if self._asked:
            self._asked = False
            raise Terminated

    def _asked_to_end(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._asked = True
            os.write(2, b"SIGTERM: the run ends when this round is whole\n")  # print may not be entered twice
        else:
            raise Terminated
