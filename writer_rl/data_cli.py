"""`writer-rl data`: fetch benchmarks, import chats, check and count networks. Errors are one paragraph and exit code 2."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from data.catalog import load_networks
from data.checks import Level, Report, Row, Tokenizer, check, unreadable
from data.importers import FORMATS, Imported, import_chat
from data.importers.detect import detect
from data.network import DataError
from data.saved import save_network
from data.sources import NAMES
from data.sources import fetch as fetch_source
from data.stats import draw
from data.stats import stats as count
from writer_rl.teach.folder import file_name
from writer_rl.told import told

app = typer.Typer(help="Networks: fetch, import, check, stats.", no_args_is_help=True)

PATH_HELP = "own, socialmem, a folder of networks, or a chat export or benchmark in a known format."
COLOURS = {Level.INFO: "", Level.WARNING: "yellow", Level.ERROR: "red"}
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help=", ".join(NAMES))],
    to: Annotated[Path | None, typer.Option(help="The folder; none: the user's cache folder.")] = None,
) -> None:
    """Fetch a benchmark: its licence is shown, the revision pinned, checksums kept."""
    with told():
        folder = fetch_source(name, to, typer.echo)
    typer.echo(str(folder))


@app.command("check")
def check_path(
    path: Annotated[str, typer.Argument(help=PATH_HELP)],
    heldout: Annotated[str | None, typer.Option(help="Networks that must share nothing with PATH.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="The Writer's folder: counts tokens with its tokenizer.")] = None,
    window: Annotated[int | None, typer.Option(help="Messages a segment, where tokens are counted.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="A segment above this is an error.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check networks: schema, roster, times, duplicates, leaks, question kinds, token lengths. Exit code 1 on errors."""
    with told():
        counter = _tokenizer(tokenizer) if tokenizer is not None else None
        try:
            train, aside = _networks(path)
            other, aside_too = _networks(heldout) if heldout is not None else (Imported(()), [])
        except Unreadable as error:
            report = unreadable(error)
        else:
            report = check(train.networks, other.networks, counter, window, max_tokens)
            report = Report((*aside, *aside_too, *report.rows))
    if as_json:
        typer.echo(json.dumps({"failed": report.failed, "rows": [asdict(row) for row in report.rows]}, ensure_ascii=False))
    else:
        _print_report(report)
    if report.failed:
        raise typer.Exit(report.exit_code)


@app.command()
def stats(
    path: Annotated[str, typer.Argument(help=PATH_HELP)],
    to: Annotated[Path | None, typer.Option(help="A PNG to draw into.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count networks, members, messages and questions; draw the same as a picture."""
    with told():
        if to is not None and to.suffix.lower() != ".png":
            raise DataError(f"data stats: {to} does not end in .png; the picture is a PNG")
        numbers = count(_networks(path)[0].networks)
        if to is not None:
            draw(numbers, to)
    if as_json:
        typer.echo(json.dumps(dict(numbers.rows()), ensure_ascii=False))
    else:
        table = Table("what", "number")
        for what, number in numbers.rows():
            table.add_row(Text(what), Text(number))
        Console(highlight=False).print(table)
        if to is not None:
            typer.echo(f"{to}: the picture")


@app.command("import")
def import_path(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help=f"{', '.join(FORMATS)}, or auto.")],
    path: Annotated[Path, typer.Argument(help="The export: a file, a folder or a zip.")],
    to: Annotated[Path, typer.Option(help="A .json file; a folder where there are several networks.")],
) -> None:
    """Read a chat export or a benchmark into networks. What could not be read lies beside them, with the reason."""
    with told():
        imported = import_chat(detect(path) if format_name == "auto" else format_name, path)
        files = _targets(imported, to)
        for network, file in zip(imported.networks, files, strict=True):
            save_network(network, file)
        aside = _write_quarantine(imported, to)
    typer.echo(f"{imported.messages} messages of {imported.read} entries imported, {len(imported.quarantined)} quarantined")
    for reason, times in imported.reasons().items():
        typer.echo(f"  {times} x {reason}")
    for note in imported.notes:
        typer.echo(f"note: {note}")
    for network, file in zip(imported.networks, files, strict=True):
        typer.echo(f"{file}: {len(network.sessions)} sessions, {len(network.roster.members)} members")
    if aside is not None:
        typer.echo(f"{aside}: the quarantined entries")


class Unreadable(DataError):
    """Data that is there and cannot be read: for `check` a finding, not a user's error."""


def _networks(name_or_path: str) -> tuple[Imported, list[Row]]:
    """The networks of a path in any known form, and a row for each reason of quarantine.

    Errors: DataError where there is nothing, Unreadable where the data is broken.
    """
    root = Path(name_or_path)
    if name_or_path not in ("own", "socialmem") and not root.exists():
        raise DataError(f"{name_or_path!r} is neither `own`, `socialmem` nor a file or folder; check the path")
    try:
        if name_or_path in ("own", "socialmem") or (root / "networks").is_dir():
            networks = tuple(network for network, _ in load_networks(name_or_path))
            imported = Imported(networks, read=sum(1 for network in networks for _ in network.messages()))
        else:
            imported = import_chat(detect(root), root)
    except DataError as error:
        raise Unreadable(str(error)) from error
    rows = [Row("quarantine", Level.WARNING, "", f"{times} x {reason}") for reason, times in imported.reasons().items()]
    return imported, rows


def _tokenizer(folder: Path) -> Tokenizer:
    from transformers import AutoTokenizer  # heavy; only token lengths need it

    if not folder.is_dir():
        raise DataError(f"--tokenizer {folder}: no such folder; name the Writer's folder, the one with tokenizer.json")
    try:
        loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"--tokenizer {folder}: no tokenizer can be read there: {reason}") from error
    return lambda text: list(loaded(text, add_special_tokens=False, verbose=False)["input_ids"])


def _print_report(report: Report) -> None:
    table = Table("check", "level", "network", "finding")
    for row in report.rows:
        table.add_row(row.check, Text(row.level.value, COLOURS[row.level]), Text(row.network), Text(row.detail))
    Console(highlight=False).print(table)
    levels = Counter(row.level for row in report.rows)
    typer.echo(f"errors: {levels[Level.ERROR]}, warnings: {levels[Level.WARNING]}")


def _targets(imported: Imported, to: Path) -> Sequence[Path]:
    """One file for one network; a file a network inside the folder `to` else."""
    if not imported.networks:
        reasons = "; ".join(f"{times} x {reason}" for reason, times in imported.reasons().items()) or "it is empty"
        raise DataError(f"data import: no message could be read ({reasons}); check the format")
    if len(imported.networks) == 1 and to.suffix == ".json":
        return [to]
    if to.suffix == ".json":
        raise DataError(f"data import: {len(imported.networks)} networks do not go into one file {to}; name a folder")
    return [to / f"{file_name(network.id)}.json" for network in imported.networks]


def _write_quarantine(imported: Imported, to: Path) -> Path | None:
    """One JSON line an entry, beside the networks; a file of an earlier import does not stay where there are none."""
    file = to.with_suffix(".quarantine.jsonl") if to.suffix == ".json" else to / "quarantine.jsonl"
    lines = [json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in imported.quarantined]
    if not lines:
        file.unlink(missing_ok=True)
        return None
    file.write_text("".join(lines), encoding="utf-8")
    return file
