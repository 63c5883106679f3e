"""One `writer-rl teach` from options to files and words: the bars, the statistics, the page, the cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from data.catalog import load_networks
from data.network import DataError, Network
from rollout.llm.accounting import Accounting
from rollout.llm.client import Client, ClientConfig, run
from rollout.memory.embedder import load_embedder
from writer_rl.teach.attempts import Teller
from writer_rl.teach.contract import Contract
from writer_rl.teach.folder import Folder, replace_whole
from writer_rl.teach.loop import School, Status, Taught, teach_all
from writer_rl.teach.review import page
from writer_rl.teach.statistics import Lesson, Statistics, statistics

DEADLINE = 300.0  # seconds an answer: long ones of large models
PREFIX = "litellm:"


@dataclass(frozen=True)
class Options:
    """What the command line gives; see `writer-rl teach --help`."""

    networks: str
    model: str
    api_base: str | None
    to: Path
    questions: int
    window: int | None
    concurrency: int
    budget_usd: float | None
    embedder: str


def execute(options: Options) -> bool:
    """Teach, write, and print; True where every network is finished. Errors: DataError."""
    listed = [network for network, _ in load_networks(options.networks)]
    if not options.model.startswith(PREFIX) or options.model == PREFIX:
        raise DataError(f"--model {options.model!r}: write {PREFIX}MODEL, for example {PREFIX}openai/gpt-4o")
    embedder, folder = load_embedder(options.embedder), Folder(options.to)
    folder.make()
    limits = ClientConfig(folder.replies, options.concurrency, DEADLINE, budget_usd=options.budget_usd)
    client = Client(limits)
    teller = Teller(client, options.model.removeprefix(PREFIX), options.api_base)
    school = School(teller, embedder, folder, Contract(), options.window, options.questions)
    try:
        taught = _watched(school, listed, options.concurrency)
    finally:
        client.close()
    lessons = [Lesson.of(one.network, one.segments, one.teacher) for one in taught if one.teacher is not None]
    counted = statistics(lessons)
    _write(folder, lessons, counted, taught, client.accounting)
    _print(folder, counted, taught, client.accounting)
    return not any(one.status is Status.UNFINISHED for one in taught)


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
