"""Segments: the messages a Writer reads at once, and the verbatim records (System 1) that they become."""

from __future__ import annotations

from dataclasses import dataclass

from data.memory.records import CONFIDENCE_VERBATIM, Layer, Record, UType
from data.network import DataError, Message, Network, Roster, Session


@dataclass(frozen=True)
class Segment:
    """Position `t` of a network: consecutive messages of one session, with their verbatim records beside them."""

    network: str
    t: int
    session: str
    roster: Roster
    messages: tuple[Message, ...]  # [n]
    verbatim: tuple[Record, ...]  # [n], same order

    @property
    def budget(self) -> int:
        """Most actions a Writer may emit here: max(8, 2 * |X_t|) over non-empty messages (Eq. 20)."""
        return max(8, 2 * sum(bool(message.text.strip()) for message in self.messages))


def verbatim_record(message: Message, session: Session, turn: int, number: int, roster: Roster) -> Record:
    """System 1 writes message `number` (1-based in the network) as it is, owned and said by its speaker."""
    name = roster.name(message.speaker)
    return Record(
        entry_id=f"v{number}",
        content=message.text,
        owner=name,
        source=name,
        layer=Layer.EPISODIC,
        utype=UType.UTTERANCE,
        session=session.id,
        turn=turn,
        turn_created=number,
        ts=message.time,
        confidence=CONFIDENCE_VERBATIM,
    )


def segments(network: Network, window: int | None = None) -> tuple[Segment, ...]:
    """All positions of a network in order: one per session, or windows of `window` messages inside each session.

    A window never crosses a session; the last, shorter one is kept, and joined to the one before where it would hold
    a single message. Errors: a window below 2.
    """
    if window is not None and window < 2:
        raise DataError(f"segment window is {window}; use 2 or more, or none for one segment a session")
    result: list[Segment] = []
    number = 0
    for session in network.sessions:
        count = len(session.messages)
        size = count if window is None else window
        starts = list(range(0, count, size))
        if len(starts) > 1 and count - starts[-1] == 1:
            starts.pop()
        for start, stop in zip(starts, [*starts[1:], count], strict=True):
            chunk = session.messages[start:stop]
            records = tuple(
                verbatim_record(message, session, start + i, number + i + 1, network.roster) for i, message in enumerate(chunk)
            )
            number += len(chunk)
            result.append(Segment(network.id, len(result), session.id, network.roster, chunk, records))
    return tuple(result)
