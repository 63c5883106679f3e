"""LoCoMo's ten conversations without any trained Writer: baselines through the offline roles, with LoCoMo's own F1.

python -m benchmarks.eval_locomo                 # docs/results/eval_locomo.{md,json}
python -m benchmarks.eval_locomo --file FILE     # where locomo10.json is (CC BY-NC 4.0: not part of this project)
"""

from __future__ import annotations

import argparse
from pathlib import Path

from transformers import AutoTokenizer

from benchmarks.results import write_result
from data.importers import locomo
from rollout.writer.prompt import WriterPrompt
from writer_rl.cases import make_case
from writer_rl.entry import seed_everything
from writer_rl.evaluation.baseline_rows import evaluate_baseline
from writer_rl.evaluation.baselines import Baseline, Kind
from writer_rl.evaluation.official import official_scores, official_table
from writer_rl.evaluation.page import page, results
from writer_rl.evaluation.rows import RowFile
from writer_rl.recipe import load
from writer_rl.runtime import Runtime, model_path

FILE = Path("../shared/data/locomo/locomo10.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--rows", type=Path, default=None, help="a file to keep rows in, so that a second call goes on")
    options = parser.parse_args()
    recipe = load("social_cpu")
    seed_everything(recipe.seed)
    runtime = Runtime.of(recipe)
    prompt = WriterPrompt("full", AutoTokenizer.from_pretrained(model_path(recipe), trust_remote_code=False))
    cases = [make_case(network, None, None) for network in locomo.load(options.file)]
    rows = RowFile(options.rows)
    made = []
    for kind in Kind:
        made += evaluate_baseline(runtime, Baseline(kind.value, kind), cases, lambda text: len(prompt.encode(text)), rows)
    labels = [kind.value for kind in Kind]
    scores = {label: [one.plain() for one in official_scores(made, label)] for label in labels}
    text = (
        "LoCoMo (data CC BY-NC 4.0), no Writer trained. The official score is stemmed token-F1, as the benchmark counts it by "
        "category; answers are the offline answerer's, so the numbers compare these systems with one "
        "another and with nothing published.\n\n"
        f"{official_table(made, labels)}\n\n{page(made, labels[0])}"
    )
    found = {"label": "offline, lexical", "official": scores} | results(made, labels[0])
    write_result(
        "eval_locomo", "LoCoMo's conversations through the offline roles", found, text, "python -m benchmarks.eval_locomo"
    )


if __name__ == "__main__":
    main()
