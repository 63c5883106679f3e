"""The LoRA adapter alone through vLLM in process, and the fault that vLLM makes easy. One engine serves the whole module."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import pytest
import torch

from rollout.engines.vllm import VLLMEngine
from tests.vllm_process import needs_vllm
from tests.writer_rl.vllm_runs import async_true, opened, save_model, tiny_recipe
from writer_rl import parity
from writer_rl.lora import adapter_tensors
from writer_rl.policy import Policy, load_policy, with_adapter
from writer_rl.recipe import Recipe

pytestmark = needs_vllm


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    folder = save_model(tmp_path_factory.mktemp("model"))
    return tiny_recipe(folder, tmp_path_factory.mktemp("runs"), "engine.kind=vllm", "engine.kv_cache_gib=0.25")


def adapted(recipe: Recipe) -> Policy:
    return with_adapter(load_policy(recipe.model.path), recipe.model.path, 4, 8, "all-linear", 0)


@pytest.fixture(scope="module")
def engine(recipe: Recipe) -> Iterator[VLLMEngine]:
    runtime, _, _ = opened(recipe)
    made = runtime.engine(adapted(recipe))
    assert isinstance(made, VLLMEngine)
    yield made
    made.close()


def train(policy: Policy) -> None:
    """An adapter changes nothing until its second factor was trained."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in adapter_tensors(policy.model).values():
            tensor += 0.3 * torch.randn(tensor.shape, generator=generator)


def test_each_version_of_an_adapter_passes_the_gate(engine: VLLMEngine, recipe: Recipe) -> None:
    policy, prompt = adapted(recipe), opened(recipe)[2]
    for version in range(3):
        assert parity.sync(engine, policy, prompt, version) < 1e-3
        train(policy)
    assert len(list((recipe.folder / "engine" / "rank-0").glob("v*"))) == 1


def test_an_adapter_served_under_an_old_id_is_found(
    engine: VLLMEngine, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, prompt = adapted(recipe), opened(recipe)[2]
    parity.sync(engine, policy, prompt, 10)
    train(policy)
    done: list[str] = []
    assert engine._adapter is not None
    with monkeypatch.context() as patched:
        patched.setattr(engine, "_adapter_ids", repeat(engine._adapter.lora_int_id))
        patched.setattr(engine._llm, "remove_lora", async_true(done, "remove"))
        with pytest.raises(parity.StaleWeights, match="LoRA adapter looks stale"):
            parity.sync(engine, policy, prompt, 11)
    assert done == ["remove"]
    assert parity.sync(engine, policy, prompt, 12) < 1e-3
