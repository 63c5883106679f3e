"""A running batch: its key-value cache (rows of one buffer, filled from prompts, emptied as rows finish), and the attention
of one decoding step over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, Cache, DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer

STEP_ATTENTION = "writer_step"


def step_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **kwargs: Any
) -> tuple[Tensor, None]:
    """sdpa for one new token a row: query [R, H, 1, D], key and value [R, H', C, D], mask [R, 1, 1, C] -> [R, 1, H, D].

    The query heads that share a key head stand where tokens usually do, so that keys and values are not repeated.
    """
    rows, heads, _, size = query.shape
    grouped = query.reshape(rows, key.shape[1], heads // key.shape[1], size)  # [R, H', H / H', D]
    mixed = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return mixed.reshape(rows, 1, heads, size), None


AttentionInterface.register(STEP_ATTENTION, step_attention)


@contextmanager
def stepping(config: PretrainedConfig) -> Iterator[None]:
    """Inside, a model of this config attends by `step_attention`."""
    before = config._attn_implementation
    config._attn_implementation = STEP_ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before


class RowLayer(DynamicLayer):
    """One layer's keys and values in preallocated buffers [R, H, C, D]: a step writes one column instead of copying the
    whole cache, and a finished row costs the copy of one other row."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        super().__init__()
        self.buffers = (keys, values)
        self.rows = keys.shape[0]
        self.length = length  # columns in use
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append states [rows, H, q, D]; return all of them, as views."""
        end = self.length + key_states.shape[2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[: self.rows, :, self.length : end] = states
        self.length = end
        keys, values = (buffer[: self.rows, :, :end] for buffer in self.buffers)
        return keys, values

    def get_seq_length(self) -> int:
        return self.length


class RowCache(Cache):
    """A `Cache` for R rows of up to C tokens. Prompts lie right-aligned (left padding is zeros, to be masked)."""

    def __init__(self, layers: list[RowLayer]) -> None:
        super().__init__(layers=list(layers))
        self.row_layers = layers

    @classmethod
    def empty(cls, like: DynamicCache, rows: int, capacity: int, length: int, dtype: torch.dtype | None) -> RowCache:
        """Buffers shaped after a filled cache, its prompts to end at column `length`; `dtype` None keeps the model's."""

        def buffer(states: Tensor) -> Tensor:
            made = states.new_empty((rows, states.shape[1], capacity, states.shape[3]), dtype=dtype or states.dtype)
            made[:, :, :length] = 0  # masked positions are multiplied by 0, which garbage (NaN) would survive
            return made

        return cls([RowLayer(buffer(keys), buffer(values), length) for keys, values, _ in like])

    def fill(self, row: int, prompt: DynamicCache) -> None:
        """Copy a prompt's states [1, H, l, D] into a row, right-aligned."""
        for layer, (keys, values, _) in zip(self.row_layers, prompt, strict=True):
            for buffer, states in zip(layer.buffers, (keys, values), strict=True):
                buffer[row, :, layer.length - states.shape[2] : layer.length] = states[0]

    def drop(self, row: int) -> None:
        """The last row takes the place of `row`; one row less."""
        for layer in self.row_layers:
            layer.rows -= 1
            if row < layer.rows:
                for buffer in layer.buffers:
                    buffer[row, :, : layer.length] = buffer[layer.rows, :, : layer.length]
