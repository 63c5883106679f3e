"""What the `vllm` engine asks of vLLM and in which order, on a scripted one: nothing here needs vLLM or a GPU."""

from __future__ import annotations

import asyncio
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rollout.engines.base import EngineError, Inspectable, Managed, Request, RequestKey, SamplingParams
from rollout.engines.loop import LoopThread
from rollout.engines.vllm import VLLMConfig, VLLMEngine

TENSORS = [("a", torch.ones(2))]
ASKED = Request((5, 6), 1, SamplingParams(max_new_tokens=3), RequestKey(0, "n", 0, 0, 0))


class Scripted:
    """Writes down what it is asked. `hang` and `fail` name the call that does."""

    def __init__(self, hang: str = "", fail: str = "", reset: bool = True) -> None:
        self.calls: list[str] = []
        self.adapters: list[int] = []
        self._hang, self._fail, self._reset = hang, fail, reset

    async def _did(self, call: str) -> None:
        self.calls.append(call)
        if call == self._hang:
            await asyncio.sleep(3600)
        if call == self._fail:
            raise RuntimeError("worker 0:\n  no such tensor")

    async def collective_rpc(self, method: str, timeout: float, args: tuple[str, ...]) -> list[Any]:
        assert method != "load_weight_file" or Path(args[0]).is_file()
        await self._did(method)
        return [None]

    async def reset_prefix_cache(self) -> bool:
        await self._did("reset")
        return self._reset

    async def sleep(self, level: int) -> None:
        await self._did(f"sleep {level}")

    async def wake_up(self, tags: list[str] | None = None) -> None:
        await self._did(f"wake {' '.join(tags or ['all'])}")

    async def add_lora(self, made: Any) -> None:
        self.adapters.append(made.lora_int_id)
        await self._did("add")

    async def remove_lora(self, number: int) -> None:
        await self._did(f"remove {number}")

    async def generate(self, prompt: Any, params: Any, name: str, lora_request: Any) -> Any:
        await self._did("generate")
        output = types.SimpleNamespace(
            token_ids=[7], logprobs=[{7: types.SimpleNamespace(logprob=-1.5)}], finish_reason=params.ends
        )
        yield types.SimpleNamespace(outputs=[output])

    def shutdown(self) -> None:
        self.calls.append("shutdown")


@pytest.fixture(autouse=True)
def scripted_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two things of vLLM that the engine names: an adapter's request, and sampling parameters."""

    def adapter(name: str, number: int, path: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(lora_name=name, lora_int_id=number, lora_path=path)

    monkeypatch.setitem(sys.modules, "vllm.lora.request", types.SimpleNamespace(LoRARequest=adapter))  # type: ignore[arg-type]
    monkeypatch.setattr("rollout.engines.vllm.sampling_params", lambda request, end: types.SimpleNamespace(ends="stop"))


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread("test")
    yield made
    made.close()


def engine(tmp_path: Path, loop: LoopThread, llm: Scripted, **settings: Any) -> VLLMEngine:
    values: dict[str, Any] = {"deadline": 5.0, "gpu": True, **settings}
    config = VLLMConfig(tmp_path, tmp_path, 2, torch.float32, 64, 1.0, **values)
    return VLLMEngine(llm, loop, config)


def sync(made: VLLMEngine, version: int) -> None:
    asyncio.run(made.sync(TENSORS, version))


def test_a_sync_wakes_the_weights_before_it_loads_and_the_cache_only_behind(tmp_path, loop) -> None:
    llm = Scripted()
    made = engine(tmp_path, loop, llm)
    assert isinstance(made, Inspectable) and isinstance(made, Managed)
    sync(made, 0)
    asyncio.run(made.sleep())
    asyncio.run(made.sleep())
    sync(made, 1)
    first = ["load_weight_file", "reset"]
    assert llm.calls == [*first, "sleep 1", "wake weights", "load_weight_file", "wake kv_cache", "reset"]


def test_a_round_without_a_step_wakes_with_its_first_request(tmp_path, loop) -> None:
    llm = Scripted()
    made = engine(tmp_path, loop, llm)
    sync(made, 3)
    asyncio.run(made.sleep())

    async def two() -> list[Any]:
        return list(await asyncio.gather(made.generate(ASKED), made.generate(ASKED)))

    first, second = asyncio.run(two())
    assert llm.calls[2:] == ["sleep 1", "wake all", "generate", "generate"]
    assert first == second and (first.token_ids, first.logprobs, first.weights_version) == ((7,), (-1.5,), 3)


def test_an_engine_beside_a_cpu_trainer_never_sleeps(tmp_path, loop) -> None:
    llm = Scripted()
    made = engine(tmp_path, loop, llm, gpu=False)
    sync(made, 0)
    asyncio.run(made.sleep())
    assert llm.calls == ["load_weight_file", "reset"]


def test_an_adapter_gets_a_new_id_each_time_and_the_old_one_goes(tmp_path, loop) -> None:
    llm = Scripted()
    made = engine(tmp_path, loop, llm, adapter={"r": 4}, gpu=False)
    for version in (0, 0, 1):  # a version sent twice too
        sync(made, version)
    assert llm.calls == ["add", "reset", "add", "remove 1", "reset", "add", "remove 2", "reset"]
    assert llm.adapters == [1, 2, 3]
    assert asyncio.run(made.weight_sums()) == []


@pytest.mark.parametrize("step", ["load_weight_file", "reset", "wake weights", "wake kv_cache"])
def test_every_step_has_a_deadline_and_names_itself(tmp_path, loop, step: str) -> None:
    made = engine(tmp_path, loop, Scripted(hang=step), deadline=0.2)
    made._asleep = True
    with pytest.raises(EngineError, match=r"vllm: (loading|resetting|waking) .* did not end within 0\.2 s"):
        sync(made, 1)
    assert made.version == -1


def test_vllms_own_words_are_in_the_error_and_the_version_stays(tmp_path, loop) -> None:
    made = engine(tmp_path, loop, Scripted(fail="load_weight_file"))
    with pytest.raises(EngineError, match="loading the weights failed: RuntimeError: worker 0: no such tensor"):
        sync(made, 1)
    assert made.version == -1
    with pytest.raises(EngineError, match="no weights before its first sync"):
        asyncio.run(made.generate(ASKED))


def test_a_cache_that_is_not_reset_is_an_error(tmp_path, loop) -> None:
    with pytest.raises(EngineError, match="could not reset its prefix cache"):
        sync(engine(tmp_path, loop, Scripted(reset=False)), 1)


def test_a_sync_of_nothing_is_an_error(tmp_path, loop) -> None:
    with pytest.raises(EngineError, match="needs all of them"):
        asyncio.run(engine(tmp_path, loop, Scripted()).sync((), 1))


def test_a_request_that_was_aborted_is_an_error_and_no_completion(tmp_path, loop, monkeypatch) -> None:
    made = engine(tmp_path, loop, Scripted())
    sync(made, 0)
    monkeypatch.setattr("rollout.engines.vllm.sampling_params", lambda request, end: types.SimpleNamespace(ends="abort"))
    with pytest.raises(EngineError, match="'abort' instead of an answer"):
        asyncio.run(made.generate(ASKED))


def test_a_lora_engine_loads_its_base_and_a_full_one_waits_for_its_weights(tmp_path) -> None:
    common = (tmp_path, tmp_path, 2, torch.bfloat16, 64, 0.5, 5.0)
    full, lora = VLLMConfig(*common).engine_args(), VLLMConfig(*common, adapter={"r": 20}).engine_args()
    assert full["load_format"] == "dummy" and full["worker_extension_cls"] == "rollout.engines.worker.WeightSync"
    assert "load_format" not in lora and lora["max_lora_rank"] == 32
    assert full["logprobs_mode"] == lora["logprobs_mode"] == "raw_logprobs"
    assert full["dtype"] == "bfloat16" and full["kv_cache_memory_bytes"] == 2**29


def test_where_vllm_is_missing_the_error_says_how_to_get_it_and_the_environment_is_as_it_was(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm.engine.arg_utils", None)
    monkeypatch.setitem(sys.modules, "vllm", types.ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.engine", types.ModuleType("vllm.engine"))
    before = dict(os.environ)
    with pytest.raises(EngineError, match=r"pip install -e .*engine\.kind=hf"):
        VLLMEngine.start(VLLMConfig(tmp_path, tmp_path, 2, torch.float32, 64, 1.0, 5.0))
    assert dict(os.environ) == before


def test_a_loop_that_is_closed_cancels_what_still_runs() -> None:
    loop, seen = LoopThread("test"), list[str]()

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def begin() -> None:
        seen.append("begun")
        loop_task.append(asyncio.create_task(forever()))
        await asyncio.sleep(0)

    loop_task: list[asyncio.Task[None]] = []
    loop.wait(begin())
    loop.close()
    loop.close()
    assert seen == ["begun", "cancelled"] and loop_task[0].cancelled()
