"""vLLM's server on an export: the command that starts it, and one as a child process for checks and measurements."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from data.network import DataError
from writer_rl.contract import Contract

PORT = 8000
MODULE = "vllm.entrypoints.openai.api_server"
CPU = {"VLLM_CPU_KVCACHE_SPACE": "1"}  # GiB for keys and values
# Its cache of compiled grammars aside, this changes nothing for requests without one. Free white space is legal JSON, which
# small models write up to the token limit.
STRUCTURED = {"backend": "xgrammar", "disable_any_whitespace": True}
LINES = 40  # of a failed server's log that are shown


class ServerFailed(DataError):
    """A server that did not start."""


def installed() -> bool:
    return importlib.util.find_spec("vllm") is not None


def options(terms: Contract, port: int = PORT) -> list[str]:
    """Options behind the model. The name is the contract's: what the server serves can be told from outside. Loopback only,
    since the server asks nobody who they are."""
    return [
        *("--served-model-name", terms.id, "--dtype", terms.dtype),
        *("--max-model-len", str(terms.limits.prompt_tokens + terms.limits.new_tokens)),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--structured-outputs-config", json.dumps(STRUCTURED)),
    ]


def command_line(folder: Path, terms: Contract) -> str:
    """For a GPU, where vLLM's own script works."""
    return shlex.join(["vllm", "serve", str(folder), *options(terms)])


def command_line_cpu(folder: Path, terms: Contract) -> str:
    """For the CPU build, whose script does not start; eager, since compiling takes longer than it saves there."""
    setting = " ".join(f"{name}={value}" for name, value in CPU.items())
    return f"{setting} {shlex.join(['python', '-m', MODULE, '--model', str(folder), *options(terms), '--enforce-eager'])}"


@contextmanager
def serving(folder: Path, terms: Contract, log: Path, patience: float = 600.0) -> Iterator[str]:
    """A server on this export while the context lasts; its URL. Raises ServerFailed as `running` does."""
    port = free_port()
    arguments = ["-m", MODULE, "--model", str(folder), *options(terms, port), "--enforce-eager"]
    with running(arguments, port, log, {}, patience) as url:
        yield url


@contextmanager
def running(
    arguments: Sequence[str], port: int, log: Path, settings: Mapping[str, str], patience: float = 600.0
) -> Iterator[str]:
    """A server as a child process of this interpreter while the context lasts; its URL. `settings` are of its environment.
    Raises ServerFailed with the end of its log where it is not healthy within `patience` seconds."""
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **CPU, **os.environ, **settings}
    with log.open("wb") as out:  # in a session of its own, so that its engine's process can be ended with it
        process = subprocess.Popen(  # noqa: S603 our own arguments, no shell
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log, patience)
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop(process)


def end_of(log: Path) -> str:
    """The last lines of a server's log, for an error."""
    return f"the end of its log: {' | '.join(log.read_text('utf-8', errors='replace').splitlines()[-LINES:])}"


def _wait(process: subprocess.Popen[bytes], url: str, log: Path, patience: float) -> None:
    end = time.monotonic() + patience
    while not _healthy(url):
        code = process.poll()
        if code is not None or time.monotonic() > end:
            how = f"ended with status {code}" if code is not None else f"was not healthy within {patience:g} s"
            raise ServerFailed(f"the vLLM server {how}; {end_of(log)}")
        time.sleep(0.5)


def _healthy(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5.0, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server, then whatever of its group outlived it."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20.0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
