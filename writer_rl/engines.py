"""The engines a recipe can name, opened for a policy. All but `hf` have no weights before the first sync."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from huggingface_hub import snapshot_download

from rollout.engines.base import Engine
from rollout.engines.hf import HFEngine
from rollout.engines.vllm import VLLMConfig, VLLMEngine
from rollout.engines.vllm_server import ServersConfig, VLLMServers
from writer_rl.lora import ADAPTER, Base
from writer_rl.parity import PROMPT, SAMPLED
from writer_rl.policy import Policy
from writer_rl.recipe import Recipe


def live(recipe: Recipe, policy: Policy, autocast: torch.dtype | None) -> HFEngine:
    """Generates with the live weights of `policy`. On a CPU in fp32: autocast would cast every weight at every token."""
    dtype = None if policy.device.type == "cpu" else autocast
    return HFEngine(policy.model, policy.turn_end_id, recipe.engine.max_batch_tokens, dtype)


def beside(recipe: Recipe, policy: Policy, accelerator: Accelerator) -> Engine:
    """`vllm` in this process, one a rank, or `vllm-server`, shared by all ranks."""
    section = recipe.engine
    folder = Path(section.weights) if section.weights else recipe.folder / "engine"
    if section.kind == "vllm-server":
        token = [token_hex(4)]
        return VLLMServers(
            ServersConfig(
                urls=tuple(url.rstrip("/") for url in section.servers),
                folder=folder,
                turn_end_id=policy.turn_end_id,
                dtype=dtype_of(recipe, policy.device),
                deadline=section.sync_deadline,
                answer=section.answer_deadline,
                adapter=adapter_of(policy),
                token=broadcast_object_list(token)[0],
                leads=accelerator.is_main_process,
            )
        )
    own = folder / f"rank-{accelerator.process_index}"
    return VLLMEngine.start(
        VLLMConfig(
            model=model_folder(policy, own / "model"),
            folder=own,
            turn_end_id=policy.turn_end_id,
            dtype=dtype_of(recipe, policy.device),
            max_tokens=longest(recipe, policy),
            kv_cache_gib=section.kv_cache_gib,
            deadline=section.sync_deadline,
            adapter=adapter_of(policy),
            gpu=policy.device.type == "cuda",
        )
    )


def dtype_of(recipe: Recipe, device: torch.device) -> torch.dtype:
    """float32 on a CPU, where bf16 is off by a quarter of a nat from an fp32 trainer; bf16 on a GPU, unless said otherwise."""
    name = recipe.engine.dtype or ("float32" if device.type == "cpu" else "bfloat16")
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def longest(recipe: Recipe, policy: Policy) -> int:
    """Tokens of the longest request: what the recipe allows and the parity probe needs, up to what the model can."""
    asked = recipe.writer.max_prompt_tokens + max(recipe.grpo.max_new_tokens, recipe.eval.max_new_tokens)
    return min(max(asked, PROMPT + SAMPLED.max_new_tokens), policy.model.config.max_position_embeddings)


def model_folder(policy: Policy, folder: Path) -> Path:
    """The folder that an engine starts from: the base of an adapter, or `folder` with the config alone."""
    if policy.base is not None:
        return base_folder(policy.base)
    policy.model.config.save_pretrained(folder)
    return folder


def base_folder(base: Base) -> Path:
    """The base of an adapter on this machine, a hub model in its cache."""
    if Path(base.path).is_dir():
        return Path(base.path)
    return Path(snapshot_download(base.path, revision=base.revision, local_files_only=True))


def adapter_of(policy: Policy) -> dict[str, Any] | None:
    """PEFT's configuration of the policy's adapter as JSON values; None for a plain model."""
    if policy.base is None:
        return None
    values = policy.model.peft_config[ADAPTER].to_dict()
    return {key: sorted(value) if isinstance(value, set) else value for key, value in values.items()}
