"""Weights on their way to an engine: versioned folders that are whole or absent, and sums that prove what arrived."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

WEIGHTS, ADAPTER, ADAPTER_CONFIG = "model.safetensors", "adapter_model.safetensors", "adapter_config.json"


@dataclass(frozen=True, slots=True)
class WeightSum:
    """Sum and sum of absolutes, in float64, over the tensors `names` (Hugging Face's), which an engine may hold as one."""

    names: tuple[str, ...]
    total: float
    absolute: float

    def agrees(self, other: WeightSum) -> bool:
        """Equal up to the order of the additions; one step of a single weight is far more than that."""
        slack = 1e-10 * max(self.absolute, other.absolute)
        return abs(self.total - other.total) <= slack and abs(self.absolute - other.absolute) <= slack


def weight_sum(names: tuple[str, ...], tensors: Sequence[Tensor], dtype: torch.dtype | None = None) -> WeightSum:
    """The sum over tensors; `dtype` is that in which an engine holds them (none: their own)."""
    total = absolute = 0.0
    for tensor in tensors:
        held = tensor.detach() if dtype is None else tensor.detach().to(dtype)
        total += held.sum(dtype=torch.float64).item()
        absolute += torch.linalg.vector_norm(held, 1, dtype=torch.float64).item()
    return WeightSum(names, total, absolute)


class WeightFolder:
    """Versions of the weights below one folder, which the engine's process sees under the same path."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.folder = folder.absolute()
        self.dtype = dtype

    def write(self, tensors: Iterable[tuple[str, Tensor]], version: int, adapter: Mapping[str, Any] | None = None) -> Path:
        """Write a version under a temporary name, then rename it; returns its folder. `adapter`, PEFT's configuration,
        says that the tensors are a LoRA adapter's."""
        made, partial = self._of(version), self.folder / f".partial-{version:06d}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        held = {name: tensor.detach().to("cpu", self.dtype).contiguous() for name, tensor in tensors}
        save_file(held, partial / (WEIGHTS if adapter is None else ADAPTER), metadata={"format": "pt"})
        if adapter is not None:
            (partial / ADAPTER_CONFIG).write_text(json.dumps(adapter), encoding="utf-8")
        for file in partial.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        shutil.rmtree(made, ignore_errors=True)  # of an earlier process; nothing reads it now
        partial.rename(made)
        return made

    async def written(
        self, tensors: Iterable[tuple[str, Tensor]], version: int, adapter: Mapping[str, Any] | None = None
    ) -> Path:
        """`write` in a thread, so that it can have a deadline."""
        return await asyncio.to_thread(self.write, tensors, version, adapter)

    def keep_only(self, version: int) -> None:
        """Delete the other versions, when an engine has loaded this one."""
        for other in self.folder.glob("v*"):
            if other != self._of(version):
                shutil.rmtree(other)

    def _of(self, version: int) -> Path:
        return self.folder / f"v{version:06d}"
