"""The policy: a causal language model and its tokenizer, loaded so that it can be trained as a Writer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from data.network import DataError
from writer_rl import lora
from writer_rl.batches import TokenPair, batch_of
from writer_rl.logprobs import completion_logprobs

PROBE = "Zq7 probe Zq7"  # stands for an assistant's turn where the chat template's turn end is looked up
LOADING_ERRORS = (OSError, ValueError, KeyError, RuntimeError, SafetensorError)


class PolicyError(DataError):
    """A model or tokenizer that cannot serve as a Writer."""


@dataclass(frozen=True)
class Policy:
    """A Hugging Face causal model and its tokenizer. `base` says what the model's adapter stands on, where it has one."""

    model: Any  # PreTrainedModel, or a PEFT model around one
    tokenizer: Any  # PreTrainedTokenizerBase
    base: lora.Base | None = None

    @cached_property
    def turn_end_id(self) -> int:
        """The token that ends an assistant's turn in the chat template; part of every completion that is not cut off."""
        return _turn_end_id(self.tokenizer)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


def load_policy(path_or_name: str | Path, dtype: str = "float32", revision: str | None = None) -> Policy:
    """A model folder, or a name (and revision) of the Hugging Face hub, from its cache where that is offline.

    A folder with an adapter gives a PEFT model on the base that the folder names. Weights are safetensors and nothing else;
    no code of a model repository is run. Float32 makes the master weights: at lr 1e-6 a bf16 master loses nearly every
    step. Dropout is off (the ratio to the old policy needs the same network in each forward), and the turn-end token ends a
    generation. Raises PolicyError naming the path and what is missing: files, weights, a chat template, a turn-end token, or
    a head whose logits are not plain; LoraError where an adapter does not fit its base.
    """
    folder = Path(path_or_name)
    if lora.is_adapter(folder):
        base = lora.read_base(folder)
        below = load_policy(base.path, dtype, base.revision)
        wrapped = lora.attach(below.model, folder)
        _switch_dropout_off(wrapped)
        return Policy(wrapped, below.tokenizer, base)
    where = _checked_folder(path_or_name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, revision=revision, trust_remote_code=False)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            where,
            revision=revision,
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except LOADING_ERRORS as error:
        told = " ".join(str(error).split())
        fetch = "" if Path(where).exists() else f". If it is a hub model that is not here yet: hf download {where}"
        raise PolicyError(f"{where}: cannot be loaded as a causal language model with its tokenizer: {told}{fetch}") from error
    model, info = loaded
    absent = sorted(map(str, [*info["missing_keys"], *info["mismatched_keys"]]))
    if absent:
        raise PolicyError(
            f"{where}: the weights do not fit the config: {len(absent)} tensors are missing or have another shape "
            f"({', '.join(absent[:3])}, ...); the folder is incomplete or mixes two models, so fetch or save it again"
        )
    policy = Policy(model, tokenizer)
    try:
        turn_end = policy.turn_end_id
    except PolicyError as error:
        raise PolicyError(f"{where}: {error}") from None
    if not _head_is_plain(model):
        raise PolicyError(
            f"{where}: {type(model).__name__} changes its logits after the head (scaling or soft-capping), which the "
            "log-probabilities here do not; use a model without, such as Qwen2 or Llama"
        )
    _switch_dropout_off(model)
    _end_generation_at(model, turn_end)
    return policy


def with_adapter(policy: Policy, where: str | Path, r: int, alpha: int, targets: str | Sequence[str], seed: int) -> Policy:
    """A plain policy that was loaded from `where`, with a fresh adapter to train on it. Raises LoraError."""
    commit = getattr(policy.model.config, "_commit_hash", None)  # of a hub model: the revision that is really here
    base = lora.base_of(str(where), commit, policy.model)
    return Policy(lora.wrap(policy.model, r, alpha, targets, seed), policy.tokenizer, base)


def reference_of(policy: Policy) -> Any:
    """A frozen copy of the policy's model in eval mode: pi_ref, when taken before the first step of GRPO."""
    reference = copy.deepcopy(policy.model).requires_grad_(False).eval()
    reference.zero_grad(set_to_none=True)
    return reference


def _checked_folder(path_or_name: str | Path) -> str:
    """The folder or name as a string; what a folder lacks is said before a library gets to guess at it."""
    where = str(path_or_name)
    folder = Path(where).expanduser()
    if not folder.exists():
        if isinstance(path_or_name, Path) or where.startswith((".", "/", "~")) or where.count("/") > 1:
            raise PolicyError(
                f"{where}: there is no such folder; give a model folder or a name such as Qwen/Qwen2.5-3B-Instruct"
            )
        return where
    if not folder.is_dir():
        raise PolicyError(f"{where}: is a file; give the folder that holds config.json, the weights and the tokenizer")
    needed = {
        "config.json": "config.json",
        "*.safetensors": "weights as *.safetensors",
        "tokenizer*": "a tokenizer (tokenizer.json, tokenizer_config.json)",
    }
    missing = [what for pattern, what in needed.items() if not any(folder.glob(pattern))]
    if missing:
        raise PolicyError(
            f"{where}: is not a model folder: it lacks {'; '.join(missing)}. Give a folder written by save_pretrained of "
            "both the model and its tokenizer"
        )
    return str(folder)


def _turn_end_id(tokenizer: Any) -> int:
    """The first token after an assistant's content, as the chat template writes it. Raises PolicyError without one."""
    if not tokenizer.chat_template:
        raise PolicyError("the tokenizer has no chat template; use an instruct model, or add chat_template.jinja to the folder")
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": PROBE}]
    tail = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(PROBE)[2].lstrip()
    ids = tokenizer.encode(tail, add_special_tokens=False)
    special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    if not ids or ids[0] not in special:
        raise PolicyError(
            f"the chat template ends an assistant's turn with {tail!r}, which is not a special token of the tokenizer; a "
            "Writer could not learn to stop: end the turn with a special token (as <|im_end|> does)"
        )
    return ids[0]


def _head_is_plain(model: Any) -> bool:
    """True if the head's output is the logits: checked on five tokens rather than by a list of architectures."""
    ids = torch.arange(1, 6, device=model.device) % model.config.vocab_size
    batch = batch_of([TokenPair(tuple(ids[:2].tolist()), tuple(ids[2:].tolist()))], [0]).to(model.device)
    training = model.training
    model.eval()
    with torch.no_grad():
        dense = model(input_ids=ids[None], use_cache=False).logits[0, 1:-1].float().log_softmax(-1)
        own = completion_logprobs(model, batch)[0]
    model.train(training)
    return torch.allclose(own, dense.gather(-1, ids[2:, None])[:, 0], atol=1e-3)


def _switch_dropout_off(model: nn.Module) -> None:
    module: Any
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0


def _end_generation_at(model: Any, turn_end: int) -> None:
    """Instruct models name it already; a base model with a chat template names its end of text only."""
    ends = model.generation_config.eos_token_id
    known = [ends] if isinstance(ends, int) else list(ends or [])
    if turn_end not in known:
        model.generation_config.eos_token_id = [turn_end, *known]
