"""The contract of an exported Writer: everything beside the weights that its outputs depend on, as `writer_contract.json`.

Who serves the Writer must use the prompt, limits, parser and executor that it was trained with. The contract holds them, and
what a fixed chat gives (`writer_rl.probe`), so that another version of this code, another tokenizer or another model behind
a server is an error and not a worse memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from data.memory.records import DERIVED_LAYERS, DERIVED_UTYPES
from data.network import DataError
from data.splits import load_split
from rollout.writer.prompt import TEMPLATE_FILES, Style, WriterPrompt
from rollout.writer.view import MAX_HEADS_PER_OWNER
from writer_rl.action_schema import action_schema
from writer_rl.hashes import fingerprint
from writer_rl.probe import Probe
from writer_rl.recipe import DataSection, Recipe

FILE = "writer_contract.json"
BUDGET = "max(8, 2 * non-empty messages of the segment)"
TOKENIZER_FILES = ("tokenizer.json", "chat_template.jinja")


class ContractMismatch(DataError):
    """What serves or uses a Writer is not what it was trained with."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PromptTerms(Section):
    """`texts` are the prompt's files by name; `hash` is that of style and texts."""

    style: Style
    hash: str
    texts: dict[str, str]


class Limits(Section):
    """Tokens of a prompt, of its memory part and of an output; heads shown of one owner."""

    prompt_tokens: int
    head_tokens: int
    heads_per_owner: int
    new_tokens: int


class ProbeTerms(Section):
    """What the fixed chat gave at export: prompt [P], greedy continuation [K], its best log-probabilities [K, TOP] in fp32
    from the checkpoint, and what became of each action of the first segment's text."""

    prompt_ids: tuple[int, ...]
    fates: tuple[str, ...]
    greedy_ids: tuple[int, ...]
    top_ids: tuple[tuple[int, ...], ...]
    top_logprobs: tuple[tuple[float, ...], ...]


class Hashes(Section):
    """sha256 of the exported weights, those of the checkpoint, tokenizer and chat template, recipe and data manifest."""

    weights: str
    checkpoint: str
    tokenizer: str
    recipe: str
    data: str


class Contract(Section):
    version: Literal[1] = 1
    run: str
    dtype: Literal["float32", "bfloat16", "float16"]
    prompt: PromptTerms
    action_schema: dict[str, Any]
    layers: tuple[str, ...]
    utypes: tuple[str, ...]
    budget: str
    limits: Limits
    embedder: Literal["minilm", "hash"]
    turn_end_id: int
    pipeline_id: str
    trained_on: tuple[str, ...]  # network ids: never to be evaluated on
    hashes: Hashes
    probe: ProbeTerms

    @property
    def id(self) -> str:
        """The run's name with a hash of every term: the name that a server serves the Writer under."""
        return f"{self.run}-{digest(self.model_dump(mode='json'))[:12]}"

    def write(self, folder: Path) -> None:
        text = json.dumps({"id": self.id, **self.model_dump(mode="json")}, ensure_ascii=False, indent=1)
        (folder / FILE).write_text(text + "\n", "utf-8")


def read(folder: Path) -> Contract:
    """The contract of an export. Errors: no export, a file that was edited or is of another version, and a tokenizer or chat
    template that is not the exported one."""
    path = folder / FILE
    if not path.is_file():
        raise DataError(f"{folder}: holds no {FILE}; give a folder that `writer-rl export` wrote")
    try:
        values = json.loads(path.read_text("utf-8"))
        told = values.pop("id")
        contract = Contract.model_validate_json(json.dumps(values))
    except (ValueError, KeyError, AttributeError, ValidationError) as error:
        raise DataError(f"{path}: cannot be read as a contract ({' '.join(str(error).split())}); export again") from error
    if told != contract.id:
        raise ContractMismatch(
            f"{path}: its terms were changed after the export (they make {contract.id}, not {told}); export again"
        )
    if tokenizer_hash(folder) != contract.hashes.tokenizer:
        raise ContractMismatch(f"{folder}: tokenizer or chat template are not the exported ones; export again")
    return contract


def check_code(contract: Contract, prompt: WriterPrompt) -> None:
    """Raise ContractMismatch where the installed code would prompt, parse or execute otherwise than in training."""
    known = Probe.of(prompt, contract.limits.head_tokens)
    pairs = {
        "prompt text": (contract.prompt.hash, prompt.hash),
        "prompt tokens of a fixed chat": (contract.probe.prompt_ids, known.prompt_ids),
        "turn end": (contract.turn_end_id, prompt.turn_end_id),
        "what becomes of fixed actions": (contract.probe.fates, known.fates),
        "action schema": (contract.action_schema, action_schema()),
        "layers": (contract.layers, layers()),
        "utypes": (contract.utypes, utypes()),
        "budget rule": (contract.budget, BUDGET),
        "heads an owner": (contract.limits.heads_per_owner, MAX_HEADS_PER_OWNER),
    }
    differing = [name for name, (trained, here) in pairs.items() if trained != here]
    if differing:
        raise ContractMismatch(
            f"Writer {contract.id}: the installed version of writer-rl differs from the one that it was trained with in: "
            f"{', '.join(differing)}. Use the version that exported it, or train and export again with this one"
        )


def layers() -> tuple[str, ...]:
    return tuple(layer.value for layer in DERIVED_LAYERS)


def utypes() -> tuple[str, ...]:
    return tuple(utype.value for utype in DERIVED_UTYPES)


def prompt_terms(prompt: WriterPrompt) -> PromptTerms:
    folder = resources.files("rollout.writer") / "prompts"
    texts = {name: (folder / name).read_text("utf-8") for name in TEMPLATE_FILES[prompt.style]}
    return PromptTerms(style=prompt.style, hash=prompt.hash, texts=texts)


def tokenizer_hash(folder: Path) -> str:
    return digest({name: fingerprint(folder / name)["sha256"] for name in TOKENIZER_FILES if (folder / name).is_file()})


def recipe_hash(recipe: Recipe) -> str:
    return digest(recipe.model_dump(mode="json"))


def data_hash(section: DataSection) -> str:
    """Of what says which data were trained on: the networks of each side, or the generator's seed and settings."""
    sides: Mapping[str, Any] = {}
    if section.split is not None:
        split = load_split(section.split)
        sides = {"train": split.train, "dev": split.dev, "test": split.test}
    gym = None if section.gym is None else section.gym.model_dump(mode="json")
    return digest({"gym": gym, "split": sides, "window": section.window})


def digest(value: object) -> str:
    """sha256 over canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
