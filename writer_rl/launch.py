"""How many processes a run has and of what kind, checked at start-up: some launch commands degrade without a word."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import torch
from accelerate import Accelerator
from accelerate.commands.config.config_args import default_config_file
from accelerate.commands.launch import launch_command_parser
from accelerate.utils import DistributedType, InitProcessGroupKwargs
from omegaconf import OmegaConf
from transformers.integrations import unset_hf_deepspeed_config

from data.network import DataError

PATIENCE = timedelta(hours=2)  # that ranks wait for each other: rollouts differ in length, an LLM judge may be slow
PLAIN = {DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU}


class LaunchError(DataError):
    """A launch command that does not start what was asked for; the message names one that does."""


def start() -> Accelerator:
    """This process's accelerator. Raises LaunchError where the processes are not what the launch command asked for."""
    many = "WORLD_SIZE" in os.environ or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true" or not torch.cuda.is_available()
    handler = InitProcessGroupKwargs(timeout=PATIENCE)
    if on_cpu:  # DeepSpeed takes no other on a CPU
        handler.backend = "gloo"
    accelerator = Accelerator(kwargs_handlers=[handler] if many else [])
    unset_hf_deepspeed_config()  # else under ZeRO-3 transformers loads every model in shards, the reference too
    check(accelerator, max(int(os.environ.get("WORLD_SIZE", "1")), asked_processes()))
    return accelerator


def check(accelerator: Accelerator, asked: int) -> None:
    """Raise LaunchError unless `asked` processes run, of a kind that the update knows, with nothing scaled or cast behind
    its back."""
    count, kind = accelerator.num_processes, accelerator.distributed_type
    if count != asked:
        raise LaunchError(
            f"{asked} processes were asked for, but each works alone ({count} process, {kind.value}), so every one would train "
            f"a model of its own; use {command(asked)}"
        )
    if kind is DistributedType.DEEPSPEED:
        wrong = _wrong_settings(accelerator)
        if wrong:
            stage = accelerator.state.deepspeed_plugin.zero_stage
            raise LaunchError(f"DeepSpeed: {'; '.join(wrong)}; use {command(count, stage if stage in (1, 2, 3) else 2)}")
    elif kind not in PLAIN:
        raise LaunchError(f"{kind.value} is not supported; use {command(count)}, or for large models {command(count, 3)}")


def _wrong_settings(accelerator: Accelerator) -> list[str]:
    """What a DeepSpeed configuration says that the update cannot work under."""
    plugin = accelerator.state.deepspeed_plugin
    config = plugin.deepspeed_config
    zero = config["zero_optimization"]
    offloads = ("offload_optimizer", "offload_param")
    holds = {
        "zero_stage must be 1, 2 or 3": zero["stage"] in (1, 2, 3),
        "gradient_accumulation_steps must be 1 (batches are cut here)": config["gradient_accumulation_steps"] == 1,
        "mixed_precision must be 'no' (the recipe's `precision` counts)": accelerator.mixed_precision == "no",
        "zero3_init_flag must be false": not plugin.zero3_init_flag,
        "offload devices must be none": all((zero.get(key) or {}).get("device", "none") == "none" for key in offloads),
    }
    return [text for text, fine in holds.items() if not fine]


def command(processes: int, stage: int = 0) -> str:
    """A launch command that works on this machine."""
    cpu = not torch.cuda.is_available()
    if not stage and cpu:
        return f"`ACCELERATE_USE_CPU=true torchrun --nproc_per_node {processes} train_grpo.py RECIPE`"
    name = (f"zero{stage}" if stage else "ddp") + ("_cpu" if cpu else "")
    return f"`accelerate launch --config_file recipes/accelerate/{name}.yaml --num_processes {processes} train_grpo.py RECIPE`"


def asked_processes() -> int:
    """How many processes `accelerate launch` was told to start, as far as its command line and file say; else 1.

    Nothing in the environment tells: with MULTI_CPU on one machine it starts a single process and says nothing.
    """
    parent = psutil.Process().parent()
    try:
        line = parent.cmdline() if parent is not None else []
    except psutil.Error:  # another user's process, or gone
        return 1
    given = _arguments(line)
    if given is None:
        return 1
    arguments, _ = launch_command_parser().parse_known_args(given)
    if arguments.num_processes is not None:
        return int(arguments.num_processes)
    file = Path(arguments.config_file or default_config_file)
    told: Any = OmegaConf.load(file) if file.is_file() and not arguments.cpu else {}
    return int(told.get("num_processes") or 1)


def _arguments(line: Sequence[str]) -> Sequence[str] | None:
    """What follows `accelerate launch` in a command line; None for any other command."""
    for place, part in enumerate(line):
        name = Path(part).name
        if name == "accelerate" and line[place + 1 : place + 2] == ["launch"]:
            return line[place + 2 :]
        if name == "accelerate-launch" or part.endswith("accelerate/commands/launch.py"):
            return line[place + 1 :]
    return None
