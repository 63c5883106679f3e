"""`writer-rl teach`: teacher trajectories for networks, by a large model under the Writer's own contract."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from writer_rl.told import told


def teach(
    networks: Annotated[str, typer.Argument(help="own, socialmem, or a file or folder of networks (see: data import).")],
    model: Annotated[str, typer.Option(help="litellm:MODEL, for example litellm:openai/gpt-4o.")],
    api_base: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server of your own.")] = None,
    to: Annotated[Path, typer.Option(help="The folder to write; recipes name it in data.sources.")] = Path("taught"),
    questions: Annotated[int, typer.Option(min=0, help="Questions to write for each network that has none.")] = 0,
    window: Annotated[int | None, typer.Option(min=2, help="Messages a segment, as data.window; none: a session.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Networks at a time.")] = 4,
    budget: Annotated[float | None, typer.Option(help="Stop at this many USD; the model's price must be known.")] = None,
    embedder: Annotated[str, typer.Option(help="minilm, or hash for tests.")] = "minilm",
) -> None:
    """Write teacher trajectories (and questions) for networks. Stopped and run again, it goes on and pays nothing twice.

    Exit code 1 where a network stays unfinished, 2 for an error of the user's.
    """
    from writer_rl.teach.command import Options, execute  # heavy: tokenizers and models

    with told():
        finished = execute(Options(networks, model, api_base, to, questions, window, concurrency, budget, embedder))
    if not finished:
        raise typer.Exit(1)
