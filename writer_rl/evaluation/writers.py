"""Writers by name: `checkpoint:DIR`, `teacher` (the oracle) and `empty`; all of them are engines behind one prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.memory.actions import Noop, render
from data.network import DataError
from rollout.engines.base import Engine, RequestKey
from rollout.engines.replay import ReplayEngine
from rollout.writer.prompt import WriterPrompt
from writer_rl.cases import Case
from writer_rl.policy import Policy
from writer_rl.runtime import Runtime

GRAMMAR = "checkpoint:DIR, teacher or empty"


@dataclass(frozen=True)
class Writer:
    """Who writes: `name` labels its rows. `samples` is False where every seed gives the same memory."""

    name: str
    engine: Engine
    prompt: WriterPrompt
    samples: bool = True


def checkpoint_writer(runtime: Runtime, policy: Policy, name: str) -> Writer:
    """The policy as a Writer, generating with its live weights."""
    return Writer(name, runtime.engine(policy), runtime.prompt(policy))


def teacher_writer(cases: Sequence[Case], prompt: WriterPrompt, name: str = "teacher") -> Writer:
    """The oracle: says at every position what the teacher wrote there."""
    taught = {case.network.id: case.teacher for case in cases}

    def text(key: RequestKey) -> str:
        actions = taught[key.network]
        if actions is None:
            raise DataError(f"network {key.network}: the writer `teacher` needs a teacher trajectory, and it has none")
        return render(actions[key.t])

    return Writer(name, ReplayEngine(text, prompt), prompt, samples=False)


def empty_writer(prompt: WriterPrompt, name: str = "empty") -> Writer:
    """Never writes a record."""
    return Writer(name, ReplayEngine(lambda key: render([Noop()]), prompt), prompt, samples=False)


def open_writer(spec: str, name: str, runtime: Runtime, cases: Sequence[Case], prompt: WriterPrompt) -> Writer:
    """A Writer from its name in the grammar. `prompt` serves those that have no tokenizer of their own."""
    kind, _, rest = spec.partition(":")
    if kind == "checkpoint" and rest:
        return checkpoint_writer(runtime, runtime.policy(Path(rest)), name)
    if spec == "teacher":
        return teacher_writer(cases, prompt, name)
    if spec == "empty":
        return empty_writer(prompt, name)
    raise DataError(f"writer {spec!r}: write {GRAMMAR}")
