"""The memory as a tool: open one, put a chat in, ask it, see why."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from data.memory.executor import Support
from data.memory.records import Record
from data.network import GROUP, DataError, Question, Roster, fold
from rollout.llm.client import run
from rollout.memory.embedder import Embedder, load_embedder
from rollout.memory.incoming import Incoming, read_message
from rollout.memory.ingest import Progress, TextWriter, write_segments
from rollout.memory.provenance import support
from rollout.memory.reader import Reader
from rollout.memory.store import WINDOW, Added, Store, UnknownEntry
from rollout.memory.vectors import cosines, embed_records
from rollout.query.config import PipelineConfig
from rollout.query.pipeline import Asked, Pipeline, offline_pipeline
from rollout.query.roles import BlankQuery, Call, Gold, Query, Reply, Verdict, VerdictKind


@dataclass(frozen=True, slots=True)
class AddReport:
    """What an add or a flush did: messages, and the segments whose derived records it wrote."""

    added: Added
    progress: Progress
    pending: int  # messages that wait for their segment to fill


@dataclass(frozen=True, slots=True)
class Hit:
    record: Record
    cosine: float


@dataclass(frozen=True, slots=True)
class Answer:
    """`id` is what `explain` takes; `offline` marks an answer of the lexical stand-in, not of a language model."""

    id: int
    text: str
    missing: str
    offline: bool
    evidence: str


class Memory:
    """One durable memory, for one process or many. Made by `Memory.open`; a context manager."""

    def __init__(self, store: Store, writer: TextWriter, pipeline: Pipeline | None, embedder: str | None) -> None:
        self.store = store
        self.writer = writer
        self._given = pipeline
        self._embedder_name = embedder
        self._open_reader: Reader | None = None
        self._open_pipeline: Pipeline | None = None

    @classmethod
    def open(
        cls,
        path: str | Path,
        writer: TextWriter | str = "empty",
        pipeline: Pipeline | None = None,
        embedder: str | None = None,
        window: int | None = WINDOW,
        create: bool = True,
    ) -> Memory:
        """Open or create a memory.

        `writer` is a Writer or its name (`empty` writes no derived records); `pipeline` None is the offline one;
        `embedder` (minilm, hash) None is the store's own. `window` counts only for a new store.
        Errors: StoreError, EmbedderMismatch.
        """
        from writer_rl.serving import named_writer  # torch and transformers only where a model writes

        using = named_writer(writer) if isinstance(writer, str) else writer
        store = Store(Path(path), window, create)
        memory = cls(store, using, pipeline, embedder)
        if pipeline is not None or embedder is not None:  # given by name: it must be, or becomes, the store's own
            try:
                store.use(memory.embedder())
            except DataError:
                store.close()
                raise
        return memory

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()

    # Writing

    def add(self, messages: Iterable[Incoming | Mapping[str, Any]]) -> AddReport:
        """Put messages in, in the order given; segments that are full go to the Writer. A retry changes nothing.

        A message is a mapping with `speaker` and `text`, and where known `id`, `time`, `label`, `channel`, `platform`,
        `session`, `reply_to`, `bot`. Errors: DataError for one that is no message; then none is written.
        """
        return run(self.add_async(messages))

    async def add_async(self, messages: Iterable[Incoming | Mapping[str, Any]]) -> AddReport:
        added = self.store.add([read_message(message) for message in messages])
        self.store.close_segments()
        return AddReport(added, await write_segments(self.store, self.writer, self._support), self.store.pending())

    def flush(self) -> AddReport:
        """Hand pending messages to the Writer, full segment or not."""
        return run(self.flush_async())

    async def flush_async(self) -> AddReport:
        self.store.close_segments(flush=True)
        return AddReport(Added(()), await write_segments(self.store, self.writer, self._support), self.store.pending())

    # Reading

    def roster(self) -> Roster:
        return self.store.roster()

    def records(self, owner: str | None = None, history: bool = False) -> list[Record]:
        """Derived records in write order: current ones, with `history` superseded ones too; of one owner (a name as
        anybody writes it, or GROUP) or of all."""
        name = None if owner is None else _owner(self.store.roster(), owner)
        return [one for one in self.store.state() if (history or one.head) and name in (None, one.owner)]

    def counts(self) -> dict[str, int]:
        """Messages, members, derived records (superseded ones too), and messages that wait for their segment."""
        tables = {"messages": "messages", "members": "members", "records": "derived"}
        found = {name: self.store.rows(f"SELECT count(*) FROM {table}")[0][0] for name, table in tables.items()}  # noqa: S608
        return {**found, "pending": self.store.pending()}

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The k nearest records of both tracks (of the derived one current records only), best first, ties in write
        order. Errors: BlankQuery."""
        if not query.strip():
            raise BlankQuery("the search text is blank; a blank query would match everything")
        reader = self._reader()
        view = reader.view()
        assert view.vectors is not None
        heads = view.state.heads()
        vector = reader.embedder.embed([query])[0]
        scores = np.concatenate([cosines(embed_records(reader.embedder, heads), vector), cosines(view.vectors, vector)])
        records = [*heads, *view.verbatim]
        best = np.argsort(-scores, kind="stable")[:k]
        return [Hit(records[index], float(scores[index])) for index in best]

    def answer(self, question: str, asker: str | None = None) -> Answer:
        """Ask the memory. `asker` is a member (for "what do I ..."). Errors: BlankQuery, UnknownMember."""
        return run(self.answer_async(question, asker))

    async def answer_async(self, question: str, asker: str | None = None) -> Answer:
        if not question.strip():
            raise BlankQuery("the question is blank; a blank query would match everything or nothing")
        view = self._reader().view()
        member = None
        if asker is not None:
            name = view.roster.canonical(asker)
            member = next(one.id for one in view.roster.members if view.roster.name(one.id) == name)
        pipeline = self._pipeline()
        shared = await pipeline.share(view, Question("by-hand", question, "", asker=member))
        asked = await pipeline.finish(shared, view.state)
        missing = "" if asked.answer else asked.verdict.reason
        offline = pipeline.config.roles.answer == "offline"
        row = {"answer": asked.answer, "missing": missing, "asker": asker, "offline": offline, "pipeline": pipeline.id}
        number = self.store.keep_answer(question, json.dumps({**row, **_why(asked)}, ensure_ascii=False))
        return Answer(number, asked.answer, missing, offline, asked.evidence)

    def history(self, entry_id: str) -> list[Record]:
        """The chain of a derived record, old to new; a message alone. Errors: UnknownEntry."""
        record = self.store.entry(entry_id)
        return [record] if record.verbatim else self.store.state().chain(entry_id)

    def explain(self, answer_id: int) -> dict[str, Any]:
        """Why an answer says what it says: question -> rows and their status -> records -> from_ids -> messages.

        Plain values for JSON. Records are as they are now: `superseded_by` shows what has been replaced since.
        Errors: UnknownEntry.
        """
        found = self.store.rows("SELECT question, row FROM answers WHERE id = ?", (answer_id,))
        if not found:
            raise UnknownEntry(f"store {self.store.path} has no answer {answer_id}; `ask` prints the number of each")
        row = json.loads(found[0]["row"])
        rows = []
        for one in row["rows"]:
            chains = [[self._cited(entry) for entry in chain] for chain in one["chains"]]
            said = [[self._cited(entry) for entry in chain] for chain in one["said"]]
            fallback = None if one["fallback"] is None else plain(self.store.entry(one["fallback"]))
            rows.append({**one, "chains": chains, "said": said, "fallback": fallback})
        messages = [plain(self.store.entry(entry)) for entry in row["system1"]]
        return {"id": answer_id, "question": found[0]["question"], **row, "rows": rows, "system1": messages}

    def _cited(self, entry_id: str) -> dict[str, Any]:
        record = self.store.entry(entry_id)
        return {**plain(record), "messages": [plain(self.store.entry(one)) for one in record.from_ids]}

    def embed_all(self) -> int:
        """Compute all vectors that the store lacks; the number of records that have one now."""
        view = self._reader().view()
        return len(view.verbatim) + len(view.state)

    # What is loaded when first needed

    def embedder(self) -> Embedder:
        if self._given is not None:
            return self._given.embedder
        name = self._embedder_name
        if name is None:
            name = "hash" if (self.store.meta("embedder") or "").startswith("hash-") else "minilm"
        return load_embedder(name)

    def _reader(self) -> Reader:
        if self._open_reader is None:
            self._open_reader = Reader(self.store, self.embedder())
        return self._open_reader

    def _support(self) -> Support:
        return support(self._reader().embedder)

    def _pipeline(self) -> Pipeline:
        """The frozen pipeline, on stored vectors and without a judge: by hand there is no gold to judge against."""
        if self._open_pipeline is None:
            given = self._given or offline_pipeline(PipelineConfig(), self._reader().embedder)
            made = copy.copy(given)
            made.embedder = self._reader().embedder
            made.roles = replace(given.roles, judge=_Unjudged())
            self._open_pipeline = made
        return self._open_pipeline


class _Unjudged:
    """Stands where the judge is when there is nothing to compare with."""

    name = "offline"
    fingerprint = ""

    async def judge(self, query: Query, gold: Gold, answer: str) -> Reply[Verdict]:
        return Reply(Verdict(VerdictKind.MISSING, "no reference answer"), Call("judge", self.name, cached=True))


def _owner(roster: Roster, text: str) -> str:
    return GROUP if fold(text) == fold(GROUP) else roster.canonical(text)


def plain(record: Record) -> dict[str, Any]:
    """A record as JSON has it."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(record).items()}


def _why(asked: Asked) -> dict[str, Any]:
    """What `explain` starts from: ids and statuses."""
    return {
        "projection": None if asked.projection is None else asdict(asked.projection),
        "system1": list(asked.system1),
        "rows": [
            {
                "name": row.name,
                "status": row.status.value,
                "below": row.below,
                "chains": [[record.entry_id for record in chain] for chain in row.chains],
                "said": [[record.entry_id for record in chain] for chain in row.said],
                "fallback": None if row.fallback is None else row.fallback.entry_id,
            }
            for row in asked.rows
        ],
        "evidence": asked.evidence,
        "calls": [asdict(call) for call in asked.calls if call.role != "judge"],
    }
