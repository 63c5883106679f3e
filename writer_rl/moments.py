"""An optimizer's moments as named tensors: whole, or under DeepSpeed ZeRO as the shards of all ranks, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor
from torch.optim import Optimizer


@dataclass(frozen=True)
class Sharding:
    """ZeRO's stage and the number of ranks that it cut the moments for."""

    stage: int
    ranks: int


@dataclass(frozen=True)
class Moments:
    """`tensors` by `<index of the stepped tensor>.<name>`; `sharding` is None where every rank has them whole."""

    tensors: dict[str, Tensor]
    sharding: Sharding | None


def sharding_of(accelerator: Accelerator | None) -> Sharding | None:
    """How moments are cut under this launcher."""
    if accelerator is None or accelerator.distributed_type is not DistributedType.DEEPSPEED:
        return None
    stage = accelerator.state.deepspeed_plugin.deepspeed_config["zero_optimization"]["stage"]
    return Sharding(int(stage), accelerator.num_processes)


def gathered_moments(optimizer: Optimizer, accelerator: Accelerator | None) -> Moments:
    """All moments, on the CPU of rank 0 (elsewhere without tensors under ZeRO). Every rank must call it."""
    sharding = sharding_of(accelerator)
    found: dict[str, Tensor] = {}
    for index, stepped in enumerate(_stepped(optimizer, accelerator)):
        for name, tensor in optimizer.state.get(stepped, {}).items():
            whole = _rows(tensor, accelerator) if sharding and tensor.ndim else tensor.detach()
            if whole is not None:
                found[f"{index}.{name}"] = whole.cpu().contiguous()
    return Moments(found, sharding)


def groups_of(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The parameter groups' values, without their tensors."""
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


def restore_moments(
    tensors: Mapping[str, Tensor], groups: list[dict[str, Any]], optimizer: Optimizer, accelerator: Accelerator | None
) -> bool:
    """Put moments and groups back, this rank's row under ZeRO; False, and nothing changed, where they do not fit."""
    sharding, stepped = sharding_of(accelerator), _stepped(optimizer, accelerator)
    rank = accelerator.process_index if accelerator is not None and sharding else None
    state: dict[Tensor, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        if int(index) >= len(stepped):
            return False
        target = stepped[int(index)]
        own = tensor if rank is None or not tensor.ndim else tensor[rank]
        if own.ndim and own.shape != target.shape:
            return False
        state.setdefault(target, {})[name] = own.to(target.device, copy=True)
    if len(groups) != len(optimizer.param_groups) or (tensors and len(state) != len(stepped)):
        return False
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        values = {name: value for name, value in saved.items() if name != "params"}
        group.update(values | {"betas": tuple(values["betas"])})  # JSON has lists only
    optimizer.state.clear()
    optimizer.state.update(state)
    return True


def _stepped(optimizer: Optimizer, accelerator: Accelerator | None) -> list[Tensor]:
    """The tensors that the optimizer steps on: the parameters, or under ZeRO this rank's flat shards of them."""
    if sharding_of(accelerator) is None:
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert accelerator is not None
    zero: Any = accelerator.deepspeed_engine_wrapped.engine.optimizer
    if hasattr(zero, "fp32_partitioned_groups_flat"):  # ZeRO-3
        return list(zero.fp32_partitioned_groups_flat)
    return list(zero.single_partition_of_fp32_groups)


def _rows(shard: Tensor, accelerator: Accelerator | None) -> Tensor | None:
    """The ranks' shards, equally long, as rows on rank 0: [ranks, n]; None elsewhere."""
    assert accelerator is not None
    rows = [torch.empty_like(shard) for _ in range(accelerator.num_processes)] if accelerator.is_main_process else None
    torch.distributed.gather(shard.detach(), rows, dst=0)
    return None if rows is None else torch.stack([row.cpu() for row in rows])
