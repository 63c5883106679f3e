"""What `writer-rl eval` does: systems in turn over the same cases, rows appended as they come, tables from the rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from data.network import DataError
from rollout.writer.prompt import WriterPrompt
from writer_rl.cases import Case, load_cases
from writer_rl.evaluation.accuracy import final_rows
from writer_rl.evaluation.arms import Arm, Ask, ablation_arms, ask_arms, grid_arms
from writer_rl.evaluation.baseline_rows import evaluate_baseline
from writer_rl.evaluation.baselines import GRAMMAR as BASELINES
from writer_rl.evaluation.baselines import open_baseline
from writer_rl.evaluation.evaluate import evaluate
from writer_rl.evaluation.grid import draw_curves, draw_heatmap, grid_table, plain_cells
from writer_rl.evaluation.heldout import check_heldout
from writer_rl.evaluation.journal import Journal
from writer_rl.evaluation.page import page, results
from writer_rl.evaluation.rows import Row, RowFile
from writer_rl.evaluation.variants import VARIANTS
from writer_rl.evaluation.writers import GRAMMAR, Writer, open_writer
from writer_rl.recipe import Recipe
from writer_rl.runtime import Runtime, make_client

SYSTEM1 = "s1"  # the verbatim track alone: no memory, no rows
SAME_ASK = (
    "ASK: the ask role is offline, which never asks for more, so ASK on equals ASK off; reported once. Name an LLM with "
    "pipeline.ask=litellm:MODEL to report both."
)


@dataclass(frozen=True)
class Choice:
    """What to evaluate. `systems` holds (name, spec) pairs; `networks` ids of any side instead of the recipe's."""

    systems: tuple[tuple[str, str], ...]
    ask: Ask = "both"
    ablations: tuple[str, ...] = ()
    grid: bool = False
    networks: tuple[str, ...] = ()
    reference: str | None = None
    allow_unjudged: bool = False


def run(recipe: Recipe, choice: Choice, folder: Path) -> str:
    """Evaluate, write rows.jsonl, table.md and results.json to `folder`, and return the table. What the rows hold with a
    verdict already is not asked again. Errors (DataError): a spec, ablation, network or reference that is none, training
    networks of a Writer that were not named, questions without a verdict, or without evidence."""
    names = [name for name, _ in choice.systems]
    reference = choice.reference or names[0]
    if reference not in names:
        raise DataError(f"--reference {reference!r}: is none of the systems ({', '.join(names)})")
    runtime = Runtime.of(recipe)
    if any(spec.startswith("litellm:") for _, spec in choice.systems):
        runtime = replace(runtime, client=make_client(recipe, on_disk=True))
    cases = pick_cases(recipe, choice.networks)
    prompt = runtime.prompt(runtime.policy())
    rows = RowFile(folder / "rows.jsonl")
    journal = Journal(folder / "writes.jsonl")
    made: list[Row] = []
    for name, spec in choice.systems:
        made += _system(runtime, name, spec, choice, cases, prompt, rows, journal)
    writers = [name for name, spec in choice.systems if open_baseline(spec, name) is None and spec != SYSTEM1]
    cells = {arm.label(name) for name in writers for arm in grid_arms(runtime.pipeline)} if choice.grid else set()
    main = [row for row in made if row["writer"] not in cells]
    asked_on = [row["writer"] for row in main if row["system"] == reference]  # with --ask on the label says so
    text = page(main, asked_on[0], choice.allow_unjudged)
    if choice.ask != "off" and recipe.pipeline.ask == "offline":
        text += f"\n{SAME_ASK}\n"
    found = results(main, asked_on[0], choice.allow_unjudged)
    if choice.grid:
        kept, _ = final_rows(made, choice.allow_unjudged)
        text += _grids(kept, writers, folder)
        found["grid"] = {name: plain_cells(kept, name) for name in writers}
    (folder / "table.md").write_text(text, "utf-8")
    (folder / "results.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for use in runtime.client.accounting.table():  # of this call alone: the tables are of all that the rows hold
        tokens = f"{use['prompt_tokens']:,} tokens in, {use['completion_tokens']:,} out"
        tqdm.write(f"{use['stage']}: {use['attempts']} calls sent now, {tokens}, ${use['cost_usd']:.4f}")
    return text


def _grids(rows: list[Row], writers: list[str], folder: Path) -> str:
    """The grid of each Writer as a table and two figures."""
    parts = []
    for name in writers:
        parts.append(f"\n## Top-k grid of {name} (recall-n equals top-k, ASK off)\n\n{grid_table(rows, name)}\n")
        draw_curves(rows, name, folder / f"topk_curves_{name}.png")
        draw_heatmap(rows, name, folder / f"topk_heatmap_{name}.png")
    return "".join(parts)


def pick_cases(recipe: Recipe, networks: tuple[str, ...]) -> list[Case]:
    """The cases of the recipe's evaluation side; or the named ones of any side. Errors: an id on no side."""
    if not networks:
        return load_cases(recipe.data, recipe.eval.side)[: recipe.eval.limit]
    known = {case.network.id: case for side in ("train", "dev", "test") for case in load_cases(recipe.data, side)}
    unknown = [one for one in networks if one not in known]
    if unknown:
        raise DataError(f"--networks {unknown[0]}: is on no side of the recipe's split ({', '.join(sorted(known))})")
    return [known[one] for one in networks]


def _system(
    runtime: Runtime,
    name: str,
    spec: str,
    choice: Choice,
    cases: list[Case],
    prompt: WriterPrompt,
    rows: RowFile,
    journal: Journal,
) -> list[Row]:
    baseline = open_baseline(spec, name)
    if baseline is not None:
        return evaluate_baseline(runtime, baseline, cases, lambda text: len(prompt.encode(text)), rows)
    seeds = runtime.recipe.eval.seeds
    if spec == SYSTEM1:
        writer = replace(open_writer("empty", name, runtime, cases, prompt), id=SYSTEM1)
        arms = [Arm(one.pipeline, one.suffix, VARIANTS["no-s2"]) for one in ask_arms(runtime, choice.ask)]
        made = evaluate(runtime, writer, cases, seeds, arms, rows, journal)
        return [row for row in made if row["row"] == "question"]
    writer = _writer(runtime, name, spec, cases, prompt)
    check_heldout(name, writer.trained_on, cases, choice.networks)
    arms = ask_arms(runtime, choice.ask)
    arms += ablation_arms(arms[0].pipeline, choice.ablations)
    arms += grid_arms(runtime.pipeline) if choice.grid else []
    return evaluate(runtime, writer, cases, seeds, arms, rows, journal)


def _writer(runtime: Runtime, name: str, spec: str, cases: list[Case], prompt: WriterPrompt) -> Writer:
    try:
        return open_writer(spec, name, runtime, cases, prompt)
    except DataError as error:
        if spec.partition(":")[0] in ("checkpoint", "server", "litellm", "teacher", "empty"):
            raise
        raise DataError(f"--writers {name}={spec}: write {GRAMMAR}; or {SYSTEM1}, {BASELINES}") from error
