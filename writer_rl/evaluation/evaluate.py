"""The one evaluation: a Writer writes the memories of held-out networks, the frozen pipeline is asked; rows come out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace

from tqdm import tqdm

from data.memory.state import State
from data.network import DataError, Question
from rollout.engines.base import SamplingParams
from rollout.llm.client import run
from rollout.query.pipeline import Asked, Shared
from rollout.query.view import MemoryView
from rollout.writer.sampler import Episode, sample
from rollout.writer.trajectory import Trajectory
from writer_rl.cases import Case
from writer_rl.evaluation.arms import Arm
from writer_rl.evaluation.asking import asked_fields, check_evidence, network_hash, pipeline_fields, question_fields, state_hash
from writer_rl.evaluation.intrinsic import memory_row, qa_gain
from writer_rl.evaluation.journal import Journal, settings_hash
from writer_rl.evaluation.partial import lacks_score, partial_score
from writer_rl.evaluation.rows import Row, RowFile, judged, key
from writer_rl.evaluation.writers import Writer
from writer_rl.runtime import Runtime

EVALUATION_ROUND = -1  # evaluation draws other random numbers than any training round
WHOLE = 1 << 20  # tokens: more than any teacher writes at a position
CHUNK = 64  # networks that are written at once: a killed evaluation loses at most their writing


def evaluate(
    runtime: Runtime,
    writer: Writer,
    cases: Sequence[Case],
    seeds: int,
    arms: Sequence[Arm] = (),
    rows: RowFile | None = None,
    journal: Journal | None = None,
) -> list[Row]:
    """Rows of one Writer: per network and seed one row `memory`, and one row `question` for each question and arm.

    A Writer that does not sample is run once whatever `seeds` is. `arms` (none: the recipe's pipeline) share the
    memories; the first one's QA gain is in the memory rows. What `rows` holds with a verdict is not asked again.
    Errors: rows there of another Writer or pipeline; NoEvidence.
    """
    task = _Evaluation(runtime, writer, seeds, arms or [Arm(runtime.pipeline)], rows or RowFile(None), journal or Journal(None))
    return run(task.all(cases))


def evaluate_memory(runtime: Runtime, writer: Writer, cases: Sequence[Case], seeds: int) -> list[Row]:
    """Only the `memory` rows, without asking questions: the QA term of their return is 0."""
    task = _Evaluation(runtime, writer, seeds, [Arm(runtime.pipeline)], RowFile(None), Journal(None))
    by_id = {case.network.id: case for case in cases}
    rows = []
    for one in run(task.write(cases)):
        case = by_id[one.network]
        rows.append(memory_row(runtime, task.base(task.arms[0], case, one), case, one, None))
    return rows


class _Evaluation:
    def __init__(
        self, runtime: Runtime, writer: Writer, seeds: int, arms: Sequence[Arm], rows: RowFile, journal: Journal
    ) -> None:
        self.runtime, self.writer, self.arms, self.rows, self.journal = runtime, writer, list(arms), rows, journal
        self.count = seeds if writer.samples else 1
        self.labels = [arm.label(writer.name) for arm in arms]
        recipe = runtime.recipe
        longest = recipe.eval.max_new_tokens if writer.samples else WHOLE  # the oracle is never cut off
        self.params = SamplingParams(recipe.eval.temperature, recipe.eval.top_p, longest)
        window = recipe.data.window
        parts = [writer.id, writer.name, recipe.seed, asdict(self.params), recipe.writer.model_dump(), window]
        self.settings = settings_hash(parts)
        self.quiet = not runtime.accelerator.is_main_process
        self.without: dict[str, int] = dict.fromkeys(self.labels, 0)

    async def all(self, cases: Sequence[Case]) -> list[Row]:
        self._check_rows()
        planned = self.count * sum(len(case.network.questions) for case in cases)
        bar = tqdm(total=len(cases), desc=f"ask {self.writer.name}", leave=False, disable=self.quiet)
        for start in range(0, len(cases), CHUNK):
            chunk = cases[start : start + CHUNK]
            trajectories = await self.write(chunk)
            for case in chunk:
                await self._ask(case, [one for one in trajectories if one.network == case.network.id])
                for arm, label in zip(self.arms, self.labels, strict=True):
                    if not arm.variant.may_lack_evidence:
                        check_evidence(label, self.without[label], planned)
                bar.update()
        bar.close()
        ids = {case.network.id for case in cases}
        return [row for row in self.rows.of(self.labels) if row["network"] in ids and row["seed"] < self.count]

    async def write(self, cases: Sequence[Case]) -> list[Trajectory]:
        """Trajectories of every network and seed, in that order."""
        recipe = self.runtime.recipe
        hashes = {case.network.id: network_hash(case.network) for case in cases}
        episodes = [Episode(case.segments, EVALUATION_ROUND, 0, g) for case in cases for g in range(self.count)]
        positions = sum(len(episode.segments) for episode in episodes)
        stored = self.journal.engine(self.settings, hashes, episodes)
        with tqdm(total=positions, desc=f"write {self.writer.name}", leave=False, disable=self.quiet) as bar:
            trajectories = await sample(
                stored or self.writer.engine,
                episodes,
                self.writer.prompt,
                self.params,
                recipe.seed,
                support=self.runtime.support,
                embedder=self.runtime.embedder,
                prompt_limit=recipe.writer.max_prompt_tokens,
                pipeline_id=self.arms[0].pipeline.id,
                head_token_budget=recipe.writer.head_tokens,
                on_write=lambda key, write: bar.update(),
            )
        if stored is None:
            self.journal.keep(self.writer.name, self.settings, hashes, trajectories)
        return trajectories

    def base(self, arm: Arm, case: Case, trajectory: Trajectory) -> Row:
        """What every row of an arm, a network and a seed says."""
        return {
            "writer": arm.label(self.writer.name),
            "system": self.writer.name,
            "writer_id": self.writer.id,
            "settings": self.settings,
            "variant": arm.variant.label,
            "trained_on": case.network.id in self.writer.trained_on,
            "benchmark": case.network.benchmark,
            "network": case.network.id,
            "network_hash": network_hash(case.network),
            "seed": trajectory.g,
            "state_hash": state_hash(trajectory.final_state),
            **pipeline_fields(arm.pipeline),
        }

    def _check_rows(self) -> None:
        wanted = dict(zip(self.labels, (arm.pipeline.id for arm in self.arms), strict=True))
        for row in self.rows.of(self.labels):
            if row.get("writer_id", "") != self.writer.id or row["pipeline_id"] != wanted[row["writer"]]:
                raise DataError(
                    f"the rows of {row['writer']!r} were made by another Writer or through another pipeline "
                    f"({row['pipeline_id'][:12]}, now {wanted[row['writer']][:12]}); results of both do not compare: name the "
                    "Writer otherwise, or use another file"
                )

    async def _ask(self, case: Case, group: Sequence[Trajectory]) -> None:
        """All questions of a network against each memory, in every arm; what has a verdict already is left alone."""
        bases = [[self.base(arm, case, one) for one in group] for arm in self.arms]  # [arms][G]
        held = {key(row): row for row in self.rows.of(self.labels) if row["network"] == case.network.id}
        view = MemoryView.of(case.network).prepared(self.runtime.embedder)
        made = await asyncio.gather(*(self._question(case, view, one, group, bases, held) for one in case.network.questions))
        fresh = [row for rows in made for row in rows]
        held |= {key(row): row for row in fresh}
        for base in (base for arm in bases for base in arm):
            asked = [held["question", base["writer"], base["network"], base["seed"], one.id] for one in case.network.questions]
            self.without[base["writer"]] += sum(row["without_evidence"] for row in asked)
        for g, trajectory in enumerate(group):
            gain = qa_gain(list(held.values()), self.labels[0], case.network.questions, g, self.count)
            row = memory_row(self.runtime, bases[0][g], case, trajectory, gain) | {"writer_calls": self._calls(trajectory)}
            if held.get(key(row)) != row:
                fresh.append(row)
        fresh.sort(key=lambda row: (row["seed"], row["row"] == "memory"))
        self.rows.append(fresh)

    def _calls(self, trajectory: Trajectory) -> int:
        """Model calls of the writing: none where texts are only said again."""
        return len(trajectory.writes) if self.writer.samples else 0

    async def _question(
        self,
        case: Case,
        view: MemoryView,
        question: Question,
        group: Sequence[Trajectory],
        bases: Sequence[Sequence[Row]],
        held: dict[tuple[str, str, str, int, str], Row],
    ) -> list[Row]:
        """The new rows of one question. Arms of one pipeline share what does not depend on the memory."""
        rows: list[Row] = []
        shares = {}
        for index, (arm, ones) in enumerate(zip(self.arms, bases, strict=True)):
            measured = index == 0  # its rows say what the arm without records came to, for the QA gain
            due = [g for g, base in enumerate(ones) if not _done(held, base, question, measured)]
            if not due:
                continue
            if arm.pipeline.id not in shares:
                shares[arm.pipeline.id] = await arm.pipeline.share(view, question)
            shared = arm.variant.shared(shares[arm.pipeline.id])
            if due[0] > 0 or arm.pipeline.id in [one.pipeline.id for one in self.arms[:index]]:
                shared = _paid(shared)  # by the first memory of the first arm, in this call or in one before
            states = [arm.variant.state(group[g].final_state) for g in due]
            without = [State()] if measured else []  # behind the others, which pay for what it shares with them
            asked = await arm.pipeline.finish_all(shared, [*states, *without])
            baseline = {"baseline": asked[-1].verdict.kind.value} if measured else {}
            for g, one in zip(due, asked, strict=False):
                rows.append(await self._row(case, question, ones[g], one) | baseline)
        return rows

    async def _row(self, case: Case, question: Question, base: Row, asked: Asked) -> Row:
        partial = await partial_score(self.runtime, case.network.benchmark, question, asked.answer)
        fields = asked_fields(asked, keep_evidence=True)
        return base | question_fields(question) | fields | partial.fields(fields["calls"])


def _paid(shared: Shared) -> Shared:
    """The same with its calls counted elsewhere."""
    return replace(shared, calls=tuple(replace(call, cached=True) for call in shared.calls))


def _done(held: dict[tuple[str, str, str, int, str], Row], base: Row, question: Question, measured: bool) -> bool:
    """Whether the question has all that is asked of it on this very memory: a verdict, a partial score where the benchmark
    has one, and (`measured`) the verdict without records."""
    row = held.get(("question", base["writer"], base["network"], base["seed"], question.id))
    same = row is not None and (row["state_hash"], row["network_hash"]) == (base["state_hash"], base["network_hash"])
    return row is not None and same and judged(row) and not lacks_score(row) and (not measured or "baseline" in row)
