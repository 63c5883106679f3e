from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import psutil
import pytest
from accelerate import Accelerator
from accelerate.utils import DistributedType

from writer_rl import launch
from writer_rl.launch import LaunchError, asked_processes, check, command


def accelerator(kind: DistributedType, processes: int, precision: str = "no", **zero: object) -> Accelerator:
    config = {"gradient_accumulation_steps": zero.pop("steps", 1), "zero_optimization": {"stage": 2, **zero}}
    plugin = SimpleNamespace(deepspeed_config=config, zero_stage=zero.get("stage", 2), zero3_init_flag=False)
    state = SimpleNamespace(deepspeed_plugin=plugin)
    made = SimpleNamespace(num_processes=processes, distributed_type=kind, mixed_precision=precision, state=state)
    return cast(Accelerator, made)


def test_as_many_processes_as_were_asked_for_pass():
    check(accelerator(DistributedType.NO, 1), 1)
    check(accelerator(DistributedType.MULTI_CPU, 3), 3)
    check(accelerator(DistributedType.DEEPSPEED, 2, stage=3), 2)


def test_processes_that_work_each_alone_are_refused_with_a_command_that_works():
    with pytest.raises(LaunchError, match=r"2 processes were asked for.*torchrun --nproc_per_node 2 train_grpo.py RECIPE"):
        check(accelerator(DistributedType.NO, 1), 2)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"stage": 0}, "zero_stage must be 1, 2 or 3"),
        ({"steps": 4}, "gradient_accumulation_steps must be 1"),
        ({"precision": "bf16"}, "mixed_precision must be 'no'"),
        ({"offload_optimizer": {"device": "cpu"}}, "offload devices must be none"),
    ],
)
def test_deepspeed_settings_that_would_scale_or_cast_behind_the_updates_back_are_refused(changed, told):
    with pytest.raises(LaunchError, match=f"{told}.*zero2_cpu.yaml --num_processes 2"):
        check(accelerator(DistributedType.DEEPSPEED, 2, **changed), 2)


def test_fsdp_is_refused_with_what_to_use_instead():
    with pytest.raises(LaunchError, match=r"FSDP is not supported.*zero3_cpu.yaml"):
        check(accelerator(DistributedType.FSDP, 2), 2)


def test_the_command_fits_kind_and_machine(monkeypatch):
    assert command(3, stage=1).startswith(
        "`accelerate launch --config_file recipes/accelerate/zero1_cpu.yaml --num_processes 3"
    )
    monkeypatch.setattr(launch.torch.cuda, "is_available", lambda: True)
    assert "recipes/accelerate/ddp.yaml --num_processes 3" in command(3) and "zero1.yaml" in command(3, stage=1)


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        (["python", "/bin/accelerate", "launch", "--num_processes", "4", "train_grpo.py", "tiny"], 4),
        (["python", "/bin/accelerate-launch", "--num_processes=2", "train_grpo.py"], 2),
        (["python", "/x/accelerate/commands/launch.py", "--config_file", "FILE", "train_grpo.py"], 7),
        (["python", "/bin/accelerate", "launch", "--cpu", "--config_file", "FILE", "train_grpo.py"], 1),
        (["bash", "launch", "--num_processes", "4"], 1),
        (["pytest"], 1),
    ],
)
def test_what_accelerate_launch_was_asked_for_is_read_from_its_command_line_and_file(monkeypatch, tmp_path, line, asked):
    file = tmp_path / "two.yaml"
    file.write_text("num_processes: 7\n")
    parent = SimpleNamespace(cmdline=lambda: [str(file) if part == "FILE" else part for part in line])
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(parent=lambda: parent))
    monkeypatch.setattr(launch, "default_config_file", str(tmp_path / "none.yaml"))
    assert asked_processes() == asked
