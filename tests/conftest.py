"""Fixtures every test package may use; the builders themselves are in tests/tiny.py."""

from __future__ import annotations

from pathlib import Path

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


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 with its tokenizer, as saved. Shared: do not change it."""
    folder = tmp_path_factory.mktemp("model")
    make_model().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def tiny_network() -> Network:
    return make_network()
