"""The GPU script at a tiny size on the CPU: its numbers, its FLOPs, and that it needs nothing a GPU machine may lack."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from accelerate import Accelerator
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen2ForCausalLM

from benchmarks import gpu_update
from benchmarks.gpu_update import SHAPES, Setting, measure, page, parse, peak_flops, useful_flops

TINY = Setting("tiny", samples=2, prompt=12, completion=4, micro_batch_tokens=64, repeats=1)
ABSENT = ("deepspeed", "vllm", "datasets", "litellm", "trl")


@pytest.mark.parametrize("checkpointing", [True, False])
def test_a_tiny_update_is_measured(checkpointing):
    setting = Setting(**{**vars(TINY), "gradient_checkpointing": checkpointing})
    found = measure(setting, Accelerator())
    assert len(found["grad_norms"]) == 2 and all(norm > 0 for norm in found["grad_norms"])
    assert found["step_seconds"] * 2 == found["update_seconds"] == found["all_update_seconds"][0] > 0
    assert found["tokens_per_second"] == pytest.approx(2 * 16 / found["update_seconds"])
    assert found["tflops_per_second"] == pytest.approx(useful_flops(setting) / found["update_seconds"] / 1e12)
    assert found["mfu"] is None and found["peak_memory_gb"] > 0
    assert "12 + 4 tokens" in page(found) and f"| {found['update_seconds']:.2f} s |" in page(found)


def test_the_forward_s_flops_are_those_that_torch_counts():
    shape = SHAPES["tiny"]
    model = Qwen2ForCausalLM(shape.config())
    model.config._attn_implementation = "eager"  # whose products torch counts, the whole square
    length = 24
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=torch.ones(1, length, dtype=torch.long), use_cache=False, logits_to_keep=6)
    upper_half = shape.layers * 2 * length * length * shape.width
    rotary = counter.get_total_flops() - shape.forward_flops(18, 6) - upper_half  # angles: a product with positions
    assert 0 <= rotary < 0.01 * counter.get_total_flops()


def test_the_shape_is_that_of_qwen_2_5_3b():
    with torch.device("meta"):
        model = Qwen2ForCausalLM(SHAPES["qwen2.5-3b"].config())
    assert sum(parameter.numel() for parameter in model.parameters()) == 3_085_938_688


def test_nothing_is_written_without_a_gpu(tmp_path, capsys):
    gpu_update.main(
        ["--shape", "tiny", "--samples", "2", "--prompt", "6", "--completion", "2", "--repeats", "1", "--folder", str(tmp_path)]
    )
    assert '"step_seconds"' in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_the_defaults_are_completions_of_400_in_2800_tokens_and_options_reach_the_setting():
    setting, _ = parse([])
    assert (setting.prompt + setting.completion, setting.completion, setting.shape) == (2800, 400, "qwen2.5-3b")
    assert not parse(["--no-gradient-checkpointing"])[0].gradient_checkpointing
    assert parse(["--micro-batch-tokens", "77"])[0].micro_batch_tokens == 77


def test_utilisation_is_known_for_known_gpus_alone():
    assert peak_flops("NVIDIA H200") == 989e12 and peak_flops("Something else") is None


def test_it_imports_nothing_that_a_gpu_machine_may_lack():
    code = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r})); import benchmarks.gpu_update"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
