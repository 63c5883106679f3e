"""From a checkpoint to one folder that `AutoModelForCausalLM` and vLLM load as it is, with the contract to use it by."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from data.network import DataError
from rollout.writer.prompt import WriterPrompt
from rollout.writer.view import MAX_HEADS_PER_OWNER
from writer_rl import checkpoint, contract, lora, probe
from writer_rl.action_schema import action_schema
from writer_rl.contract import Contract
from writer_rl.evaluation.heldout import trained_networks
from writer_rl.export_card import card
from writer_rl.hashes import weights_hash
from writer_rl.policy import Policy
from writer_rl.recipe import Recipe, check
from writer_rl.selection import selected

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
PHASES = ("grpo", "sft")  # of a run, the later one first


class ExportError(DataError):
    """A checkpoint that cannot be exported, or a place that cannot be written to."""


@dataclass(frozen=True)
class Exported:
    folder: Path
    checkpoint: Path
    contract: Contract


def export(source: Path, to: Path, dtype: str = "bfloat16") -> Exported:
    """Write the export of a run or checkpoint, whole or not at all; an older export under the name is replaced.

    An adapter is merged into fresh weights in fp32, then everything is rounded to `dtype`; neither the checkpoint nor its
    base is touched. Errors: ExportError, CheckpointError, PolicyError, LoraError.
    """
    if dtype not in DTYPES:
        raise ExportError(f"--dtype {dtype!r}: use one of {', '.join(DTYPES)}")
    if to.exists() and any(to.iterdir() if to.is_dir() else [to]) and not (to / contract.FILE).is_file():
        raise ExportError(f"{to}: exists and is no export; remove it, or name another folder")
    folder = find(source)
    loaded = checkpoint.load(folder)
    if "recipe" not in loaded.state:
        raise ExportError(f"{folder}: does not say which recipe it was trained with; export a checkpoint of a training run")
    recipe = check(loaded.state["recipe"], f"{folder}: its recipe")
    to.parent.mkdir(parents=True, exist_ok=True)
    made = to.parent / f".{to.name}.tmp"
    shutil.rmtree(made, ignore_errors=True)  # of an export that was killed
    try:
        save_model(loaded.policy, made, DTYPES[dtype])
        terms = make_contract(loaded, recipe, made, dtype)
        terms.write(made)
        (made / "README.md").write_text(card(terms, recipe, folder, loaded.state), "utf-8")
        replace(made, to)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return Exported(to, folder, terms)


def find(source: Path) -> Path:
    """The checkpoint that is meant: itself, what a phase's folder selected (else its last), or that of a run's last phase."""
    if not source.is_dir():
        raise ExportError(f"{source}: there is no such folder; give a run (checkpoints/RUN) or a checkpoint in one")
    if (source / checkpoint.MANIFEST).is_file():
        return source
    for folder in (source, *(source / phase for phase in PHASES)):
        if (folder / "selected.json").is_file():
            return selected(folder)
        last = checkpoint.latest(folder)
        if last is not None:
            return last
    raise ExportError(
        f"{source}: is neither a checkpoint nor a run with one; give checkpoints/RUN, or a folder in it such as "
        "checkpoints/RUN/grpo/round-0030. Did its training save one yet?"
    )


def save_model(policy: Policy, folder: Path, dtype: torch.dtype) -> None:
    """Model, generation config and tokenizer of a policy, without its adapter; proved by reading the weights back.

    A head that shares the embedding's weights is not written: whoever loads the folder ties it again.
    """
    model = plain_model(policy, dtype)
    model.generation_config = generation_config(policy)
    model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    wanted = dict(model.named_parameters())  # a tied head comes once
    equal = {name: name in wanted and torch.equal(tensor, wanted[name]) for name, tensor in saved_tensors(folder)}
    differing = sorted((wanted.keys() - equal.keys()) | {name for name, same in equal.items() if not same})
    if differing:
        raise ExportError(
            f"{folder}: {len(differing)} of the written weights are not the merged ones ({', '.join(differing[:3])}): "
            f"models of the kind {type(model).__name__} cannot be exported with the installed transformers"
        )


def plain_model(policy: Policy, dtype: torch.dtype) -> Any:
    """The same network in `dtype` and fresh memory, an adapter merged in fp32."""
    causal = policy.model.get_base_model() if policy.base is not None else policy.model
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(copy.deepcopy(causal.config), dtype=dtype)
    weights = {name: tensor.to(dtype, copy=True).cpu() for name, tensor in lora.merged_weights(policy.model)}
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    empty = [name for name, tensor in model.state_dict().items() if tensor.is_meta]
    if empty or weights.keys() - model.state_dict().keys():
        which = empty[0] if empty else "a weight of the checkpoint"
        raise ExportError(f"{type(model).__name__}: {which} has no place in the plain model, so it cannot be exported")
    return model.eval()


def generation_config(policy: Policy) -> GenerationConfig:
    """Greedy, with the ends of the model. Nothing else: a server takes penalties and samplers of an instruct model's file as
    its defaults, and the Writer was trained without any."""
    known = policy.model.generation_config
    return GenerationConfig(
        do_sample=False, bos_token_id=known.bos_token_id, eos_token_id=known.eos_token_id, pad_token_id=known.pad_token_id
    )


def make_contract(loaded: checkpoint.Checkpoint, recipe: Recipe, made: Path, dtype: str) -> Contract:
    """Terms from the recipe and the code, and what the checkpoint itself says on the fixed chat. `made` holds the model."""
    policy, prompt = loaded.policy, WriterPrompt(recipe.writer.prompt, AutoTokenizer.from_pretrained(made))
    known = probe.Probe.of(prompt, recipe.writer.head_tokens)
    window, new_tokens = policy.model.config.max_position_embeddings, recipe.grpo.max_new_tokens
    prompt_tokens = min(recipe.writer.max_prompt_tokens, window - new_tokens)
    needed = len(known.prompt_ids)
    if prompt_tokens < needed or prompt_tokens + new_tokens < needed + probe.GREEDY + 1:
        raise ExportError(
            f"{loaded.folder}: a prompt may have {prompt_tokens} tokens and an output {new_tokens} (the recipe's limits in the "
            f"model's window of {window}), too few for a short chat of {needed} tokens: such a Writer cannot be served"
        )
    return Contract(
        run=recipe.run,
        dtype=dtype,  # type: ignore[arg-type]  # checked by the model
        prompt=contract.prompt_terms(prompt),
        action_schema=action_schema(),
        layers=contract.layers(),
        utypes=contract.utypes(),
        budget=contract.BUDGET,
        limits=contract.Limits(
            prompt_tokens=prompt_tokens,
            head_tokens=recipe.writer.head_tokens,
            heads_per_owner=MAX_HEADS_PER_OWNER,
            new_tokens=new_tokens,
        ),
        embedder=recipe.pipeline.embedder,
        turn_end_id=prompt.turn_end_id,
        pipeline_id=str(loaded.state.get("pipeline_id", "")),
        trained_on=tuple(sorted(trained_networks(loaded.folder))),
        hashes=contract.Hashes(
            weights=weights_hash(made),
            checkpoint=weights_hash(loaded.folder),
            tokenizer=contract.tokenizer_hash(made),
            recipe=contract.recipe_hash(recipe),
            data=contract.data_hash(recipe.data),
        ),
        probe=contract.ProbeTerms(
            prompt_ids=known.prompt_ids, fates=known.fates, **asdict(probe.measure(policy, known.prompt_ids))
        ),
    )


def saved_tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 not a mapping
                yield name, file.get_tensor(name)


def replace(made: Path, to: Path) -> None:
    """Rename over `to`; an older export steps aside first and goes when the new one stands."""
    aside = to.parent / f".{to.name}.old"
    shutil.rmtree(aside, ignore_errors=True)
    if to.exists():
        os.replace(to, aside)
    os.replace(made, to)
    shutil.rmtree(aside, ignore_errors=True)
