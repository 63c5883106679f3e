"""`writer-rl eval`: Writers and baselines on held-out networks through the frozen pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from data.network import DataError
from writer_rl.told import told

Overrides = Annotated[list[str] | None, typer.Argument(help="key=value, for example eval.seeds=3")]


def evaluate(
    recipe: Annotated[str, typer.Argument(help="a file, or a bundled recipe's name")],
    writers: Annotated[
        str,
        typer.Option(
            help="name=spec,...; a spec is checkpoint:DIR, server:URL, litellm:MODEL, teacher, empty, or one without "
            "a Writer: s1, bm25, dense, full, full:TOKENS, abstain"
        ),
    ],
    overrides: Overrides = None,
    ask: Annotated[str, typer.Option(help="off, on or both: ASK's supplementary retrieval")] = "both",
    reference: Annotated[str | None, typer.Option(help="the name that gaps are measured from; none: the first")] = None,
    ablations: Annotated[str, typer.Option(help="no-s1,no-s2,no-group,no-person: further arms of every Writer")] = "",
    grid: Annotated[bool, typer.Option(help="the top-k grid {5,10,20} x {2,4,6} of every Writer, with two figures")] = False,
    networks: Annotated[str, typer.Option(help="ids of any side, training ones too, instead of eval.side")] = "",
    to: Annotated[Path | None, typer.Option(help="folder of rows and tables; none: eval/ of the run")] = None,
    allow_unjudged: Annotated[bool, typer.Option(help="leave questions without a verdict out, and list them")] = False,
) -> None:
    """Let Writers write the held-out networks and ask the frozen pipeline. An interrupted call goes on where it was."""
    from writer_rl import recipe as recipes
    from writer_rl.evaluation.arms import ask_mode
    from writer_rl.evaluation.command import Choice, run

    with told():
        loaded = recipes.load(recipe, overrides or [])
        chosen = Choice(named(writers), ask_mode(ask), _list(ablations), grid, _list(networks), reference, allow_unjudged)
        folder = to or loaded.folder / "eval"
        print(run(loaded, chosen, folder))
        print(f"{folder}: rows.jsonl, table.md, results.json")


def named(writers: str) -> tuple[tuple[str, str], ...]:
    """(name, spec) pairs. Errors: another form, or a name twice."""
    pairs = []
    for one in writers.split(","):
        name, _, spec = one.strip().partition("=")
        if not name or not spec:
            raise DataError(f"--writers {writers!r}: write name=spec,name=spec, for example r1=checkpoint:DIR,oracle=teacher")
        pairs.append((name, spec))
    names = [name for name, _ in pairs]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise DataError(f"--writers: the name {repeated[0]!r} stands twice; give each its own")
    return tuple(pairs)


def _list(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())
