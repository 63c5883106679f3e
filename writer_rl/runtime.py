"""What a recipe names, brought to life: model, prompt, embedder, pipeline, engine."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from accelerate import Accelerator

from data.memory.executor import Support
from data.network import DataError
from rollout.engines.base import Engine
from rollout.engines.hf import HFEngine
from rollout.llm.client import Client, ClientConfig
from rollout.llm.offline import offline_roles
from rollout.llm.roles import build_roles
from rollout.memory.embedder import Embedder, load_embedder
from rollout.memory.provenance import support
from rollout.query.config import Budgets, PipelineConfig, RoleNames
from rollout.query.pipeline import Pipeline
from rollout.writer.prompt import WriterPrompt
from writer_rl import smollm2
from writer_rl.policy import Policy, load_policy
from writer_rl.recipe import PipelineSection, Recipe

EMBEDDED = Path(__file__).parent / "base" / "weights"


@dataclass(frozen=True)
class Runtime:
    """The frozen surroundings of a Writer. `autocast` is None in fp32."""

    recipe: Recipe
    accelerator: Accelerator
    embedder: Embedder
    support: Support
    pipeline: Pipeline
    client: Client  # of all LLM calls
    autocast: torch.dtype | None

    @classmethod
    def of(cls, recipe: Recipe) -> Runtime:
        accelerator = Accelerator()
        if accelerator.num_processes > 1:
            raise DataError(
                f"{accelerator.num_processes} processes: training runs in one process for now; use "
                "`accelerate launch --num_processes 1 ...`"
            )
        embedder = load_embedder(recipe.pipeline.embedder)
        client = make_client(recipe)
        return cls(
            recipe,
            accelerator,
            embedder,
            support(embedder),
            make_pipeline(recipe.pipeline, embedder, client),
            client,
            autocast_dtype(recipe.precision, accelerator.device),
        )

    def policy(self, checkpoint: str | Path | None = None) -> Policy:
        """The recipe's model, or a checkpoint of it, with fp32 master weights on this process's device."""
        if checkpoint is None:
            policy = load_policy(model_path(self.recipe), revision=self.recipe.model.revision)
        else:
            policy = load_policy(checkpoint)
        policy.model.to(self.accelerator.device)
        if self.recipe.model.gradient_checkpointing:
            policy.model.gradient_checkpointing_enable()
            policy.model.train()  # checkpointing works in training mode only; dropout is off anyway
        return policy

    def prompt(self, policy: Policy) -> WriterPrompt:
        return WriterPrompt(self.recipe.writer.prompt, policy.tokenizer)

    def engine(self, policy: Policy) -> Engine:
        """Generates with the live weights of `policy`. On a CPU in fp32: autocast would cast every weight at every token."""
        dtype = None if policy.device.type == "cpu" else self.autocast
        return HFEngine(policy.model, policy.turn_end_id, self.recipe.engine.max_batch_tokens, dtype)


def autocast_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """bf16 where the recipe asks for it and the processor has it; master weights stay fp32 either way."""
    if precision == "fp32":
        return None
    if device.type == "cpu" and not torch.cpu._is_avx512_bf16_supported():
        warnings.warn("precision bf16: this CPU has no bf16 instructions, running in fp32", stacklevel=2)
        return None
    return torch.bfloat16


def model_path(recipe: Recipe) -> str | Path:
    """`embedded` comes with the project; `smollm2` is converted from its PyPI package the first time."""
    if recipe.model.path == "embedded":
        if not (EMBEDDED / "config.json").is_file():
            raise DataError(
                "model.path is `embedded`, and the embedded base has not been trained yet; run "
                f"python -m writer_rl.base.train {EMBEDDED} (or make quickstart), or name another model"
            )
        return EMBEDDED
    if recipe.model.path == "smollm2":
        folder = Path(recipe.checkpoints) / "smollm2-135m"
        if not folder.is_dir():
            smollm2.convert(folder)
        return folder
    return recipe.model.path


def make_client(recipe: Recipe, on_disk: bool = False) -> Client:
    """The client of all LLM calls. Replies are cached on disk where a role is played by an LLM (or `on_disk`)."""
    section = recipe.pipeline
    file: Path | None = None
    if section.replies is not None:
        file = Path(section.replies)
    elif section.uses_llm or on_disk:
        file = Path(recipe.checkpoints) / "replies.sqlite"
    config = ClientConfig(cache=file, budget_usd=section.budget_usd, budget_tokens=section.budget_tokens)
    return Client(config if section.concurrency is None else replace(config, concurrency=section.concurrency))


def make_pipeline(section: PipelineSection, embedder: Embedder, client: Client | None = None) -> Pipeline:
    """The frozen query pipeline that a recipe describes. SetupError where a role needs a client and there is none."""
    budgets = Budgets(recall=section.recall, top_k=section.top_k, k=section.k, source_k=section.source_k)
    names = RoleNames(section.project, section.select, section.ask, section.answer, section.judge)
    roles = build_roles(names, offline_roles(), client, section.api_base)
    return Pipeline(PipelineConfig(budgets, None, section.use_ask, names), embedder, roles)
