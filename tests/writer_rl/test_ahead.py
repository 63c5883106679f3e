"""Terminal questions asked when a trajectory ends, so that nobody waits for them when its group is scored."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from data.memory.state import State
from rollout.writer.trajectory import Trajectory
from tests.tiny import make_network
from writer_rl import scoring
from writer_rl.recipe import load


def test_nothing_is_asked_ahead_where_no_llm_is_waited_for() -> None:
    runtime: Any = SimpleNamespace(recipe=load("tiny"))
    assert scoring.asking_ahead(runtime, {}, {}) is None


def test_a_trajectory_is_asked_with_its_own_final_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    async def gains(*args: Any) -> None:
        asked.append(args)

    monkeypatch.setattr(scoring, "qa_gains", gains)
    network, state = make_network(), State()
    runtime: Any = SimpleNamespace(recipe=load("tiny", ["pipeline.answer=litellm:some/model"]), pipeline="pipeline")
    ahead = scoring.asking_ahead(runtime, {"tiny": SimpleNamespace(network=network)}, {"tiny": "view"})  # type: ignore[dict-item]
    assert ahead is not None
    write: Any = SimpleNamespace(state=state)
    trajectory = Trajectory("tiny", 0, 0, 1, (write,), "id")
    asyncio.run(ahead(replace(trajectory, g=2)))  # type: ignore[arg-type]
    assert asked == [("pipeline", "view", network.questions, [state])]
