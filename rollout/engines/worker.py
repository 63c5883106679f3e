"""What runs inside vLLM's worker process: named as its `worker_extension_cls`, it loads weights into a running engine.

vLLM imports this module before it builds the model. On a CPU a linear layer packs its weight and drops the plain one, so
nothing could be loaded into it any more: here the plain weight is kept (one more copy), and every linear layer packs again
after each load. On a GPU both are without effect. The methods are called by name through vLLM's `collective_rpc`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from rollout.engines.weights import weight_sum

EXTENSION = f"{__name__}.WeightSync"  # the value of vLLM's worker_extension_cls


def keeping_weights(pack: Callable[..., None]) -> Callable[..., None]:
    """vLLM's packing of a linear layer, without dropping the plain weight."""

    def kept(layer: nn.Module, remove_weight: bool) -> None:
        pack(layer, remove_weight=False)

    return kept


layers: Any = importlib.import_module("vllm.model_executor.layers.utils")
layers.dispatch_cpu_unquantized_gemm = keeping_weights(layers.dispatch_cpu_unquantized_gemm)


class WeightSync:
    """Mixed into vLLM's worker class."""

    model_runner: Any

    def load_weight_file(self, file: str) -> int:
        """Load a safetensors file with every weight of the model, under their Hugging Face names; how many there were.

        Errors: ValueError that names a weight which the file lacks.
        """
        model = self.model_runner.get_model()
        with torch.no_grad(), safe_open(file, framework="pt", device="cpu") as weights:
            names = list(weights.keys())
            loaded = model.load_weights((name, weights.get_tensor(name)) for name in names)
            missing = sorted(dict(model.named_parameters()).keys() - loaded)
            if missing:
                raise ValueError(f"{file} has no weights for {missing[0]} ({len(missing)} missing)")
            for module in model.modules():
                if hasattr(module, "cpu_linear"):
                    layers.dispatch_cpu_unquantized_gemm(module, remove_weight=False)
        return len(names)

    def weight_sums(self) -> list[dict[str, Any]]:
        """`WeightSum` of every weight as fields; vLLM's fused weights carry the names of all that were fused."""
        model = self.model_runner.get_model()
        fused = getattr(model, "packed_modules_mapping", {})
        return [asdict(weight_sum(tuple(_unfused(name, fused)), [tensor])) for name, tensor in model.named_parameters()]


def _unfused(name: str, fused: dict[str, list[str]]) -> Iterator[str]:
    """`layers.0.self_attn.qkv_proj.weight` -> the names with q_proj, k_proj and v_proj."""
    parts = name.split(".")
    for at, part in enumerate(parts):
        if part in fused:
            yield from (".".join([*parts[:at], one, *parts[at + 1 :]]) for one in fused[part])
            return
    yield name
