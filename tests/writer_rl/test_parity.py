"""The parity gate on faults that are planted: each must stop the run, and be told from the others where that can be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rollout.engines.base import Completion, Request
from rollout.engines.hf import HFEngine
from rollout.writer.prompt import WriterPrompt
from tests.tiny import make_model, make_tokenizer
from tests.writer_rl.builders import make_policy
from writer_rl import parity
from writer_rl.policy import Policy

END = 2


class Apart(HFEngine):
    """An engine with weights of its own, which a sync must bring. `skips` loses the syncs, `tempered` reports log-
    probabilities of the tempered distribution, `stale_cache` answers what it answered to the same prompt before."""

    def __init__(self, *, skips: bool = False, tempered: bool = False, stale_cache: bool = False, replicas: int = 1) -> None:
        super().__init__(make_model(), END)
        self.skips, self.tempered, self.stale_cache, self.replicas = skips, tempered, stale_cache, replicas
        self.asked: list[Request] = []
        self._seen: dict[tuple[int, ...], Completion] = {}

    async def sync(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        if self.skips:
            self.version = version
            return
        await super().sync(named_tensors, version)

    async def generate(self, request: Request) -> Completion:
        self.asked.append(request)
        made = await super().generate(request)
        if self.tempered:
            made = replace(made, logprobs=tuple(one / request.params.temperature for one in made.logprobs))
        if self.stale_cache:
            old = self._seen.setdefault(request.prompt_ids, made)
            made = replace(old, weights_version=self.version)
        return made


@pytest.fixture
def policy() -> Policy:
    return make_policy()


@pytest.fixture
def prompt() -> WriterPrompt:
    return WriterPrompt("compact", make_tokenizer())


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """These engines are no live ones, so a sync sends every weight."""
    monkeypatch.setattr(parity, "weights_for", lambda engine, policy: policy.model.named_parameters())


def move(policy: Policy, by: float = 1.0) -> None:
    with torch.no_grad():
        policy.model.model.layers[1].mlp.down_proj.weight[0, 0] += by


def test_a_sync_that_arrived_passes(policy: Policy, prompt: WriterPrompt) -> None:
    engine = Apart()
    assert parity.sync(engine, policy, prompt, 0) < 1e-4
    move(policy)
    assert parity.sync(engine, policy, prompt, 1) < 1e-4


@pytest.mark.parametrize("by", [1.0, 1e-6])
def test_a_skipped_sync_stops_the_run_and_names_the_weight(policy: Policy, prompt: WriterPrompt, by: float) -> None:
    engine = Apart(skips=True)
    parity.sync(engine, policy, prompt, 0)
    move(policy, by)  # one step of a small learning rate moves no log-probability enough, and is found all the same
    with pytest.raises(parity.StaleWeights, match=r"the engine's model\.layers\.1\.mlp\.down_proj\.weight look stale"):
        parity.sync(engine, policy, prompt, 1)


def test_a_stale_prefix_cache_is_told_from_stale_weights(policy: Policy, prompt: WriterPrompt) -> None:
    engine = Apart(stale_cache=True)
    parity.sync(engine, policy, prompt, 0)
    move(policy)
    with pytest.raises(parity.StaleWeights, match=r"no weight's sum differs.*a cached prefix"):
        parity.sync(engine, policy, prompt, 1)


def test_tempered_logprobs_are_found(policy: Policy, prompt: WriterPrompt) -> None:
    with pytest.raises(parity.StaleWeights, match=r"disagree by \d"):
        parity.sync(Apart(tempered=True), policy, prompt, 0)


def test_an_old_version_is_found_where_the_weights_are_right(policy: Policy, prompt: WriterPrompt) -> None:
    engine = Apart()
    parity.sync(engine, policy, prompt, 3)
    with pytest.raises(parity.StaleWeights, match=r"engine weights \[3\], trainer 4"):
        parity.check(engine, policy, prompt, 4)


def test_logprobs_that_are_no_numbers_do_not_pass(policy: Policy, prompt: WriterPrompt, monkeypatch) -> None:
    engine = Apart(replicas=2)
    parity.sync(engine, policy, prompt, 0)
    differences = iter([0.0, float("nan")])
    monkeypatch.setattr(parity, "difference", lambda *args: next(differences))
    with pytest.raises(parity.StaleWeights, match="disagree by nan"):
        parity.check(engine, policy, prompt, 0)


def test_every_replica_is_asked(policy: Policy, prompt: WriterPrompt) -> None:
    engine = Apart(replicas=3)
    parity.sync(engine, policy, prompt, 0)
    assert sorted(one.key.g for one in engine.asked) == [0, 1, 2]
    assert all(len(one.prompt_ids) == parity.PROMPT for one in engine.asked)  # longer than two blocks of a prefix cache


def test_the_bound_is_that_of_the_engines_dtype(policy: Policy, prompt: WriterPrompt, monkeypatch) -> None:
    engine = Apart()
    parity.sync(engine, policy, prompt, 0)
    monkeypatch.setattr(parity, "difference", lambda *args: 0.01)
    with pytest.raises(parity.StaleWeights, match=r"allowed 0\.001 in float32"):
        parity.check(engine, policy, prompt, 0)
    engine.dtype = torch.bfloat16
    assert parity.check(engine, policy, prompt, 0) == 0.01


def test_sums_are_of_weights_as_the_engine_rounds_them(policy: Policy) -> None:
    engine = Apart()
    asyncio.run(engine.sync(policy.model.named_parameters(), 0))
    engine.dtype = torch.bfloat16
    sums = asyncio.run(engine.weight_sums())
    assert parity.stale(sums, policy, torch.bfloat16) == []
    assert len(parity.stale(sums, policy, torch.float32)) > 5
