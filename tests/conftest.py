"""Fixtures every test package may use; the builders themselves are in tests/tiny.py."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from data.network import Network
from tests.tiny import make_model, make_network, make_tokenizer


@pytest.fixture(scope="session")
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Shared: do not change it."""
    return make_tokenizer()


@pytest.fixture
def tiny_model() -> Qwen2ForCausalLM:
    """A fresh random Qwen2 for each test, always the same weights."""
    return make_model()


@pytest.fixture
def tiny_network() -> Network:
    return make_network()
