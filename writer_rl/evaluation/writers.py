"""Writers by name: `checkpoint:DIR`, `server:URL`, `litellm:MODEL`, `teacher` (the oracle) and `empty`: engines behind one
prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from data.memory.actions import Noop, render
from data.network import DataError
from rollout.engines.base import Engine, RequestKey
from rollout.engines.replay import ReplayEngine
from rollout.writer.prompt import WriterPrompt
from writer_rl.cases import Case
from writer_rl.evaluation.heldout import trained_networks
from writer_rl.evaluation.llm_writer import ChatPrompt, LLMWriterEngine
from writer_rl.evaluation.server_writer import open_server
from writer_rl.hashes import weights_hash
from writer_rl.policy import Policy
from writer_rl.runtime import Runtime

GRAMMAR = "checkpoint:DIR, server:URL, litellm:MODEL, teacher or empty"


@dataclass(frozen=True)
class Writer:
    """Who writes: `name` labels its rows, `id` says what stands behind the name. `samples` is False where every seed gives
    the same memory. `trained_on` holds the ids of the networks that it was trained on."""

    name: str
    engine: Engine
    prompt: WriterPrompt
    samples: bool = True
    id: str = ""
    trained_on: frozenset[str] = frozenset()


def checkpoint_writer(runtime: Runtime, policy: Policy, name: str) -> Writer:
    """The policy as a Writer, generating with its live weights."""
    return Writer(name, runtime.live_engine(policy), runtime.prompt(policy))


def teacher_writer(cases: Sequence[Case], prompt: WriterPrompt, name: str = "teacher") -> Writer:
    """The oracle: says at every position what the teacher wrote there."""
    taught = {case.network.id: case.teacher for case in cases}

    def text(key: RequestKey) -> str:
        actions = taught[key.network]
        if actions is None:
            raise DataError(f"network {key.network}: the writer `teacher` needs a teacher trajectory, and it has none")
        return render(actions[key.t])

    return Writer(name, ReplayEngine(text, prompt), prompt, samples=False, id="teacher")


def empty_writer(prompt: WriterPrompt, name: str = "empty") -> Writer:
    """Never writes a record."""
    return Writer(name, ReplayEngine(lambda key: render([Noop()]), prompt), prompt, samples=False, id="empty")


def open_writer(spec: str, name: str, runtime: Runtime, cases: Sequence[Case], prompt: WriterPrompt) -> Writer:
    """A Writer from its name in the grammar. `prompt` serves those that have no tokenizer of their own."""
    kind, _, rest = spec.partition(":")
    if kind == "checkpoint" and rest:
        folder = Path(rest)
        made = checkpoint_writer(runtime, runtime.policy(folder), name)
        return replace(made, id=f"checkpoint:{weights_hash(folder)[:16]}", trained_on=trained_networks(folder))
    if kind == "server" and rest:
        served, own, terms = open_server(rest, runtime.recipe)
        return Writer(name, served, own, id=f"server:{terms.id}", trained_on=frozenset(terms.trained_on))
    if kind == "litellm" and rest:
        chat = ChatPrompt.like(prompt)
        engine = LLMWriterEngine(runtime.client, rest, chat, runtime.recipe.pipeline.api_base)
        return Writer(name, engine, chat, id=f"{spec} {runtime.recipe.pipeline.api_base or ''}".strip())
    if spec == "teacher":
        return teacher_writer(cases, prompt, name)
    if spec == "empty":
        return empty_writer(prompt, name)
    raise DataError(f"writer {spec!r}: write {GRAMMAR}")
