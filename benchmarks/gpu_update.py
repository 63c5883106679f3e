"""The policy update at the size it is meant for: Qwen2.5-3B's shape, random weights, bf16 compute over fp32 master weights.

    python -m benchmarks.gpu_update                                     # on a GPU; writes docs/results/gpu_update.{json,md}
    python -m benchmarks.gpu_update --shape tiny --prompt 24 --completion 8 --samples 4     # on any machine; writes nothing

Samples of 2,400 prompt and 400 completion tokens, through `writer_rl.update.update` as training calls it: the reference's
forward, two epochs of forward and backward, two AdamW steps. Needs torch, transformers, accelerate and peft, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from accelerate import Accelerator
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.results import RESULTS, write_result
from benchmarks.update_memory import resident
from benchmarks.update_trace import make_samples
from writer_rl.optimizer import build_optimizer, build_scheduler
from writer_rl.policy import Policy, reference_of
from writer_rl.update import UpdateConfig, update

COMMAND = "python -m benchmarks.gpu_update"
EPOCHS = 2
PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "4090": 165e12}  # dense bf16, by name


@dataclass(frozen=True)
class Shape:
    """A Qwen2 with tied embeddings."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    mlp: int
    vocabulary: int

    def config(self) -> Qwen2Config:
        return Qwen2Config(
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            intermediate_size=self.mlp,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            max_position_embeddings=32_768,
            tie_word_embeddings=True,
        )

    def forward_flops(self, prompt: int, completion: int) -> int:
        """Of one sample: matrix products only, causal attention (half of the square), the head on completion tokens alone."""
        kv_width = self.width // self.heads * self.kv_heads
        layer = 2 * self.width * self.width + 2 * self.width * kv_width + 3 * self.width * self.mlp  # weights in products
        length = prompt + completion
        attention = 2 * length * length * self.width  # q k^T and its product with v, 2 L^2 each, halved
        return self.layers * (2 * length * layer + attention) + 2 * completion * self.width * self.vocabulary


SHAPES = {
    "qwen2.5-3b": Shape(layers=36, width=2048, heads=16, kv_heads=2, mlp=11_008, vocabulary=151_936),
    "tiny": Shape(layers=2, width=32, heads=4, kv_heads=2, mlp=64, vocabulary=500),
}


@dataclass(frozen=True)
class Setting:
    """What is run: `samples` of `prompt` + `completion` tokens; a warm-up and `repeats` timed updates."""

    shape: str = "qwen2.5-3b"
    samples: int = 16
    prompt: int = 2_400
    completion: int = 400
    micro_batch_tokens: int = 8_192
    gradient_checkpointing: bool = True
    repeats: int = 3


def useful_flops(setting: Setting) -> int:
    """Of one update: the reference's forward, and in every epoch a forward and a backward of twice its work. What gradient
    checkpointing computes again does not count."""
    forward = SHAPES[setting.shape].forward_flops(setting.prompt, setting.completion)
    return setting.samples * forward * (1 + 3 * EPOCHS)


def peak_flops(name: str) -> float | None:
    """Dense bf16 FLOP/s of a GPU by its name, None where it is not known."""
    return next((flops for known, flops in PEAK_FLOPS.items() if known in name), None)


def prepared(setting: Setting, accelerator: Accelerator) -> Callable[[], tuple[float, ...]]:
    """One update as a call; it returns the gradient norms of its steps."""
    shape = SHAPES[setting.shape]
    torch.manual_seed(0)
    with torch.device(accelerator.device):
        model = Qwen2ForCausalLM(shape.config()).float()
    policy = Policy(model, tokenizer=None)
    reference = reference_of(policy)
    if setting.gradient_checkpointing:
        model.gradient_checkpointing_enable()
        model.train()  # checkpointing works in training mode only; there is no dropout
    optimizer = build_optimizer(model, 1e-6)
    steppers = (optimizer, build_scheduler(optimizer), accelerator)
    config = UpdateConfig(
        epochs=EPOCHS, kl_gate=math.inf, micro_batch_tokens=setting.micro_batch_tokens, autocast_dtype=torch.bfloat16
    )
    samples = make_samples([(setting.prompt, setting.completion)] * setting.samples, shape.vocabulary)
    advantages = {sample.key: sample.ret for sample in samples}

    def run() -> tuple[float, ...]:
        stats = update(policy, reference, samples, advantages, *steppers, config)
        return tuple(epoch.grad_norm for epoch in stats.epochs)

    return run


def measure(setting: Setting, accelerator: Accelerator) -> dict[str, Any]:
    """Warm up, then time. `step_seconds` is half an update: one optimizer step with its share of the reference's forward."""
    gpu = accelerator.device.type == "cuda"
    run = prepared(setting, accelerator)
    norms = run()
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(setting.repeats):
        begun = time.perf_counter()
        run()
        if gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    took = median(seconds)
    name = torch.cuda.get_device_name() if gpu else "cpu"
    peak, flops = peak_flops(name), useful_flops(setting)
    tokens = setting.samples * (setting.prompt + setting.completion)
    return {
        "device": name,
        "step_seconds": took / EPOCHS,
        "update_seconds": took,
        "tokens_per_second": tokens / took,
        "mfu": None if peak is None else flops / took / peak,
        "tflops_per_second": flops / took / 1e12,
        "peak_memory_gb": (torch.cuda.max_memory_allocated() if gpu else resident("VmHWM")) / 2**30,
        "all_update_seconds": seconds,
        "grad_norms": list(norms),
        "setting": asdict(setting),
        "shape": asdict(SHAPES[setting.shape]),
        "torch": torch.__version__,
    }


def page(result: Mapping[str, Any]) -> str:
    setting, shape = result["setting"], result["shape"]
    mfu = "unknown (this GPU's peak is not in the list)" if result["mfu"] is None else f"{result['mfu']:.1%}"
    budget, mode = setting["micro_batch_tokens"], "on" if setting["gradient_checkpointing"] else "off"
    return f"""One update of {setting["samples"]} samples of {setting["prompt"]} + {setting["completion"]} tokens on
{result["device"]}. {setting["shape"]}: {shape["layers"]} layers, width {shape["width"]}, vocabulary {shape["vocabulary"]},
random weights. bf16 autocast over fp32 master weights and moments, micro-batches of {budget} tokens, gradient
checkpointing {mode}. Median of {setting["repeats"]} after a warm-up.

| | |
|---|---|
| update (reference forward, two epochs, two steps) | {result["update_seconds"]:.2f} s |
| an optimizer step, half of that | {result["step_seconds"]:.2f} s |
| tokens of samples per second | {result["tokens_per_second"]:.0f} |
| model FLOP utilisation | {mfu} |
| peak memory | {result["peak_memory_gb"]:.1f} GB |

Useful FLOPs: the reference's forward, and a forward and a backward in each epoch; the head on completion tokens only;
causal attention as half of the square; what gradient checkpointing computes again does not count."""


def parse(arguments: list[str] | None = None) -> tuple[Setting, Path]:
    parser = argparse.ArgumentParser(description="The policy update at Qwen2.5-3B's size.")
    default = Setting()
    parser.add_argument("--shape", choices=sorted(SHAPES), default=default.shape)
    for name in ("samples", "prompt", "completion", "micro_batch_tokens", "repeats"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(default, name))
    parser.add_argument("--no-gradient-checkpointing", action="store_true")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where the result is written")
    given = vars(parser.parse_args(arguments))
    folder, plain = given.pop("folder"), given.pop("no_gradient_checkpointing")
    return Setting(**given, gradient_checkpointing=not plain), folder


def main(arguments: list[str] | None = None) -> None:
    setting, folder = parse(arguments)
    accelerator = Accelerator()
    result = measure(setting, accelerator)
    print(json.dumps(result, indent=1))
    if accelerator.device.type == "cuda":
        write_result("gpu_update", "The policy update on a GPU", result, page(result), COMMAND, folder)


if __name__ == "__main__":
    main()
