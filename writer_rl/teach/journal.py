"""What a teacher has said about one network so far: a line a reply, so that a stopped run goes on without asking again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.jsonfile import take, texts
from data.network import DataError, Network
from data.segments import Segment

SCHEMA = "writer-rl-teach/1"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer of the teacher. `unit` is what was asked (a segment, a block of questions), `conversation` counts
    those about it, `number` the answers within one, both from 0. `reply` is None where no whole answer came;
    `faults` is empty where it was accepted."""

    unit: str
    conversation: int
    number: int
    reply: str | None
    faults: tuple[str, ...]


def content_hash(network: Network, parts: tuple[Segment, ...]) -> str:
    """What a teacher reads of a network, hashed: the roster, and the messages as they are cut."""
    shown: list[Any] = [network.id, *network.roster.names]
    shown += [
        [part.session, [[one.id, part.roster.name(one.speaker), one.time, one.text] for one in part.messages]] for part in parts
    ]
    return hashlib.sha256(json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace")).hexdigest()


class Journal:
    """The attempts of one network, in a file that only grows.

    The first line says what they belong to (model, contract, messages and their cut). A last line that was cut short by
    a kill is dropped. Errors: DataError where the file belongs to something else, or is damaged.
    """

    def __init__(self, path: Path, identity: dict[str, str]) -> None:
        self.path = path
        self.attempts: list[Attempt] = []
        head = {"schema": SCHEMA, **identity}
        if path.is_file() and self._read(head):
            return
        path.write_text(json.dumps(head, ensure_ascii=False) + "\n", encoding="utf-8")

    def of(self, unit: str, conversation: int) -> list[Attempt]:
        """The answers of one conversation, in order."""
        return [one for one in self.attempts if (one.unit, one.conversation) == (unit, conversation)]

    def next_conversation(self, unit: str, most: int) -> int:
        """The conversation that goes on: the last one, or a new one where that ended after `most` faulty answers."""
        last = max((one.conversation for one in self.attempts if one.unit == unit), default=0)
        said = self.of(unit, last)
        return last + 1 if len(said) >= most and said[-1].faults else last

    def append(self, attempt: Attempt) -> None:
        """Keep an answer: it is on its way to the disk when this returns."""
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(asdict(attempt), ensure_ascii=False) + "\n")
        self.attempts.append(attempt)

    def _read(self, head: dict[str, str]) -> bool:
        """Whether a journal is there; cuts off what stands behind the last whole line."""
        raw = self.path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if whole != raw:
            self.path.write_bytes(whole)
        lines = whole.decode("utf-8", "replace").splitlines()
        if not lines:
            return False
        found = self._decoded(lines[0], 1)
        other = [key for key in head if found.get(key) != head[key]]
        if other:
            raise DataError(
                f"{self.path}: was begun with another {other[0]} ({found.get(other[0])!r}, now {head[other[0]]!r}); go on with "
                "that one, or delete the file to begin anew, or name another folder with --to"
            )
        self.attempts = [self._attempt(line, number) for number, line in enumerate(lines[1:], 2)]
        return True

    def _decoded(self, line: str, number: int) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise DataError(f"{self.path}, line {number}: no line of a journal; delete the file to begin anew")
        return value

    def _attempt(self, line: str, row: int) -> Attempt:
        where = f"{self.path}, line {row}"
        raw = self._decoded(line, row)
        reply = None if raw.get("reply", "") is None else take(raw, "reply", str, where)
        conversation, number = (take(raw, key, int, where) for key in ("conversation", "number"))
        return Attempt(take(raw, "unit", str, where), conversation, number, reply, texts(raw, "faults", where))
