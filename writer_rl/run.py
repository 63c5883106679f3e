"""What a GRPO run holds between rounds: opened anew or from its last checkpoint, judged and saved after each round."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from rollout.engines.base import Engine, Managed
from rollout.engines.hf import HFEngine
from rollout.query.view import MemoryView
from rollout.writer.prompt import WriterPrompt
from writer_rl import checkpoint, parity, sft
from writer_rl.cases import Case, load_cases
from writer_rl.dealing import gathered, share
from writer_rl.evaluation.evaluate import evaluate
from writer_rl.evaluation.rows import JUDGED
from writer_rl.evaluation.writers import Writer
from writer_rl.grace import Grace, Terminated
from writer_rl.hashes import weights_hash
from writer_rl.journal import Journal, Origin, prune
from writer_rl.logbook import Logbook
from writer_rl.optimizer import build_scheduler
from writer_rl.policy import Policy
from writer_rl.recipe import Recipe, RecipeError
from writer_rl.runtime import Runtime
from writer_rl.scoring import check_verdicts
from writer_rl.selection import Table, behind, selected, within_reach, write_selection
from writer_rl.stepper import prepare
from writer_rl.watch import Watch


@dataclass
class Run:
    """`done` rounds are finished, `saved` of them in a checkpoint; `version` counts the weights that reached the engine;
    `fixed` holds the hashes of what must not change while the run lasts; `table` the held-out accuracy of judged
    checkpoints."""

    runtime: Runtime
    folder: Path
    policy: Policy
    reference: nn.Module  # pi_ref: the SFT policy, frozen
    prompt: WriterPrompt
    engine: Engine
    optimizer: AdamW
    scheduler: LambdaLR
    cases: Mapping[str, Case]
    views: Mapping[str, MemoryView]
    dev: Sequence[Case]
    fixed: Mapping[str, str]
    decode: Callable[[Sequence[int]], str]
    logbook: Logbook = field(init=False)
    grace: Grace = field(default_factory=Grace)
    done: int = 0
    saved: int = 0
    version: int = 0
    proof: float = 0.0  # the parity gate's largest difference behind the last sync
    watch: Watch = field(default_factory=Watch)
    table: Table = field(default_factory=list)

    @classmethod
    def open(cls, recipe: Recipe) -> Run:
        """A new run from the SFT checkpoint, or the run in the recipe's folder as its last whole checkpoint left it."""
        runtime = Runtime.of(recipe)
        folder = recipe.folder / "grpo"
        start = Path(recipe.grpo.init_from) if recipe.grpo.init_from else selected(recipe.folder / "sft")
        with runtime.accelerator.main_process_first():
            checkpoint.mend(folder)
        resumed = checkpoint.latest(folder)
        policy = runtime.trained_policy(resumed or start)
        reference = runtime.reference(policy, start)
        steps = recipe.grpo.rounds * recipe.grpo.epochs
        rates = (recipe.grpo.lr, recipe.grpo.weight_decay, recipe.grpo.max_grad_norm)
        optimizer = prepare(policy, *rates, runtime.autocast, runtime.accelerator)
        cases = {case.network.id: case for case in load_cases(recipe.data, "train")}
        made = cls(
            runtime=runtime,
            folder=folder,
            policy=policy,
            reference=reference,
            prompt=runtime.prompt(policy),
            engine=runtime.engine(policy),
            optimizer=optimizer,
            scheduler=build_scheduler(optimizer, recipe.grpo.schedule, steps, recipe.grpo.warmup_steps),
            cases=cases,
            views={name: MemoryView.of(case.network).prepared(runtime.embedder) for name, case in cases.items()},
            dev=_dev(recipe),
            fixed={"reference": weights_hash(start), "pipeline_id": runtime.pipeline.id},
            decode=partial(policy.tokenizer.decode, clean_up_tokenization_spaces=False),
        )
        if resumed is not None:
            made._resume(resumed)
        else:
            made._tidy()
        if made.main:
            recipe.keep("grpo")
        made.logbook = Logbook(recipe.folder, "grpo", made.done, runtime.accelerator.is_main_process)
        made.proof = parity.sync(made.engine, policy, made.prompt, made.version)
        return made

    @property
    def main(self) -> bool:
        """Whether this is rank 0, which alone writes and tells."""
        return self.runtime.accelerator.is_main_process

    @property
    def name(self) -> str:
        """The checkpoint of the rounds that are done."""
        return f"round-{self.done:04d}"

    @property
    def journals(self) -> Path:
        return self.runtime.recipe.folder / "journal"

    def rounds(self) -> Iterator[int]:
        """The rounds that are still to do, from 0, until the recipe's number is reached or its patience is spent."""
        section = self.runtime.recipe.grpo
        while self.done < section.rounds and (section.patience is None or behind(self.table, "accuracy") < section.patience):
            yield self.done

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Inside, a SIGTERM ends the run: rounds that are whole are saved first, the round in progress is in its journal."""
        with self.grace:
            try:
                yield
            except Terminated:
                self.grace.hold()
                if self.done > self.saved and self.runtime.accelerator.num_processes == 1:
                    self.save()
                print(f"SIGTERM: ended; {self.saved} rounds are saved, the same command goes on from there", file=sys.stderr)
                raise
            finally:
                if isinstance(self.engine, Managed):
                    self.engine.close()

    @contextmanager
    def journal(self, index: int) -> Iterator[tuple[Journal, Engine]]:
        """The journal of a round, and the engine behind it."""
        shaping = [sft.shaping(self.runtime.recipe), dict(self.fixed)]
        digest = hashlib.sha256(json.dumps(shaping).encode()).hexdigest()
        place = (self.runtime.accelerator.process_index, self.runtime.accelerator.num_processes)
        journal = Journal(self.journals, Origin(index, self.version, digest, *place))
        try:
            yield journal, journal.engine(self.engine, ticks=isinstance(self.engine, HFEngine))
        finally:
            journal.close()

    def sync(self) -> None:
        """The new weights reach the engine, with proof."""
        self.version += 1
        self.proof = parity.sync(self.engine, self.policy, self.prompt, self.version)

    def rest(self) -> None:
        """The engine leaves the memory of a shared device to the trainer; the next sync or rollout wakes it."""
        if isinstance(self.engine, Managed):
            asyncio.run(self.engine.sleep())

    def finish(self, done: int) -> None:
        """After round number `done` (from 1): judge on held-out networks and save, where the recipe says so. From here on
        a SIGTERM ends the run at once again."""
        self.done, section = done, self.runtime.recipe.grpo
        judged = bool(section.eval_every) and done % section.eval_every == 0
        if judged:
            self.table.append(judge(self.runtime, Writer("r1", self.engine, self.prompt), self.dev, done))
        if judged or done % section.save_every == 0 or done == section.rounds:
            self.save()
        self.grace.release()

    def save(self) -> None:
        """A checkpoint of the rounds that are done; their journals are no longer needed then."""
        state = {
            "round": self.done,
            "weights_version": self.version,
            "watch": asdict(self.watch),
            "table": self.table,
            "recipe": self.runtime.recipe.model_dump(),
            **self.fixed,
        }
        steppers = (self.optimizer, self.scheduler)
        checkpoint.save(self.folder / self.name, self.policy, *steppers, state, self.runtime.accelerator)
        self._tidy()

    def _tidy(self) -> None:
        """Behind a whole checkpoint: the choice among all, the last k, and no journal of what it holds."""
        self.saved = self.done
        if not self.main:
            return
        if self.table:
            write_selection(self.folder, self.table, by="accuracy")
        spare = [selected(self.folder).name] if self.table else ()
        checkpoint.keep_last(self.folder, self.name, self.runtime.recipe.grpo.keep, spare)
        prune(self.journals, self.done)

    def close(self) -> Path:
        """The chosen checkpoint: the best of the judged ones, else the last."""
        self.logbook.close()
        return selected(self.folder) if self.table else checkpoint.latest(self.folder) or self.folder

    def _resume(self, folder: Path) -> None:
        state = checkpoint.load_state(folder)
        sft.check_same_run(state, self.runtime.recipe, folder)
        check_frozen(state, self.fixed, folder)
        self.done, self.version = state["round"], state["weights_version"]
        self.table = within_reach(state["table"], self.folder, "accuracy")
        self.watch = Watch(**state["watch"])
        checkpoint.restore_trainer(folder, self.optimizer, self.scheduler, self.runtime.accelerator)
        self.runtime.accelerator.wait_for_everyone()  # what is tidied away may still be read
        self._tidy()  # the run may have been killed right behind the save


def check_frozen(state: Mapping[str, Any], fixed: Mapping[str, str], folder: Path) -> None:
    """A run goes on against the reference policy and the query pipeline that it was begun with."""
    changed = [name for name, value in fixed.items() if state[name] != value]
    if changed:
        raise RecipeError(
            f"{folder}: the {' and the '.join(changed)} is not what this run was begun with, so its rounds would not compare; "
            "restore it, or begin anew under another `run` name"
        )


def judge(runtime: Runtime, writer: Writer, dev: Sequence[Case], done: int) -> dict[str, Any]:
    """A checkpoint's row in the selection table: held-out QA accuracy, and Phi and return beside it. Raises TooManyUnjudged
    where too few questions have a verdict to choose by."""
    rows = gathered(evaluate(runtime, writer, share(dev, runtime.accelerator), seeds=1), runtime.accelerator)
    memories = [row for row in rows if row["row"] == "memory"]
    asked = [row["verdict"] for row in rows if row["row"] == "question"]
    verdicts = [verdict for verdict in asked if verdict in JUDGED]
    check_verdicts(len(asked) - len(verdicts), len(asked), f"the evaluation behind round {done}")
    means = {name: sum(row[name] for row in memories) / len(memories) for name in ("phi", "return")}
    accuracy = verdicts.count("correct") / len(verdicts)
    return {"checkpoint": f"round-{done:04d}", "accuracy": accuracy, "questions": len(verdicts), **means}


def _dev(recipe: Recipe) -> list[Case]:
    if not recipe.grpo.eval_every:
        return []
    dev = load_cases(recipe.data, "dev")
    if not any(case.network.questions for case in dev):
        raise RecipeError("grpo.eval_every is set, but the split has no dev networks with questions; set it to 0")
    return dev
