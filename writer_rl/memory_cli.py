"""`writer-rl memory`: put a chat into a memory, ask it, see why. `--json` prints for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from data.memory.records import Record
from data.network import GROUP, DataError
from rollout.llm.client import Client, ClientConfig
from rollout.llm.offline import offline_roles
from rollout.llm.roles import build_roles
from rollout.memory.archive import export_lines, import_lines
from rollout.memory.embedder import load_embedder
from rollout.memory.incoming import read_file
from rollout.memory.store import WINDOW, Store
from rollout.query.config import PipelineConfig, RoleNames
from rollout.query.evidence import one_line
from rollout.query.pipeline import Pipeline
from writer_rl.memory import AddReport, Memory, plain
from writer_rl.told import told

app = typer.Typer(
    help="A group-chat memory by hand: ingest, ask, show, history, explain, export, import, reindex.", no_args_is_help=True
)

StorePath = Annotated[Path, typer.Option("--store", envvar="WRITER_RL_STORE", help="The memory: one SQLite file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
EmbedderName = Annotated[str | None, typer.Option("--embedder", help="minilm or hash; the store's own where not given.")]
STORE = Path("memory.sqlite")


@app.command()
def ingest(
    file: Annotated[Path, typer.Argument(help="JSONL (or a JSON list): speaker, text; where known id, time, label, channel.")],
    store: StorePath = STORE,
    writer: Annotated[str, typer.Option(help="checkpoint:DIR, server:URL, litellm:MODEL or empty.")] = "empty",
    structured: Annotated[bool, typer.Option("--structured", help="server:URL: outputs keep to the action grammar.")] = False,
    embedder: EmbedderName = None,
    window: Annotated[int, typer.Option(help="Messages a segment, for a new store.")] = WINDOW,
    keep_pending: Annotated[bool, typer.Option(help="Leave the last, unfilled segment to later messages.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a chat into the memory. Again changes nothing."""
    from writer_rl.serving import named_writer  # torch and transformers only where a model writes

    with told():
        messages, aside = read_file(file)
        with Memory.open(store, named_writer(writer, structured), embedder=embedder, window=window) as memory:
            report = memory.add(messages)
            rest = memory.flush() if not keep_pending and not report.progress.delayed else None
        result = _ingested(report, rest) | {"set_aside": [asdict(one) for one in aside]}
    if as_json:
        _print_json(result)
    else:
        _print_ingested(result)
    if result["delayed"]:
        raise typer.Exit(1)


@app.command()
def ask(
    question: Annotated[str, typer.Argument()],
    store: StorePath = STORE,
    asker: Annotated[str | None, typer.Option(help="The member who asks, for questions such as 'what do I ...'.")] = None,
    roles: Annotated[str, typer.Option(help="Who reads the question and answers: offline or litellm:MODEL.")] = "offline",
    api_base: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server of your own.")] = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Ask the memory a question."""
    with told():
        pipeline = None if roles == "offline" else _llm_pipeline(roles, api_base, store, embedder)
        with Memory.open(store, pipeline=pipeline, embedder=embedder, create=False) as memory:
            answer = memory.answer(question, asker)
    if as_json:
        _print_json(asdict(answer))
    else:
        out = Console(highlight=False)
        out.print(Text(answer.text) if answer.text else Text(f"no answer ({answer.missing})", style="yellow"))
        source = "offline stand-in, quotes what is nearest" if answer.offline else roles
        out.print(
            Text(f"\nanswer {answer.id}, by {source}. Why: writer-rl memory explain {answer.id} --store {store}", style="dim")
        )
    if not answer.text:
        raise typer.Exit(1)


@app.command()
def show(
    store: StorePath = STORE,
    owner: Annotated[str | None, typer.Option(help="A member, or GROUP.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Superseded records too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is remembered of whom."""
    with told(), Memory.open(store, create=False) as memory:
        records = memory.records(owner, history)
        names = [*memory.roster().names, GROUP]
        counts = memory.counts()
    if as_json:
        _print_json({**counts, "records": [plain(record) for record in records]})
        return
    out = Console(highlight=False)
    summary = "{messages} messages of {members} members, {records} derived records, {pending} messages wait for their segment"
    out.print(Text(summary.format(**counts), style="dim"))
    for name in names:
        own = [record for record in records if record.owner == name]
        if own:
            out.print(Text(f"\n{one_line(name)}", style="bold"))
        for record in own:
            out.print(Padding(_line(record), (0, 0, 0, 2)))


@app.command()
def history(entry_id: Annotated[str, typer.Argument(metavar="ID")], store: StorePath = STORE, as_json: AsJson = False) -> None:
    """Show all states of a record, old to new."""
    with told(), Memory.open(store, create=False) as memory:
        chain = memory.history(entry_id)
    if as_json:
        _print_json([plain(record) for record in chain])
        return
    for record in chain:
        Console(highlight=False).print(_line(record))


@app.command()
def explain(
    answer_id: Annotated[int, typer.Argument(metavar="ANSWER")], store: StorePath = STORE, as_json: AsJson = False
) -> None:
    """Show why: question, rows and their status, records, and the messages that they rest on."""
    with told(), Memory.open(store, create=False) as memory:
        why = memory.explain(answer_id)
    if as_json:
        _print_json(why)
    else:
        _print_why(why)


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; the terminal where not given.")] = None,
    store: StorePath = STORE,
) -> None:
    """Write the whole memory as JSONL."""
    with told(), Store(store, create=False) as opened:
        if file is None:
            for line in export_lines(opened):
                typer.echo(line)
            return
        with file.open("w", encoding="utf-8") as sink:
            sink.writelines(f"{line}\n" for line in export_lines(opened))


@app.command("import")
def import_(file: Annotated[Path, typer.Argument()], store: StorePath = STORE, as_json: AsJson = False) -> None:
    """Fill a new memory from an export."""
    with told():
        if not file.is_file():
            raise DataError(f"{file}: no such file")
        with Store(store) as opened, file.open(encoding="utf-8") as source:
            counts = import_lines(opened, source)
    if as_json:
        _print_json(counts)
    else:
        typer.echo(", ".join(f"{count} {table}" for table, count in counts.items()))


@app.command()
def reindex(
    store: StorePath = STORE, embedder: Annotated[str, typer.Option(help="minilm or hash.")] = "minilm", as_json: AsJson = False
) -> None:
    """Embed everything again, with the same or another embedder."""
    with told(), Memory.open(store, create=False) as memory:
        memory.store.reindex(load_embedder(embedder))
        count = memory.embed_all()
    if as_json:
        _print_json({"embedder": embedder, "vectors": count})
    else:
        typer.echo(f"{count} records embedded with {embedder}")


def _llm_pipeline(model: str, api_base: str | None, store: Path, embedder: str | None) -> Pipeline:
    """One model in every role but the judge, its replies cached beside the store."""
    with Memory.open(store, embedder=embedder, create=False) as memory:
        used = memory.embedder()
    names = RoleNames(project=model, select=model, ask=model, answer=model)
    client = Client(ClientConfig(cache=store.with_name(f"{store.name}.replies")))
    return Pipeline(PipelineConfig(roles=names), used, build_roles(names, offline_roles(), client, api_base))


def _ingested(report: AddReport, rest: AddReport | None) -> dict[str, Any]:
    parts = [report] if rest is None else [report, rest]
    done = [segment for part in parts for segment in part.progress.segments]
    fated = [one for segment in done for one in segment.written.outcomes]
    return {
        "new": len(report.added.new),
        "repeated": report.added.repeated,
        "conflicts": [list(one) for one in report.added.conflicts],
        "segments": len(done),
        "records": sum(one.entry_id is not None for one in fated),
        "rejected": [asdict(one) for one in fated if one.reason],
        "not_strict": {kind: n for kind in ("fenced", "scanned", "failed") if (n := sum(s.parse == kind for s in done))},
        "pending": parts[-1].pending,
        "delayed": parts[-1].progress.delayed,
    }


def _print_ingested(result: dict[str, Any]) -> None:
    out = Console(highlight=False)
    out.print(Text(f"{result['new']} new messages, {result['repeated']} were there already"))
    out.print(
        Text(f"{result['segments']} segments written: {result['records']} records, {len(result['rejected'])} actions rejected")
    )
    notes = [f"line {one['line']} set aside: {one['reason']}" for one in result["set_aside"]]
    notes += [
        f"message {name!r} of channel {channel!r} came again with other content; the first stays"
        for channel, name in result["conflicts"]
    ]
    notes += [f"rejected {one['reason']}: {one['detail']}" for one in result["rejected"]]
    notes += [f"{count} outputs of the Writer were {kind}" for kind, count in result["not_strict"].items()]
    notes += [f"{result['pending']} messages wait for their segment to fill"] if result["pending"] else []
    notes += [f"segments wait for the Writer ({result['delayed']}); run again"] if result["delayed"] else []
    for note in notes:
        out.print(Text(one_line(note), style="yellow"))


def _print_why(why: dict[str, Any]) -> None:
    out = Console(highlight=False)
    asker = f" (asked by {one_line(why['asker'])})" if why["asker"] else ""
    out.print(Text(f"{one_line(why['question'])}{asker}", style="bold"))
    out.print(Text(f"{why['answer'] or 'no answer: ' + why['missing']}{'  [offline]' if why['offline'] else ''}"))
    if why["projection"]:
        read = why["projection"]
        source = f", as {one_line(read['source'])} sees it" if read["source"] else ""
        out.print(Text(f"\nread as: {one_line(read['issue'])}; {read['tense']}{source}", style="dim"))
    for row in why["rows"]:
        below = f", {row['below']} below the threshold" if row["below"] else ""
        out.print(Text(f"\n{one_line(row['name'])}: {row['status']}{below}", style="bold"))
        for chain in (*row["chains"], *row["said"]):
            for record in chain:
                out.print(Padding(_line(record), (0, 0, 0, 2)))
                for message in record["messages"]:
                    out.print(Padding(_line(message), (0, 0, 0, 6)))
        if row["fallback"]:
            out.print(Padding(_line(row["fallback"]), (0, 0, 0, 2)))
    out.print(Text("\nmessages", style="bold"))
    for message in why["system1"] or ():
        out.print(Padding(_line(message), (0, 0, 0, 2)))


def _line(record: Record | dict[str, Any]) -> Text:
    """One record on one line; text from the chat can neither break the line nor reach the terminal's controls."""
    one = plain(record) if isinstance(record, Record) else record
    who = one["owner"] if one["owner"] == one["source"] else f"{one['owner']}, by {one['source']}"
    text = Text(f"{one['entry_id']:>5} ", style="cyan")
    text.append(f"{one_line(one['ts'])} " if one["ts"] else "", style="dim")
    text.append(f"{one_line(who)}: ", style="dim")
    text.append(one_line(one["content"]), style="strike" if one["superseded_by"] else "")
    if one["superseded_by"]:
        text.append(f"  (replaced by {one['superseded_by']})", style="dim")
    return text


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))
