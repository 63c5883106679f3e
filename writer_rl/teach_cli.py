"""`writer-rl teach`: teacher trajectories for networks, by a large model under the Writer's own contract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from data.catalog import load_networks
from data.network import DataError, Network
from rollout.llm.accounting import Accounting
from rollout.llm.client import Client, ClientConfig, run
from rollout.memory.embedder import load_embedder
from writer_rl.data_cli import told
from writer_rl.teach.attempts import Teller
from writer_rl.teach.contract import Contract
from writer_rl.teach.folder import Folder, replace_whole
from writer_rl.teach.loop import School, Status, Taught, teach_all
from writer_rl.teach.review import page
from writer_rl.teach.statistics import Lesson, Statistics, statistics

DEADLINE = 300.0  # seconds an answer: long ones of large models
PREFIX = "litellm:"


def teach(
    networks: Annotated[str, typer.Argument(help="own, socialmem, or a file or folder of networks (see: data import).")],
    model: Annotated[str, typer.Option(help="litellm:MODEL, for example litellm:openai/gpt-4o.")],
    api_base: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server of your own.")] = None,
    to: Annotated[Path, typer.Option(help="The folder to write; recipes name it in data.sources.")] = Path("taught"),
    questions: Annotated[int, typer.Option(min=0, help="Questions to write for each network that has none.")] = 0,
    window: Annotated[int | None, typer.Option(min=2, help="Messages a segment, as data.window; none: a session.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Networks at a time.")] = 4,
    budget: Annotated[float | None, typer.Option(help="Stop at this many USD.")] = None,
    embedder: Annotated[str, typer.Option(help="minilm, or hash for tests.")] = "minilm",
) -> None:
    """Write teacher trajectories (and questions) for networks. Stopped and run again, it goes on and pays nothing twice.

    Exit code 1 where a network stays unfinished.
    """
    with told():
        listed = [network for network, _ in load_networks(networks)]
        if not model.startswith(PREFIX) or model == PREFIX:
            raise DataError(f"--model {model!r}: write {PREFIX}MODEL, for example {PREFIX}openai/gpt-4o")
        folder = Folder(to)
        folder.make()
        client = Client(ClientConfig(cache=folder.replies, concurrency=concurrency, deadline=DEADLINE, budget_usd=budget))
        teller = Teller(client, model.removeprefix(PREFIX), api_base)
        school = School(teller, load_embedder(embedder), folder, Contract(), window, questions)
        try:
            taught = _watched(school, listed, concurrency)
        finally:
            client.close()
        lessons = [Lesson.of(one.network, one.segments, one.teacher) for one in taught if one.teacher is not None]
        counted = statistics(lessons)
        _write(folder, lessons, counted, taught, client.accounting)
    _print(folder, counted, taught, client.accounting)
    if any(one.status is Status.UNFINISHED for one in taught):
        raise typer.Exit(1)


def _watched(school: School, networks: Sequence[Network], concurrency: int) -> list[Taught]:
    """Teach with a bar for each network on a terminal's stderr; it goes when the network is done."""
    err = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=err, disable=not err.is_terminal)
    bars: dict[str, Any] = {}

    def progress(network: str, done: int, total: int) -> None:
        if network not in bars:
            bars[network] = bar.add_task(network, total=total)
        bar.update(bars[network], completed=done, visible=done < total)

    with bar:
        return run(teach_all(school, networks, concurrency, progress))


def _write(folder: Folder, lessons: Sequence[Lesson], counted: Statistics, taught: Sequence[Taught], book: Accounting) -> None:
    """Statistics of all whole networks, and the review page."""
    record = {"statistics": counted.to_json(), "networks": [_row(one) for one in taught], "use": book.table()}
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    replace_whole(folder.statistics, lambda path: _save(path, text))
    html = page(lessons)
    replace_whole(folder.review, lambda path: _save(path, html))


def _save(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _row(one: Taught) -> dict[str, Any]:
    return {
        "network": one.network.id,
        "status": one.status.value,
        "segments": one.total,
        "done": one.done,
        "questions": len(one.network.questions),
        "reason": one.reason,
        "detail": one.detail,
        "fed_back": one.fed_back,
        "by_embedder": one.by_embedder,
        "not_strict": one.not_strict,
    }


def _print(folder: Folder, counted: Statistics, taught: Sequence[Taught], book: Accounting) -> None:
    out = Console(highlight=False)
    table = Table("what", "number")
    for what, number in counted.rows():
        table.add_row(Text(what), Text(number))
    out.print(table)
    for one in taught:
        if one.status is Status.UNFINISHED:
            words = f"{one.network.id}: unfinished at {one.done} of {one.total} segments ({one.reason}): {one.detail}"
            out.print(Text(" ".join(words.split()), style="red"))
    done = {status: sum(one.status is status for one in taught) for status in Status}
    out.print(Text(f"networks: {', '.join(f'{count} {status.value}' for status, count in done.items())}"))
    out.print(
        Text(
            f"answers sent back: {sum(one.fed_back for one in taught)}, "
            f"not strict JSON: {sum(one.not_strict for one in taught)}, "
            f"evidence by similarity: {sum(one.by_embedder for one in taught)}"
        )
    )
    unpriced = sum(use.unpriced for use in book.stages.values())
    cached = sum(use.cached for use in book.stages.values())
    cost = f"${book.cost_usd:.4f}" + (f" and {unpriced} calls of unknown price" if unpriced else "")
    out.print(
        Text(
            f"this run: {sum(use.attempts for use in book.stages.values())} calls, {cached} from the cache, "
            f"{book.tokens} tokens, {cost}"
        )
    )
    out.print(Text(f"{folder.review}: the review page; {folder.statistics}: these numbers; data.sources: [{folder.root}]"))
    if done[Status.UNFINISHED]:
        out.print(Text("run the same command again to go on", style="yellow"))
