"""What a run will need: memory by part, seconds and money, from a model's shape, a device and the work to be done.

Formulas and constants are explained, and held against measured runs, in docs/estimates.md. They are for deciding whether a
recipe fits and what it costs, good to about a factor of three in time, no more. Units: bytes, FLOP, seconds, USD.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from data.network import DataError
from writer_rl.logprobs import CHUNK

GIB = 2**30
TRAINING_SHARE = 0.35  # of peak FLOP/s that forward and backward passes reach on a GPU
READING_SHARE = 0.6  # of peak bandwidth that decoding reaches
LAYER_SECONDS = 3.5e-4  # of one layer in one decoding step of the hf engine, however small: Python and kernel launches
FP32_SHARE = 1 / 8  # of the bf16 peak that fp32 has on a GPU (TF32 for products)
RUNTIME = 1.0 * GIB  # CUDA context, kernels, fragmentation
CALL_SECONDS = 2.0  # of one LLM call


@dataclass(frozen=True, slots=True)
class Device:
    """`flops`: dense bf16 peak a second; `bandwidth`: bytes a second; `usd_hour`: what renting one costs, about."""

    name: str
    memory: float
    flops: float
    bandwidth: float
    usd_hour: float
    host: bool = False  # main memory and a few cores: no launch overhead, and `flops` are measured ones


DEVICES = {
    one.name: one
    for one in (
        Device("L4", 24 * GIB, 121e12, 300e9, 0.8),
        Device("RTX4090", 24 * GIB, 165e12, 1008e9, 0.6),
        Device("L40S", 48 * GIB, 362e12, 864e9, 1.3),
        Device("A100-40", 40 * GIB, 312e12, 1555e9, 1.6),
        Device("A100-80", 80 * GIB, 312e12, 2039e9, 2.0),
        Device("H100", 80 * GIB, 989e12, 3350e9, 3.0),
        Device("H200", 141 * GIB, 989e12, 4800e9, 3.8),
        Device("cpu", 24 * GIB, 0.1e12, 5e9, 0.1, host=True),
    )
}


def device_named(name: str) -> Device:
    """Raises DataError with the names there are."""
    found = {key.lower(): one for key, one in DEVICES.items()}.get(name.lower())
    if found is None:
        raise DataError(f"no device {name!r} in the table; use one of {', '.join(DEVICES)}, the nearest will do")
    return found


@dataclass(frozen=True, slots=True)
class Shape:
    """A causal model: `trained` of its `parameters` are trained; `kv` is the width of one key (heads x size)."""

    parameters: int
    trained: int
    layers: int
    width: int
    kv: int
    mlp: int
    vocab: int

    @classmethod
    def of(cls, config: Any, parameters: int, trained: int | None = None) -> Shape:
        """From a Hugging Face config of the Llama or Qwen2 kind."""
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return cls(
            parameters=parameters,
            trained=parameters if trained is None else trained,
            layers=config.num_hidden_layers,
            width=config.hidden_size,
            kv=config.num_key_value_heads * size,
            mlp=config.intermediate_size,
            vocab=config.vocab_size,
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """What of a recipe shapes memory and speed. `generating` and `generating_tokens`: rows of a rollout batch, and rows x
    (longest prompt + new tokens)."""

    bf16: bool
    checkpointing: bool
    sft_tokens: int  # of a micro-batch
    grpo_tokens: int
    generating: int
    generating_tokens: int
    epochs: int
    engine: str = "hf"
    engine_kv: float = 0.0  # bytes that an engine beside the trainer takes for keys and values


def memory(shape: Shape, setting: Setting) -> dict[str, float]:
    """Bytes by part, in the order they are printed; `total` is the peak with RUNTIME: the largest of SFT's step (which has no
    reference and no engine), the GRPO update and the rollout, which are never there at once."""
    full = shape.trained == shape.parameters
    parts = {
        "weights (fp32)": 4.0 * shape.parameters,
        "gradients": 4.0 * shape.trained,
        "moments": 8.0 * shape.trained,
        "reference": 4.0 * (shape.parameters if full else shape.trained),
        "bf16 copies": 2.0 * shape.parameters if setting.bf16 else 0.0,
        "activations": activations(shape, setting.grpo_tokens, setting),
        "activations in SFT": activations(shape, setting.sft_tokens, setting),
        "logits": logits(shape, setting),
        "rollout cache": cache(shape, setting),
    }
    if setting.engine == "vllm":
        parts["engine weights"] = 2.0 * shape.parameters
    trained = sum(parts[name] for name in ("weights (fp32)", "gradients", "moments", "bf16 copies"))
    beside = parts["reference"] + parts.get("engine weights", 0.0)
    peaks = (
        trained + parts["activations in SFT"] + parts["logits"],
        trained + beside + parts["activations"] + parts["logits"],
        trained + beside + parts["rollout cache"],
    )
    parts["total"] = max(peaks) + RUNTIME
    return parts


def activations(shape: Shape, tokens: int, setting: Setting) -> float:
    """Bytes kept for the backward pass of `tokens` tokens.

    A layer keeps, a token: the residual stream and what two norms need of it in fp32 (5 widths), and at the precision of the
    products queries, their rotation, attention's output and the two normed inputs (5 widths), keys and values with
    theirs (3 kv), and the MLP's gate, its activation, up and their product (4 mlp). With checkpointing only each layer's
    input, and one layer whole.
    """
    size = 2 if setting.bf16 else 4
    layer = 4 * 5 * shape.width + size * (5 * shape.width + 3 * shape.kv + 4 * shape.mlp)
    if setting.checkpointing:
        return float(tokens * (4 * shape.width * shape.layers + layer))
    return float(tokens * layer * shape.layers)


def logits(shape: Shape, setting: Setting) -> float:
    """Bytes of one chunk's logits: as the head gives them, in fp32, and their gradient."""
    return float(min(CHUNK, setting.grpo_tokens) * shape.vocab * ((2 if setting.bf16 else 4) + 4 + 4))


def cache(shape: Shape, setting: Setting) -> float:
    """Bytes of keys and values while a rollout generates."""
    if setting.engine != "hf":
        return setting.engine_kv
    return float(setting.generating_tokens * shape.layers * 2 * shape.kv * (2 if setting.bf16 else 4))


def training_flop(shape: Shape, tokens: float, length: float, setting: Setting) -> float:
    """Forward and backward of `tokens` tokens in sequences of `length`: 6 a parameter, 12 layers x width x length / 2 for
    causal attention; one more forward with checkpointing."""
    forward = 2 * shape.parameters + 2 * shape.layers * shape.width * length
    return tokens * forward * (4 if setting.checkpointing else 3)


def forward_flop(shape: Shape, tokens: float, length: float) -> float:
    return tokens * (2 * shape.parameters + 2 * shape.layers * shape.width * length)


def compute_seconds(flop: float, device: Device, bf16: bool) -> float:
    """Seconds that products take."""
    if device.host:
        return flop / device.flops
    return flop / (device.flops * TRAINING_SHARE * (1.0 if bf16 else FP32_SHARE))


def decoding_seconds(shape: Shape, steps: float, setting: Setting, device: Device) -> float:
    """Seconds of `steps` decoding steps: all weights and half the full cache are read in each, and each row computes."""
    size = 2 if setting.bf16 and not device.host else 4
    read = size * shape.parameters + cache(shape, setting) / 2
    compute = compute_seconds(forward_flop(shape, setting.generating, 0), device, setting.bf16)
    overhead = 0.0 if device.host or setting.engine != "hf" else shape.layers * LAYER_SECONDS
    return steps * max(read / (device.bandwidth * READING_SHARE), compute, overhead)
