"""Which engine a recipe gets, and how a run treats one that is not the training model itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rollout.engines.hf import HFEngine
from rollout.engines.vllm import VLLMConfig
from rollout.engines.vllm_server import VLLMServers
from writer_rl import engines, entry, parity
from writer_rl.logbook import read_lines
from writer_rl.policy import Policy, load_policy, with_adapter
from writer_rl.recipe import Recipe, RecipeError, load
from writer_rl.runtime import Runtime
from writer_rl.update_stats import UpdateStats

SMALL = [
    "data.gym.train=1",
    "data.gym.config={segments:[2,2],messages:[2,3],members:[2,3]}",
    "sft.epochs=1",
    "grpo.group_size=2",
    "grpo.max_new_tokens=200",
    "grpo.rounds=2",
]


@pytest.fixture
def recipe(model_folder: Path, tmp_path: Path) -> Callable[..., Recipe]:
    def make(*overrides: str) -> Recipe:
        return load("tiny", [*SMALL, f"model.path={model_folder}", f"checkpoints={tmp_path}", *overrides])

    return make


def test_servers_and_their_kind_go_together(recipe: Callable[..., Recipe]) -> None:
    for bad in (
        ["engine.kind=vllm-server"],
        ["engine.servers=[http://127.0.0.1:1]"],
        ["engine.kind=vllm", "engine.servers=[x]"],
    ):
        with pytest.raises(RecipeError, match="`servers` goes with `kind: vllm-server`"):
            recipe(*bad)
    with pytest.raises(RecipeError, match=r"engine\.kind"):
        recipe("engine.kind=trt")


def test_a_recipe_gets_the_engine_it_names(
    recipe: Callable[..., Recipe], model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(model_folder)
    assert isinstance(Runtime.of(recipe()).engine(policy), HFEngine)
    urls = "engine.servers=[http://127.0.0.1:1/,http://127.0.0.1:2]"
    servers = Runtime.of(recipe("engine.kind=vllm-server", urls)).engine(policy)
    assert isinstance(servers, VLLMServers)
    assert servers._config.urls == ("http://127.0.0.1:1", "http://127.0.0.1:2") and servers._config.leads
    servers.close()
    started: list[VLLMConfig] = []
    monkeypatch.setattr("writer_rl.engines.VLLMEngine.start", started.append)
    Runtime.of(recipe("engine.kind=vllm", "engine.kv_cache_gib=0.5", "engine.sync_deadline=7")).engine(policy)
    config = started[0]
    assert (config.dtype, config.kv_cache_gib, config.deadline, config.gpu) == (torch.float32, 0.5, 7, False)
    assert config.max_tokens == 2048 + 256 and config.adapter is None and config.turn_end_id == 2
    assert json.loads((config.model / "config.json").read_text("utf-8"))["model_type"] == "qwen2"


def test_a_lora_policys_engine_starts_from_its_base(recipe: Callable[..., Recipe], model_folder: Path, tmp_path: Path) -> None:
    policy = with_adapter(load_policy(model_folder), model_folder, 4, 8, "all-linear", 0)
    assert engines.model_folder(policy, tmp_path / "never") == model_folder
    assert not (tmp_path / "never").exists()
    adapter = engines.adapter_of(policy)
    assert adapter is not None and adapter["r"] == 4 and json.loads(json.dumps(adapter)) == adapter
    assert any(name.endswith("q_proj") for name in adapter["target_modules"])
    names = dict(parity.weights_for(object(), policy))  # type: ignore[arg-type]
    assert names and all("lora_" in name for name in names)


def test_a_probe_fits_where_a_recipes_requests_are_short(recipe: Callable[..., Recipe], model_folder: Path) -> None:
    short = recipe("writer.max_prompt_tokens=64", "grpo.max_new_tokens=8", "eval.max_new_tokens=8")
    assert engines.longest(short, load_policy(model_folder)) == parity.PROMPT + parity.SAMPLED.max_new_tokens
    assert engines.longest(recipe("writer.max_prompt_tokens=99999"), load_policy(model_folder)) == 4096  # the model's own end


class Beside(HFEngine):
    """An engine that must be looked after."""

    def __init__(self, policy: Policy, calls: list[str]) -> None:
        super().__init__(policy.model, policy.turn_end_id)
        self.calls = calls

    async def sleep(self) -> None:
        self.calls.append("sleep")

    def close(self) -> None:
        self.calls.append("close")


def test_an_engine_rests_during_each_update_and_is_closed_behind_the_last(
    recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, calls = recipe(), list[str]()
    entry.run("sft", made)
    monkeypatch.setattr(Runtime, "engine", lambda self, policy: Beside(policy, calls))

    def update(*args: object, **kwargs: object) -> UpdateStats:
        calls.append("update")
        return UpdateStats(kept=0, dropped=0)

    monkeypatch.setattr("writer_rl.grpo.update", update)
    entry.run("grpo", made)
    assert calls == ["sleep", "update", "sleep", "update", "close"]
    rows = read_lines(made.folder / "metrics-grpo.jsonl")
    assert all(row["engine/parity_max"] < 1e-4 for row in rows)


def test_an_engine_is_closed_where_the_run_fails(recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    made, calls = recipe(), list[str]()
    entry.run("sft", made)
    monkeypatch.setattr(Runtime, "engine", lambda self, policy: Beside(policy, calls))

    def update(*args: object, **kwargs: object) -> UpdateStats:
        raise RuntimeError("planted")

    monkeypatch.setattr("writer_rl.grpo.update", update)
    with pytest.raises(RuntimeError, match="planted"):
        entry.run("grpo", made)
    assert calls[-1] == "close"


def test_the_mismatch_of_sampled_tokens_is_logged(recipe: Callable[..., Recipe]) -> None:
    made = recipe("grpo.lr=1e-3", "grpo.max_new_tokens=200")
    entry.run("sft", made)
    entry.run("grpo", made)
    rows = [row for row in read_lines(made.folder / "metrics-grpo.jsonl") if row["update/kept_samples"]]
    assert rows and all(0 < row["engine/logprob_diff_mean"] <= row["engine/logprob_diff_max"] < 1e-3 for row in rows)
