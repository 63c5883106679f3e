"""LoRA: a small trained adapter on a frozen base (peft), the reference kept beside it, and merging without touching the base.

An adapter's folder holds `adapter_model.safetensors`, `adapter_config.json` and `base.json`, which says what it stands on.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file
from torch import Tensor, nn

from data.network import DataError
from writer_rl.hashes import weights_hash

if TYPE_CHECKING:
    from writer_rl.policy import Policy

ADAPTER = "default"
CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
BASE = "base.json"


class LoraError(DataError):
    """An adapter that does not fit its model, its base or its recipe."""


@dataclass(frozen=True)
class Base:
    """What an adapter stands on: a folder or hub name with its revision, and a hash of its weights (a hub model's commit)."""

    path: str
    revision: str | None
    weights: str


def base_of(where: str, revision: str | None, model: Any) -> Base:
    """The base that `model` was just loaded from."""
    if Path(where).is_dir():
        return Base(str(Path(where).resolve()), None, weights_hash(Path(where)))
    return Base(where, revision, str(getattr(model.config, "_commit_hash", None)))


def is_adapter(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


def wrap(model: Any, r: int, alpha: int, targets: str | Sequence[str], seed: int) -> Any:
    """A fresh adapter of rank `r` on the model's linear layers, without dropout; only the adapter is trained.

    It changes nothing until it was trained (its second factor is 0), and its first factor depends on `seed` alone. Raises
    LoraError where `targets` name no layer, or a head that shares its weights with the embedding: training one would
    change the other, and no merge could give both back.
    """
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=r,
        lora_alpha=alpha,
        target_modules=targets if isinstance(targets, str) else list(targets),
        lora_dropout=0.0,
    )
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            wrapped: Any = get_peft_model(model, config)
    except ValueError as error:
        raise LoraError(f"lora.targets {targets!r}: {' '.join(str(error).split())}") from error
    ends = (wrapped.get_base_model().get_output_embeddings(), wrapped.get_base_model().get_input_embeddings())
    if tied and any(isinstance(end, BaseTunerLayer) for end in ends):
        raise LoraError(
            f"lora.targets {targets!r} hold the head or the embedding, which share one weight in this model: an adapter on "
            "either would change both. Leave them out (all-linear does), or use a model whose head is not tied"
        )
    return wrapped


def attach(model: Any, folder: Path) -> PeftModel:
    """The adapter of a folder, ready to be trained further, on its base. Raises LoraError where it does not fit."""
    if not (folder / WEIGHTS).is_file():
        raise LoraError(f"{folder}: holds {CONFIG} but no {WEIGHTS}; the folder is incomplete, use another one")
    try:
        wrapped = PeftModel.from_pretrained(model, str(folder), adapter_name=ADAPTER, is_trainable=True)
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        raise LoraError(f"{folder}: the adapter cannot be put on its base: {' '.join(str(error).split())}") from error
    lacking = sorted(set(adapter_tensors(wrapped)) ^ set(load_file(folder / WEIGHTS)))
    if lacking:
        raise LoraError(
            f"{folder}: the adapter does not fit its base: {lacking[0]} ({len(lacking)} tensors) is on one side only"
        )
    return wrapped


def save(folder: Path, model: PeftModel, base: Base) -> None:
    """Adapter and base.json. `folder` exists."""
    model.save_pretrained(str(folder), selected_adapters=[ADAPTER])
    (folder / "README.md").unlink(missing_ok=True)  # peft's form to fill in
    relative = os.path.relpath(base.path, folder.resolve()) if Path(base.path).is_dir() else None
    (folder / BASE).write_text(json.dumps({**asdict(base), "relative": relative}, indent=1) + "\n", "utf-8")


def read_base(folder: Path) -> Base:
    """What an adapter stands on, found where it was, or where it lies now if it moved together with the adapter.

    Raises LoraError where it is not there, or is another model by now.
    """
    try:
        told = json.loads((folder / BASE).read_text("utf-8"))
        base, relative = Base(told["path"], told["revision"], told["weights"]), told["relative"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LoraError(f"{folder}: {BASE} must say what the adapter stands on, and cannot be read: {error}") from error
    if relative is None:
        return base
    places = [place for place in (Path(base.path), (folder / relative).resolve()) if place.is_dir()]
    found = next((place for place in places if weights_hash(place) == base.weights), None)
    if found is None:
        state = "is another model now" if places else "is not there"
        raise LoraError(
            f"{folder}: the adapter stands on {base.path}, which {state}; put that model back, or name its folder as `path` "
            f"in {folder / BASE}"
        )
    return replace(base, path=str(found))


def adapter_tensors(model: PeftModel) -> dict[str, nn.Parameter]:
    """The trained tensors under the names that the file has for them."""
    named = model.named_parameters()
    return {name.replace(f".{ADAPTER}.", "."): tensor for name, tensor in named if f".{ADAPTER}." in name}


def check_same(model: PeftModel, values: tuple[int, int, str | Sequence[str]] | None, where: str) -> None:
    """Raise LoraError unless the adapter has the recipe's rank and alpha and lies on its targets (`values`; None: the recipe
    trains whole models)."""
    config: Any = model.peft_config[ADAPTER]
    found = (config.r, config.lora_alpha)
    if values is None:
        raise LoraError(
            f"{where}: holds a LoRA adapter (r {found[0]}, alpha {found[1]}), and the recipe has no `lora` section: add one to "
            "train the adapter further, or export the checkpoint and begin with the merged model to train all weights"
        )
    r, alpha, targets = values
    if found != (r, alpha):
        raise LoraError(
            f"{where}: its adapter has r {found[0]} and alpha {found[1]}, the recipe's `lora` says r {r} and alpha "
            f"{alpha}; use the values that the adapter was made with"
        )
    plain: Any = model.get_base_model()
    adapted = {name for name, module in plain.named_modules() if isinstance(module, BaseTunerLayer)}
    linear = {name for name, module in plain.named_modules() if isinstance(module, nn.Linear)}
    linear -= {name for name in linear if any(name.startswith(f"{layer}.") for layer in adapted)}  # an adapter's own factors
    linear -= {name for name, module in plain.named_modules() if module is plain.get_output_embeddings()}
    if adapted != {name for name in adapted | linear if _is_target(name, targets)}:
        layers = ", ".join(sorted({name.rpartition(".")[2] for name in adapted}))
        raise LoraError(f"{where}: its adapter lies on {layers}, the recipe's lora.targets are {targets!r}; use the same ones")


def _is_target(name: str, targets: str | Sequence[str]) -> bool:
    """As peft reads targets: the word, a pattern over the whole name, or endings of names."""
    if isinstance(targets, str):
        return targets == "all-linear" or re.fullmatch(targets, name) is not None
    return any(name == one or name.endswith(f".{one}") for one in targets)


def merged(policy: Policy) -> Policy:
    """The policy as a plain model with the adapter added to fresh weights; the base keeps every byte. A policy without an
    adapter is returned as it is."""
    if not isinstance(policy.model, PeftModel):
        return policy
    plain: Any = copy.deepcopy(policy.model).merge_and_unload()
    return replace(policy, model=plain.requires_grad_(False).eval(), base=None)


def merged_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Name and tensor of every weight as the plain model has them, one at a time; merged ones in fresh memory.

    For a model without an adapter: its own weights. A tied head comes once, under the embedding's name.
    """
    causal = model.get_base_model() if isinstance(model, PeftModel) else model
    layers = {name: module for name, module in causal.named_modules() if isinstance(module, BaseTunerLayer)}
    for name, tensor in causal.named_parameters():
        owner, _, last = name.rpartition(".base_layer.")
        if owner in layers and last == "weight":
            layer: Any = layers[owner]
            yield f"{owner}.weight", tensor.detach() + layer.get_delta_weight(ADAPTER).detach()
        elif owner in layers:
            yield f"{owner}.{last}", tensor.detach()
        elif not any(name.startswith(f"{layer_name}.") for layer_name in layers):
            yield name, tensor.detach()


class AdapterReference(nn.Module):
    """pi_ref beside a policy that shares its base: the adapter as it was at the start, put in its place while asked.

    `start` is the folder of the checkpoint that training began from. Where that is an adapter on the same base, it is the
    reference; where it is the base itself, the reference is an adapter of zeros. Anything else raises LoraError: the base
    alone is never taken for the SFT policy.
    """

    def __init__(self, policy: Policy, start: Path) -> None:
        super().__init__()
        self.model: Any = policy.model
        self._trained: dict[str, nn.Parameter] = adapter_tensors(policy.model)
        assert policy.base is not None
        if is_adapter(start):
            if read_base(start).weights != policy.base.weights:
                raise LoraError(f"{start}: its adapter stands on another base than the policy, so it cannot be its reference")
            kept: Mapping[str, Tensor] = load_file(start / WEIGHTS)
        elif base_of(str(start), policy.base.revision, self.get_base_model()).weights == policy.base.weights:
            kept = {name: torch.zeros_like(tensor) for name, tensor in self._trained.items()}
        else:
            raise LoraError(f"{start}: is neither the base of the policy's adapter nor an adapter on it; no reference to keep")
        shapes = {name: tensor.shape for name, tensor in kept.items()}
        if shapes != {name: tensor.shape for name, tensor in self._trained.items()}:
            raise LoraError(f"{start}: its adapter has other layers or another rank than the policy's; use the same `lora`")
        self._kept = {name: tensor.to(self._trained[name].device) for name, tensor in kept.items()}

    def get_base_model(self) -> Any:
        return self.model.get_base_model()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the policy's model is the reference. Whatever happens, the trained adapter comes back to its place."""
        trained = {name: parameter.data for name, parameter in self._trained.items()}
        try:
            for name, parameter in self._trained.items():
                parameter.data = self._kept[name]
            yield
        finally:
            for name, parameter in self._trained.items():
                parameter.data = trained[name]


def in_place(reference: nn.Module) -> AbstractContextManager[None]:
    """Around every forward of a reference: one that shares the policy's model takes its place there, another is as it is."""
    return reference.in_place() if isinstance(reference, AdapterReference) else nullcontext()
