"""`writer-rl export`: a checkpoint as a folder to serve, and the proof that it is one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from data.network import DataError
from writer_rl.told import told


def export(
    source: Annotated[Path, typer.Argument(help="a run, a checkpoint in one; with --check alone: an exported folder")],
    to: Annotated[Path | None, typer.Option(help="the folder to write")] = None,
    dtype: Annotated[str, typer.Option(help="of the weights: bfloat16, float32 or float16")] = "bfloat16",
    check: Annotated[bool, typer.Option("--check", help="compare the folder with the checkpoint in a fresh process")] = False,
) -> None:
    """Write a folder that AutoModelForCausalLM and vLLM load as it is, and print how to serve it.

    With --check the folder is loaded afresh by transformers, and by vLLM where it is installed: log-probabilities and greedy
    output must be the checkpoint's, and a real segment is written.
    """
    from transformers.utils.logging import disable_progress_bar

    from writer_rl import contract, vllm_server
    from writer_rl import export as exports
    from writer_rl.export_check import check as checked

    disable_progress_bar()
    with told():
        if to is None and not check:
            raise DataError("export: name the folder to write with --to FOLDER, or check an exported one with --check")
        if to is not None:
            made = exports.export(source, to, dtype)
            typer.echo(f"{made.folder}: Writer {made.contract.id}, from {made.checkpoint}\n")
        folder = source if to is None else to
        terms = contract.read(folder)
        if check:
            for found in checked(folder):
                typer.echo(found.line())
            if not vllm_server.installed():
                typer.echo("vllm: not installed, not checked")
            typer.echo("")
        typer.echo("Serve it (GPU build of vLLM; then the CPU build, whose own script does not start):\n")
        typer.echo(f"    {vllm_server.command_line(folder, terms)}\n")
        typer.echo(f"    {vllm_server.command_line_cpu(folder, terms)}\n")
        typer.echo("Use it:\n")
        typer.echo(
            "    writer-rl memory ingest chat.jsonl --store memory.sqlite "
            f"--writer server:http://127.0.0.1:{vllm_server.PORT}#{folder}"
        )
