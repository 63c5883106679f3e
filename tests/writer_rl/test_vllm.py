"""GRPO through vLLM in process, and the parity gate on faults planted in it. One engine serves the whole module."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollout.engines.base import Engine, EngineError
from rollout.engines.vllm import VLLMEngine
from tests.rollout.engines.contract import CONTRACT, ask, request, words
from tests.vllm_process import needs_vllm
from tests.writer_rl.vllm_runs import async_true, move, opened, save_model, three_rounds, tiny_recipe
from writer_rl import parity
from writer_rl.runtime import Runtime

pytestmark = needs_vllm


class Kept(VLLMEngine):
    """Outlives the runs that it serves."""

    def close(self) -> None:
        return None

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMEngine]:
    """Opened as a recipe's run opens it."""
    recipe = tiny_recipe(model, tmp_path_factory.mktemp("engine"), "engine.kind=vllm", "engine.kv_cache_gib=0.25")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("writer_rl.engines.VLLMEngine", Kept)
        runtime, policy, _ = opened(recipe)
        made = runtime.engine(policy)
    assert isinstance(made, Kept)
    yield made
    made.end()


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda one: one.__name__)
def test_vllm_keeps_the_contract(engine: VLLMEngine, holds: Callable[[Engine], None]) -> None:
    holds(engine)


def test_three_rounds_of_grpo_pass_the_gate(
    engine: VLLMEngine, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runtime, "engine", lambda self, policy: engine)
    three_rounds(tiny_recipe(model, tmp_path, "engine.kind=vllm"))


def test_a_skipped_sync_is_named_weight_by_weight(
    engine: VLLMEngine, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, policy, prompt = opened(tiny_recipe(model, tmp_path))
    assert parity.sync(engine, policy, prompt, 0) < 1e-3
    move(policy)
    monkeypatch.setattr(engine, "_call", skipping(engine, "load_weight_file"))
    with pytest.raises(
        parity.StaleWeights, match=r"embed_tokens\.weight, .*layers\.0\.self_attn\.\w_proj\.weight.* look stale"
    ):
        parity.sync(engine, policy, prompt, 1)


def skipping(engine: VLLMEngine, skipped: str):  # type: ignore[no-untyped-def]
    real = engine._call

    async def call(what: str, method: str, *args: str) -> object:
        return None if method == skipped else await real(what, method, *args)

    return call


def test_a_stale_prefix_cache_is_found(
    engine: VLLMEngine, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, policy, prompt = opened(tiny_recipe(model, tmp_path))
    parity.sync(engine, policy, prompt, 0)
    move(policy)
    done: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(engine._llm, "reset_prefix_cache", async_true(done, "reset"))
        with pytest.raises(parity.StaleWeights, match="no weight's sum differs"):
            parity.sync(engine, policy, prompt, 1)
    assert done == ["reset"]
    assert parity.sync(engine, policy, prompt, 2) < 1e-3


def test_weights_that_are_missing_and_prompts_that_are_too_long_are_vllms_own_words(
    engine: VLLMEngine, model: Path, tmp_path: Path
) -> None:
    _, policy, _ = opened(tiny_recipe(model, tmp_path))
    weights = [one for one in policy.model.named_parameters() if one[0] != "model.norm.weight"]
    with pytest.raises(EngineError, match=r"has no weights for model\.norm\.weight"):
        asyncio.run(engine.sync(weights, 9))
    asyncio.run(engine.sync(policy.model.named_parameters(), 10))
    with pytest.raises(EngineError, match="vllm failed on RequestKey"):
        ask(engine, [request(0, words(0, 4000), max_new_tokens=4)])
    assert ask(engine, [request(0, words(0, 40), max_new_tokens=4)])[0].weights_version == 10  # it goes on
