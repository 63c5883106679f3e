"""The model card of an export: what it is, how to serve it, and what was measured of the checkpoint that it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from writer_rl.contract import Contract
from writer_rl.evaluation.accuracy import UnjudgedQuestions
from writer_rl.evaluation.rows import Row, latest_rows
from writer_rl.evaluation.summary import table
from writer_rl.recipe import Recipe
from writer_rl.vllm_server import command_line

HUB = {"smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct"}  # what the recipes' own names stand for
BESIDE = ("teacher", "empty")  # Writers that scores are read against

CARD = """---
library_name: transformers
pipeline_tag: text-generation
{base_line}tags: [writer-rl, group-chat-memory]
---

# {run}

A Writer: it reads one segment of a group chat and the current memory, and answers with ADD, UPDATE or NOOP actions as one
JSON object. Trained with writer-rl from {base}, phase {phase}, checkpoint `{checkpoint}`; weights in {dtype}. Its licence is
that of the model it was trained from.

## Use

Start the server in the folder that holds this one, then write a memory with it:

    {serve}
    writer-rl memory ingest chat.jsonl --store memory.sqlite --writer server:http://127.0.0.1:8000

It works only with the prompt and limits of its training, which `writer_contract.json` holds and which `server:URL` keeps to:
{style} prompt, up to {prompt_tokens} tokens of which {head_tokens} of memory, up to {new_tokens} new tokens, greedy.

## Measured

{measured}

## Made of

| | |
|---|---|
| contract | `{id}` |
| prompt | `{prompt_hash}` |
| weights | `{weights}` |
| recipe | `{recipe_hash}` |
| data manifest | `{data_hash}` ({networks} training networks) |
| query pipeline | `{pipeline}` |
"""


def card(terms: Contract, recipe: Recipe, checkpoint: Path, state: Mapping[str, Any]) -> str:
    """Markdown with the front matter that model hubs read. Folders of this machine are named by their last part only."""
    base = HUB.get(recipe.model.path, recipe.model.path)
    public = not Path(base).exists() and base.count("/") == 1 and not base.startswith(".")
    limits = terms.limits
    return CARD.format(
        base_line=f"base_model: {base}\n" if public else "",
        base=f"`{base if public else Path(base).name}`",
        run=recipe.run,
        phase=checkpoint.parent.name,
        checkpoint=checkpoint.name,
        dtype=terms.dtype,
        serve=command_line(Path(recipe.run), terms),
        style=terms.prompt.style,
        prompt_tokens=limits.prompt_tokens,
        head_tokens=limits.head_tokens,
        new_tokens=limits.new_tokens,
        measured="\n\n".join(measured(terms.hashes.checkpoint, checkpoint, state)),
        id=terms.id,
        prompt_hash=terms.prompt.hash[:16],
        weights=terms.hashes.weights[:16],
        recipe_hash=terms.hashes.recipe[:16],
        data_hash=terms.hashes.data[:16],
        networks=len(terms.trained_on),
        pipeline=terms.pipeline_id[:16],
    )


def measured(weights: str, checkpoint: Path, state: Mapping[str, Any]) -> list[str]:
    """A paragraph an evaluation of these very weights that lies in the run's folder, and the row of its selection."""
    run = checkpoint.parent.parent
    parts = []
    for path in sorted(run.glob("eval/**/rows.jsonl")):
        text = _evaluation(latest_rows(path), f"checkpoint:{weights[:16]}")
        if text:
            parts.append(f"Evaluation `{path.parent.relative_to(run)}` (mean [95 % interval over networks]):\n\n{text}")
    judged = [row for row in state.get("table", []) if row["checkpoint"] == checkpoint.name]
    values = [f"{name} {value:.3f}" for row in judged for name, value in row.items() if isinstance(value, float)]
    if values:
        parts.append(f"On the development networks that chose the checkpoint: {', '.join(values)}.")
    return parts or ["Nothing was measured of this checkpoint yet: `writer-rl eval` writes the tables."]


def _evaluation(rows: Sequence[Row], writer_id: str) -> str:
    """The summary table of a Writer beside the oracle and an empty memory; "" where the rows are of others."""
    names = sorted({row["writer"] for row in rows if row.get("writer_id") == writer_id and not row.get("variant")})
    if not names:
        return ""
    present = {row["writer"] for row in rows}
    try:
        text = table(rows, [*names, *(one for one in BESIDE if one in present)])
    except UnjudgedQuestions as error:
        return f"No table: {error}."
    if any(row.get("offline") for row in rows):
        text += "\n\nAnswers and verdicts are of the offline roles: lexical, not comparable with judged scores."
    return text
