"""GRPO through a vLLM server in a process of its own. One server serves the whole module."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from rollout.engines.base import Engine, EngineError
from rollout.engines.vllm_server import ServersConfig, VLLMServers, start_command
from tests.rollout.engines.contract import CONTRACT, make_model
from tests.vllm_process import SETTINGS, needs_vllm
from tests.writer_rl.vllm_runs import move, opened, save_model, three_rounds, tiny_recipe
from writer_rl import parity
from writer_rl.engines import longest
from writer_rl.vllm_server import free_port, running

pytestmark = needs_vllm


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def url(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, work = free_port(), tmp_path_factory.mktemp("server")
    _, policy, _ = opened(recipe := tiny_recipe(model, work))
    command = start_command(model, port, "float32", longest(recipe, policy))
    with running(command, port, work / "server.log", SETTINGS | {"VLLM_SERVER_DEV_MODE": "1"}) as found:
        yield found


@pytest.fixture
def engine(url: str, tmp_path: Path) -> Iterator[VLLMServers]:
    made = VLLMServers(ServersConfig((url,), tmp_path / "weights", 2, torch.float32, deadline=120.0, answer=300.0))
    yield made
    made.close()


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda one: one.__name__)
def test_a_server_keeps_the_contract(engine: VLLMServers, holds: Callable[[Engine], None]) -> None:
    holds(engine)


def test_three_rounds_of_grpo_pass_the_gate(url: str, model: Path, tmp_path: Path) -> None:
    three_rounds(tiny_recipe(model, tmp_path, "engine.kind=vllm-server", f"engine.servers=[{url}]"))


def test_a_server_that_did_not_load_is_found_and_its_weights_named(
    engine: VLLMServers, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, policy, prompt = opened(tiny_recipe(model, tmp_path))
    assert parity.sync(engine, policy, prompt, 0) < 1e-3
    move(policy)

    async def lost(url: str, folder: Path, version: int) -> None:
        return None

    monkeypatch.setattr(engine, "_load_weights", lost)
    with pytest.raises(
        parity.StaleWeights, match=r"embed_tokens\.weight, .*layers\.0\.self_attn\.\w_proj\.weight.* look stale"
    ):
        parity.sync(engine, policy, prompt, 1)


def test_the_servers_own_words_are_in_the_error(engine: VLLMServers) -> None:
    weights = [one for one in make_model().named_parameters() if one[0] != "model.norm.weight"]
    with pytest.raises(EngineError, match=r"/collective_rpc answered 500: .*model\.norm\.weight"):
        asyncio.run(engine.sync(weights, 1))
