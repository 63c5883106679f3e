"""`writer-rl report RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from writer_rl.told import told


def report(
    run: Annotated[Path, typer.Argument(help="A run's folder, for example checkpoints/r1.")],
    to: Annotated[Path | None, typer.Option(help="The file to write; report.html in the run's folder where not given.")] = None,
) -> None:
    """Write one HTML page of a run: curves, evaluation, cost, and every trajectory to read. Opens without a network."""
    from writer_rl.report.page import write_report

    with told():
        path = write_report(run, to)
    typer.echo(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
