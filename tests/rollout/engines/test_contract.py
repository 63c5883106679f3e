"""The contract of an engine, on the one that needs no server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollout.engines.base import Engine, Inspectable, Managed
from rollout.engines.hf import HFEngine
from tests.rollout.engines.contract import CONTRACT, END, make_model


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda one: one.__name__)
def test_hf_keeps_the_contract(holds: Callable[[Engine], None]) -> None:
    holds(HFEngine(make_model(seed=3), END))


def test_hf_can_be_proved_and_needs_no_care() -> None:
    engine = HFEngine(make_model(), END)
    assert isinstance(engine, Inspectable) and not isinstance(engine, Managed)
