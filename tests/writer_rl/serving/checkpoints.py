"""Checkpoints of a tiny random Writer for tests of export and serving: full weights, tied or not, and an adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.tiny import make_model, make_tokenizer
from writer_rl import checkpoint
from writer_rl.policy import Policy, load_policy, with_adapter
from writer_rl.recipe import load

NEW_TOKENS = 40


def state(**more: Any) -> dict[str, Any]:
    recipe = load("tiny", [f"grpo.max_new_tokens={NEW_TOKENS}", "writer.max_prompt_tokens=1500"])
    return {"round": 3, "recipe": recipe.model_dump(), "pipeline_id": "p" * 64, **more}


def full(folder: Path, *, tied: bool = True, seed: int = 0, **more: Any) -> Path:
    """A checkpoint of all weights; its generation config holds what an instruct model's often does."""
    model = make_model(tied=tied, seed=seed)
    model.generation_config.repetition_penalty = 1.3
    model.generation_config.do_sample = True
    model.generation_config.temperature = 0.7
    checkpoint.save(folder, Policy(model, make_tokenizer()), state=state(**more))
    return folder


def adapter(folder: Path, base: Path, width: int = 32, **more: Any) -> Path:
    """A checkpoint of a LoRA adapter that changes the model, on a base of its own."""
    make_model(width=width).save_pretrained(base)
    make_tokenizer().save_pretrained(base)
    policy = with_adapter(load_policy(base), base, r=4, alpha=8, targets="all-linear", seed=0)
    with torch.no_grad():
        for name, tensor in policy.model.named_parameters():
            if "lora_B" in name:
                tensor.normal_(std=0.1, generator=torch.Generator().manual_seed(len(name)))
    checkpoint.save(folder, policy, state=state(**more))
    return folder
