"""The journal of a round: what cannot be computed again for nothing, on disk as soon as it exists.

One file a round and rank, `<run>/journal/round-0007.rank0.jsonl`, append-only JSON lines:

    {"kind": "round", ...}          what the file belongs to: round, weights, recipe, rank
    {"kind": "completions", ...}    completions with prompt digest, token ids, log-probabilities and finish reason
    {"kind": "verdicts", ...}       the terminal questions of one group, once the round's verdicts are found good enough to
                                    train on: answers and verdicts of every arm

Each line is synced and carries a checksum, so a line is whole or is dropped with a warning, and with it all that follows.
An engine that works in ticks (`hf`) gets one line a tick: batches decide bytes, so half a tick is worth nothing. What is
on a line is used and never asked for again. Rewards are pure functions of both, and the update of both and of the last
checkpoint: a killed round ends as it would have.

A round's journal stays until a checkpoint behind that round is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.network import DataError
from rollout.engines.base import Completion, Engine, Request, RequestKey
from rollout.query.pipeline import AnchorHits, Asked
from rollout.query.qa import QAResult
from rollout.query.roles import Verdict, VerdictKind
from rollout.writer.trajectory import Trajectory

if TYPE_CHECKING:
    from torch import Tensor

NO_ANCHORS = AnchorHits(0, 0, 0, 0)


class JournalError(DataError):
    """A journal that says something else than this run would ask for."""


@dataclass(frozen=True)
class Origin:
    """What a journal belongs to. `run` is a digest of everything that shapes the rounds (recipe, reference, pipeline)."""

    round: int
    weights_version: int
    run: str
    rank: int = 0
    ranks: int = 1


class Journal:
    """The open journal of one round on one rank.

    A file of another origin is no use to this round: it is dropped with a warning, as is everything from the first line on
    that is torn or damaged. An OSError (a full disk) leaves the file as it was before the line and is raised.
    """

    def __init__(self, folder: Path, origin: Origin) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"round-{origin.round:04d}.rank{origin.rank}.jsonl"
        self._completions: dict[RequestKey, tuple[str, Completion]] = {}
        self._verdicts: dict[str, QAResult] = {}
        self._origin = origin
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._size = self._read()
        os.ftruncate(self._file, self._size)
        if not self._size:
            self._append({"kind": "round", **asdict(origin)})

    def completion(self, request: Request) -> Completion | None:
        """The completion that was journalled for a request. JournalError where it answered another prompt."""
        found = self._completions.get(request.key)
        if found is None:
            return None
        prompt, completion = found
        if prompt != prompt_digest(request):
            raise JournalError(
                f"{self.path}: {request.key} was asked with another prompt than now: the data or the code changed since this "
                "round was begun; delete the file to begin the round anew"
            )
        return completion

    def keep(self, made: Sequence[tuple[Request, Completion]]) -> None:
        """One line of completions."""
        self._append({"kind": "completions", "rows": [_row(request, completion) for request, completion in made]})
        self._completions |= {request.key: (prompt_digest(request), completion) for request, completion in made}

    def verdicts(self, group: Sequence[Trajectory]) -> QAResult | None:
        """What the trajectories [G] were asked and answered; of an arm only question, answer and verdict come back, which
        is all that rewards, metrics and trace read."""
        return self._verdicts.get(group_digest(group))

    def keep_verdicts(self, group: Sequence[Trajectory], qa: QAResult) -> None:
        """One line for a group's terminal questions, unless there is one."""
        digest = group_digest(group)
        if digest in self._verdicts:
            return
        self._append({"kind": "verdicts", "network": group[0].network, "group": digest, **_qa_row(qa)})
        self._verdicts[digest] = qa

    def engine(self, engine: Engine, ticks: bool) -> JournalledEngine:
        """The engine, answering from the journal what is there. `ticks`: it answers all that wait at once."""
        return JournalledEngine(self, engine, ticks)

    def close(self) -> None:
        os.close(self._file)

    def _append(self, body: Mapping[str, Any]) -> None:
        data = written_line(body)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    def _read(self) -> int:
        """Take in what the file holds; how many bytes of it are good."""
        data = self.path.read_bytes()
        good = 0
        for number, line in enumerate(data.splitlines(keepends=True), start=1):
            body = whole_line(line)
            if body is None:
                warnings.warn(
                    f"{self.path}: line {number} is torn or damaged; it and the {len(data) - good} bytes from there on are "
                    "dropped, and what they held is done again",
                    stacklevel=3,
                )
                break
            if number == 1 and body != {"kind": "round", **asdict(self._origin)}:
                warnings.warn(
                    f"{self.path}: is the journal of another round, recipe or number of processes; dropped, the round is "
                    "done anew",
                    stacklevel=3,
                )
                break
            self._take(body)
            good += len(line)
        return good

    def _take(self, body: Mapping[str, Any]) -> None:
        if body["kind"] == "completions":
            for row in body["rows"]:
                key = RequestKey(self._origin.round, row["network"], row["visit"], row["g"], row["t"])
                ids, logprobs = tuple(row["ids"]), tuple(row["logprobs"])
                self._completions[key] = (row["prompt"], Completion(ids, logprobs, row["finish"], row["version"]))
        elif body["kind"] == "verdicts":
            self._verdicts[body["group"]] = _qa_result(body)


class JournalledEngine:
    """An engine in front of which a journal stands."""

    def __init__(self, journal: Journal, engine: Engine, ticks: bool) -> None:
        self._journal = journal
        self._engine = engine
        self._ticks = ticks
        self._flight: set[RequestKey] = set()  # asked, not yet answered
        self._due: set[RequestKey] = set()  # of the tick that is being handed out
        self._made: list[tuple[Request, Completion]] = []

    async def generate(self, request: Request) -> Completion:
        kept = self._journal.completion(request)
        if kept is not None:
            return kept
        self._flight.add(request.key)
        completion = await self._engine.generate(request)
        if not self._due:  # the first of its tick to come back: the others were answered with it, and nobody has asked since
            self._due = self._flight.copy() if self._ticks else {request.key}
        self._flight.discard(request.key)
        self._due.discard(request.key)
        self._made.append((request, completion))
        if not self._due:
            made, self._made = self._made, []
            self._journal.keep(made)
        return completion

    async def sync(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        await self._engine.sync(named_tensors, version)


def prune(folder: Path, done: int) -> None:
    """Delete all ranks' journals that are of no use behind a whole checkpoint of `done` rounds: those of rounds before it,
    and those behind a gap, which belong to another course of the run."""
    files = [(re.fullmatch(r"round-(\d+)\.rank\d+\.jsonl", path.name), path) for path in folder.glob("round-*.jsonl")]
    rounds = [(int(match[1]), path) for match, path in files if match]
    following = done
    while any(number == following for number, _ in rounds):
        following += 1
    for number, path in rounds:
        if not done <= number < following:
            path.unlink()


def whole_line(line: bytes) -> dict[str, Any] | None:
    """The body of a journal line without its checksum, or None where the line is not what was written."""
    try:
        body = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    body.pop("sum", None)
    return body if written_line(body) == line else None


def written_line(body: Mapping[str, Any]) -> bytes:
    """A journal line as it is written: the body with its checksum."""
    return (json.dumps({**body, "sum": checksum(body)}, ensure_ascii=False) + "\n").encode()


def checksum(body: Mapping[str, Any]) -> int:
    """CRC-32 of a line's content. JSON gives every float back exactly, so what was read has the sum it was written with."""
    return zlib.crc32(json.dumps(body, ensure_ascii=False).encode())


def prompt_digest(request: Request) -> str:
    """Names a prompt, the seed and the sampling values that were asked with it."""
    asked = [list(request.prompt_ids), request.seed, asdict(request.params)]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def group_digest(group: Sequence[Trajectory]) -> str:
    """Names the completions of trajectories, from which their memories follow."""
    ids = [[one.network, one.visit, one.g, *(list(write.completion.token_ids) for write in one.writes)] for one in group]
    return hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]


def _row(request: Request, completion: Completion) -> dict[str, Any]:
    return {
        "network": request.key.network,
        "visit": request.key.visit,
        "g": request.key.g,
        "t": request.key.t,
        "prompt": prompt_digest(request),
        "ids": list(completion.token_ids),
        "logprobs": list(completion.logprobs),
        "finish": completion.finish_reason,
        "version": completion.weights_version,
    }


def _qa_row(qa: QAResult) -> dict[str, Any]:
    def arms(asked: Sequence[Asked]) -> list[list[str]]:
        return [[one.question, one.answer, one.verdict.kind.value, one.verdict.reason] for one in asked]

    counts = {"unjudged": qa.unjudged, "total": qa.total, "without_evidence": qa.without_evidence}
    return {"gains": list(qa.gains), **counts, "baseline": arms(qa.baseline), "arms": [arms(one) for one in qa.arms]}


def _qa_result(body: Mapping[str, Any]) -> QAResult:
    def asked(rows: Sequence[Sequence[str]]) -> tuple[Asked, ...]:
        return tuple(
            Asked(question, None, (), (), "", False, "", answer, Verdict(VerdictKind(kind), reason), NO_ANCHORS, ())
            for question, answer, kind, reason in rows
        )

    arms = tuple(asked(rows) for rows in body["arms"])
    counts = (body["unjudged"], body["total"], body["without_evidence"])
    return QAResult(tuple(body["gains"]), *counts, asked(body["baseline"]), arms)
