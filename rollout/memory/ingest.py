"""From closed segments to derived records: the Writer is asked, its text parsed, the result kept, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from data.memory.executor import Support
from data.memory.state import State
from data.segments import Segment
from rollout.llm.errors import MissingReply
from rollout.memory.store import Store
from rollout.memory.writes import Source, Written, write_segment
from rollout.writer.parser import parse
from rollout.writer.trajectory import ParseStatus


class TextWriter(Protocol):
    """A Writer as serving sees it: a segment and the memory before it in, the output text out. MissingReply where it
    cannot answer now."""

    @property
    def name(self) -> str: ...

    async def write(self, segment: Segment, state: State) -> str: ...


class EmptyWriter:
    """Writes nothing: the verbatim track alone."""

    name = "empty"

    async def write(self, segment: Segment, state: State) -> str:
        return '{"actions": []}'


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """One segment's derived write and how the Writer's text parsed (serving salvages, and counts it)."""

    written: Written
    parse: ParseStatus


@dataclass(frozen=True, slots=True)
class Progress:
    """`delayed` says why segments still wait (empty: none do): their messages are safe, the next add or flush goes on."""

    segments: tuple[WrittenSegment, ...]
    delayed: str = ""


async def write_segments(store: Store, writer: TextWriter, support: Callable[[], Support]) -> Progress:
    """Write every closed segment in order, until all are or the Writer is missing. `support` is made when first needed."""
    done: list[WrittenSegment] = []
    while (segment := store.next_segment()) is not None:
        try:
            text = await writer.write(segment, store.state())
        except MissingReply as missing:
            return Progress(tuple(done), str(missing))
        parsed = parse(text, salvage=True)
        source = Source(writer.name, text, parsed.status.value)
        written = write_segment(store, segment, parsed.attempts, lambda c, s: support()(c, s), source)
        done.append(WrittenSegment(written, parsed.status))
    return Progress(tuple(done))
