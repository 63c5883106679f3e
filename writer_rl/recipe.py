"""Recipes: YAML files with `key=value` overrides (OmegaConf), checked strictly (pydantic). Every option of a run is here."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from data.network import DataError

Precision = Literal["fp32", "bf16"]  # of autocast; master weights are always fp32


class RecipeError(DataError):
    """A recipe that does not fit: names the file, the key and what to write instead."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class GymSection(Section):
    """Synthetic networks from a seed: how many for each side, and the difficulty (fields of data.gym.GymConfig)."""

    train: PositiveInt
    dev: PositiveInt
    test: PositiveInt
    seed: int = 0
    config: dict[str, Any] = {}


class DataSection(Section):
    sources: list[str] = []  # `own`, `socialmem`, or folders of networks in the nested form
    socialmem: str | None = None  # folder with the SocialMem networks; none: where `writer-rl data fetch` put them
    split: str | None = None  # a bundled manifest's name or a file
    gym: GymSection | None = None  # instead of sources and split
    window: int | None = Field(None, ge=2)  # messages a segment; none: one segment a session

    @model_validator(mode="after")
    def _one_kind(self) -> DataSection:
        if (self.gym is None) == (not self.sources):
            raise ValueError("give either `sources` (with `split`) or `gym`")
        if self.sources and self.split is None:
            raise ValueError("`sources` needs `split`: the manifest that says which networks are for training")
        return self


class ModelSection(Section):
    path: str  # a Hugging Face folder or name, `embedded` (comes with the project) or `smollm2`
    revision: str | None = None
    gradient_checkpointing: bool = False


class LoraSection(Section):
    """Train a LoRA adapter instead of all weights. Without dropout: the ratio to the old policy needs one and the same
    network."""

    r: PositiveInt = 16
    alpha: PositiveInt = 32
    targets: str | list[str] = "all-linear"  # names of layers; all-linear: all but the head


class WriterSection(Section):
    prompt: Literal["full", "compact"] = "full"
    head_tokens: PositiveInt = 4096  # budget of the memory part of a prompt
    max_prompt_tokens: PositiveInt = 16384  # a longer prompt is an error, never truncated


class PipelineSection(Section):
    """The frozen query pipeline (design section 5)."""

    embedder: Literal["minilm", "hash"] = "minilm"
    recall: PositiveInt = 40
    top_k: PositiveInt = 10
    k: PositiveInt = 2
    source_k: int = Field(1, ge=0)
    use_ask: bool = False
    project: str = "offline"  # each role: `offline` or `litellm:MODEL`
    select: str = "offline"
    ask: str = "offline"
    answer: str = "offline"
    judge: str = "offline"
    api_base: str | None = None  # an OpenAI-compatible server of one's own for all LLM calls; none: the model's provider
    replies: str | None = None  # file of cached LLM replies; none: replies.sqlite in the folder of checkpoints
    concurrency: PositiveInt | None = None  # LLM calls in flight; none: 8
    budget_usd: PositiveFloat | None = None  # LLM calls stop at this cost; none: no cap
    budget_tokens: PositiveInt | None = None

    @property
    def uses_llm(self) -> bool:
        """Whether any role is played by a model behind an interface."""
        return any(one != "offline" for one in (self.project, self.select, self.ask, self.answer, self.judge))


class SFTSection(Section):
    epochs: PositiveInt = 10
    lr: PositiveFloat = 1e-5
    weight_decay: float = Field(0.01, ge=0)
    batch_size: PositiveInt = 8  # examples an optimizer step
    max_grad_norm: PositiveFloat = 1.0
    schedule: Literal["constant", "linear"] = "constant"
    warmup_steps: int = Field(0, ge=0)
    micro_batch_tokens: PositiveInt = 8192
    select: Literal["last", "phi"] = "last"  # phi: the epoch with the best sampled Phi on dev networks
    init_from: str | None = None  # a checkpoint to continue from; none: model.path
    keep: PositiveInt = 10


class RewardSection(Section):
    """Weights of Eq. 9, 18, 19 and 21 (rewards.weights.RewardWeights); an ablation sets some to 0."""

    w_valid: float = Field(0.20, ge=0)
    w_mem: float = Field(0.45, ge=0)
    w_qa: float = Field(0.35, ge=0)
    gamma: float = Field(0.95, gt=0, le=1)
    w_phi: float = Field(0.80, ge=0)
    w_chain: float = Field(0.20, ge=0)
    w_json: float = Field(0.25, ge=0)
    w_schema: float = Field(0.35, ge=0)
    w_dup: float = Field(0.25, ge=0)
    w_stop: float = Field(0.15, ge=0)
    eta_json: float = Field(0.25, ge=0)
    eta_act: float = Field(0.15, ge=0)
    eta_count: float = Field(0.10, ge=0)
    eta_length: float = Field(0.10, ge=0)


class GRPOSection(Section):
    init_from: str | None = None  # the SFT checkpoint; none: the one that this run's SFT selected
    group_size: int = Field(8, ge=2)
    rounds: PositiveInt = 30
    networks_per_round: PositiveInt = 1
    temperature: PositiveFloat = 0.8
    top_p: PositiveFloat = Field(0.95, le=1)
    max_new_tokens: PositiveInt = 2048
    lr: PositiveFloat = 1e-6
    schedule: Literal["constant", "linear"] = "constant"  # linear: down to 0 at the last round's last step
    warmup_steps: int = Field(0, ge=0)  # optimizer steps over which lr rises: Adam's first steps are its widest
    weight_decay: float = Field(0.0, ge=0)
    epochs: PositiveInt = 2
    clip: PositiveFloat = 0.20
    beta: float = Field(0.10, ge=0)
    kl_gate: PositiveFloat = 0.02
    max_grad_norm: PositiveFloat = 1.0
    micro_batch_tokens: PositiveInt = 8192
    reward: RewardSection = RewardSection()
    eval_every: int = Field(0, ge=0)  # rounds between held-out evaluations, which choose the checkpoint; 0: the last one
    patience: PositiveInt | None = None  # evaluations in a row without a better one that end the run; none: all rounds
    save_every: PositiveInt = 1
    keep: PositiveInt = 2

    @model_validator(mode="after")
    def _judged(self) -> GRPOSection:
        if self.patience is not None and not self.eval_every:
            raise ValueError("`patience` counts held-out evaluations: set `eval_every` too")
        return self


class EngineSection(Section):
    """What generates in GRPO: `hf` is the training model itself, `vllm` runs beside it, `vllm-server` is one's own servers."""

    kind: Literal["hf", "vllm", "vllm-server"] = "hf"
    max_batch_tokens: PositiveInt = 65536  # hf: rows x (longest prompt + new tokens) that generate together
    dtype: Literal["float32", "bfloat16"] | None = None  # vllm, servers; none: float32 on a CPU, bfloat16 on a GPU
    kv_cache_gib: PositiveFloat = 4.0  # vllm: memory for keys and values
    servers: list[str] = []  # vllm-server: URLs such as http://127.0.0.1:8000
    weights: str | None = None  # folder of weights on their way, which servers see under the same path; none: in the run's
    sync_deadline: PositiveFloat = 300.0  # seconds for each step of a weight sync
    answer_deadline: PositiveFloat = 3600.0  # vllm-server: seconds for one completion

    @model_validator(mode="after")
    def _servers(self) -> EngineSection:
        if bool(self.servers) != (self.kind == "vllm-server"):
            raise ValueError("`servers` goes with `kind: vllm-server`, which needs at least one")
        return self


class EvalSection(Section):
    side: Literal["dev", "test"] = "test"
    seeds: PositiveInt = 1
    temperature: float = Field(0.8, ge=0)
    top_p: PositiveFloat = Field(0.95, le=1)
    max_new_tokens: PositiveInt = 2048
    limit: PositiveInt | None = None  # the first n networks of the side


class Recipe(Section):
    run: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seed: int = 0
    checkpoints: str = "checkpoints"
    precision: Precision = "bf16"
    model: ModelSection
    lora: LoraSection | None = None
    data: DataSection
    writer: WriterSection = WriterSection()
    pipeline: PipelineSection = PipelineSection()
    sft: SFTSection = SFTSection()
    grpo: GRPOSection = GRPOSection()
    engine: EngineSection = EngineSection()
    eval: EvalSection = EvalSection()

    @property
    def folder(self) -> Path:
        return Path(self.checkpoints) / self.run

    def to_yaml(self) -> str:
        return OmegaConf.to_yaml(OmegaConf.create(self.model_dump()))

    def keep(self, phase: str) -> None:
        """Write the recipe as resolved beside the run that it was found to fit."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"recipe-{phase}.yaml").write_text(self.to_yaml(), "utf-8")


def keys(model: type[BaseModel] = Recipe, prefix: str = "") -> Iterator[str]:
    """Every dotted key that a recipe may hold."""
    for name, field in model.model_fields.items():
        yield prefix + name
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from keys(kind, f"{prefix}{name}.")


def find(name: str) -> Path:
    """A recipe file: a path, or the name of a bundled one (`recipes/tiny.yaml`, `tiny`)."""
    path = Path(name)
    bundled = files("recipes") / (path.name if path.suffix else f"{path.name}.yaml")
    if path.is_file():
        return path
    if bundled.is_file() and str(path.parent) in (".", "recipes"):
        return Path(str(bundled))
    have = ", ".join(sorted(item.name for item in files("recipes").iterdir() if item.name.endswith(".yaml")))
    raise RecipeError(f"no recipe {name!r}: neither a file nor one of the bundled ones ({have})")


def load(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply `key=value` overrides. Raises RecipeError with the file, the key and the nearest match."""
    path = find(name)
    try:
        config = OmegaConf.load(path)
        if not OmegaConf.is_dict(config):
            raise RecipeError(f"{path}: a recipe is a mapping of keys to values, not {type(config).__name__}")
        for override in overrides:
            if "=" not in override or override.startswith("-"):
                raise RecipeError(f"override {override!r}: write key=value, for example grpo.rounds=2")
        values = OmegaConf.to_container(OmegaConf.merge(config, OmegaConf.from_dotlist(list(overrides))), resolve=True)
    except (OmegaConfBaseException, OSError, ValueError) as error:
        if isinstance(error, RecipeError):
            raise
        raise RecipeError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from error
    except Exception as error:  # PyYAML's errors share no public base with the others
        if type(error).__module__.startswith("yaml"):
            raise RecipeError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
        raise
    return check(values, str(path))


def check(values: Any, where: str) -> Recipe:
    """Validate the values of a recipe; one paragraph for all that does not fit."""
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        known = list(keys())
        problems = []
        for item in error.errors():
            key = ".".join(str(part) for part in item["loc"])
            if item["type"] == "extra_forbidden":
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5) or difflib.get_close_matches(
                    key.rsplit(".", 1)[-1], [one.rsplit(".", 1)[-1] for one in known], n=1, cutoff=0.5
                )
                problems.append(f"unknown key `{key}`" + (f" (did you mean `{near[0]}`?)" if near else ""))
            elif item["type"] == "missing":
                problems.append(f"`{key}` is missing")
            else:
                problems.append(f"`{key}`: {item['msg']}, got {item['input']!r}")
        raise RecipeError(f"{where}: " + "; ".join(problems)) from error
