"""The ten real networks without any trained Writer: oracle, empty, baselines and ablations through the offline roles.

python -m benchmarks.eval_real                  # docs/results/eval_real.{md,json} and topk_grid.*
python -m benchmarks.eval_real --networks DIR   # where the SocialMemBench networks are
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from benchmarks.results import RESULTS, write_result
from data.catalog import load_networks
from rollout.writer.prompt import WriterPrompt
from writer_rl.cases import Case, make_case
from writer_rl.entry import seed_everything
from writer_rl.evaluation.accuracy import accuracy, correct, questions_of, systems
from writer_rl.evaluation.arms import GRID_K, GRID_TOP_K, Arm, ablation_arms, grid_arms
from writer_rl.evaluation.baseline_rows import evaluate_baseline
from writer_rl.evaluation.baselines import Baseline, Kind
from writer_rl.evaluation.evaluate import evaluate
from writer_rl.evaluation.grid import draw_curves, draw_heatmap, grid_table, plain_cells
from writer_rl.evaluation.journal import Journal
from writer_rl.evaluation.memories import evidence_recall
from writer_rl.evaluation.page import page, results
from writer_rl.evaluation.rows import Row, RowFile
from writer_rl.evaluation.statistics import wilson
from writer_rl.evaluation.variants import VARIANTS
from writer_rl.evaluation.writers import empty_writer, teacher_writer
from writer_rl.recipe import load
from writer_rl.runtime import Runtime, model_path

COMMAND = "python -m benchmarks.eval_real"
NETWORKS = Path("../shared/data/socialmem/networks")
NOTE = " (offline roles: lexical)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=Path, default=NETWORKS)
    parser.add_argument("--rows", type=Path, default=None, help="a file to keep rows in, so that a second call goes on")
    options = parser.parse_args()
    recipe = load("social_cpu", [f"data.socialmem={options.networks}"])
    seed_everything(recipe.seed)
    runtime = Runtime.of(recipe)
    prompt = WriterPrompt("full", AutoTokenizer.from_pretrained(model_path(recipe), trust_remote_code=False))
    cases = [make_case(network, teacher, None) for network, teacher in load_networks("socialmem", options.networks)]
    rows = measure(runtime, prompt, cases, RowFile(options.rows))
    grid = {row["writer"] for row in rows if "top-k" in row["writer"]}
    main_rows = [row for row in rows if row["writer"] not in grid]
    text = (
        "The ten SocialMemBench networks that the paper trained on (data CC BY 4.0), no Writer trained. `oracle` is the "
        "teacher's memory, `empty` a memory without derived records, `s1` the verbatim track alone (Recall, Select, Expand), "
        "`dense` the cosine order without Select.\n\n"
        f"{page(main_rows, 'oracle')}\n## Evidence recall by question type (recall-n / top-k / cited by rows)\n\n"
        f"{by_type(main_rows)}"
    )
    found = results(main_rows, "oracle") | {"label": "offline, lexical", "by_type": type_numbers(main_rows)}
    write_result("eval_real", "Ten real networks through the offline roles", found, text, COMMAND)
    write_grid(rows)


def measure(runtime: Runtime, prompt: WriterPrompt, cases: list[Case], rows: RowFile) -> list[Row]:
    """Every system's rows. Nothing is sampled, so each is asked once."""
    pipeline = runtime.pipeline
    oracle_arms = [Arm(pipeline), *ablation_arms(pipeline, list(VARIANTS)), *grid_arms(pipeline)]
    oracle = replace(teacher_writer(cases, prompt, "oracle"), id="teacher")
    made = evaluate(runtime, oracle, cases, 1, oracle_arms, rows, Journal(None))
    made += evaluate(runtime, empty_writer(prompt), cases, 1, [Arm(pipeline)], rows)
    alone = evaluate(runtime, empty_writer(prompt, "s1"), cases, 1, [Arm(pipeline, "", VARIANTS["no-s2"])], rows)
    made += [row for row in alone if row["row"] == "question"]
    for kind in Kind:
        made += evaluate_baseline(runtime, Baseline(kind.value, kind), cases, lambda text: len(prompt.encode(text)), rows)
    return made


def type_numbers(rows: list[Row]) -> dict[str, Any]:
    """System -> question type -> n, accuracy with Wilson interval, evidence recall."""
    made: dict[str, Any] = {}
    for label in systems(rows):
        kinds = sorted({row["type"] for row in questions_of(rows, label)})
        made[label] = {}
        for kind in kinds:
            ones = [row for row in questions_of(rows, label) if row["type"] == kind]
            share = wilson(sum(map(correct, ones)), len(ones))
            numbers = {"n": len(ones), "accuracy": share.mean, "ci": [share.low, share.high]}
            made[label][kind] = numbers | {"evidence": evidence_recall(rows, label, kind)}
    return made


def by_type(rows: list[Row]) -> str:
    numbers = type_numbers(rows)
    kinds = sorted({kind for found in numbers.values() for kind in found})
    lines = ["| System | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for label, found in numbers.items():
        cells = [found[kind]["evidence"] for kind in kinds]
        shown = [f"{one['recall_n']:.2f} / {one['top_k']:.2f} / {one['rows']:.2f}" if one["n"] else "" for one in cells]
        lines.append(f"| {label} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def write_grid(rows: list[Row]) -> None:
    draw_curves(rows, "oracle", RESULTS / "topk_grid_curves.png", NOTE)
    draw_heatmap(rows, "oracle", RESULTS / "topk_grid_heatmap.png", NOTE)
    text = (
        "The teacher's memories of the ten networks, ASK off, source-k 1, recall-n equal to top-k. Accuracy / token-F1 in %, "
        "of the offline roles: lexical, not comparable with a judged grid.\n\n"
        f"{grid_table(rows, 'oracle')}\n\n![Response curves](topk_grid_curves.png)\n\n![Grid](topk_grid_heatmap.png)"
    )
    result = {
        "label": "offline, lexical",
        "top_k": list(GRID_TOP_K),
        "k": list(GRID_K),
        "cells": plain_cells(rows, "oracle"),
        "questions": accuracy(rows, "oracle").total[0],
    }
    write_result("topk_grid", "Retrieval budgets: System 1 top-k against System 2 k", result, text, COMMAND)


if __name__ == "__main__":
    main()
