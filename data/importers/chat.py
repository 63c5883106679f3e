"""From a stream of chat messages to a network: members by id, sessions cut per channel, channels merged by time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from data.importers.imported import Imported, Quarantined
from data.network import DataError, Member, Message, Network, Roster, Session, fold

GAP = timedelta(hours=6)
SESSION_RULE = "a session ends where a channel is silent for 6 hours or the day changes"
EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass
class Channel:
    """Messages of one channel in source order. `starts` holds (index of a session's first message, cut by the day
    alone); `named` replaces the cutting where the source names its sessions."""

    messages: list[Message] = field(default_factory=list)
    days: list[date | None] = field(default_factory=list)
    starts: list[tuple[int, bool]] = field(default_factory=list)

    def add(self, message: Message, day: date | None) -> bool:
        """Append, and open a session where one begins. True where the message is earlier than the one before it."""
        before = self.messages[-1] if self.messages else None
        inverted = False
        if before is None:
            self.starts.append((0, False))
        else:
            step = message.instant - before.instant if message.instant and before.instant else None
            inverted = step is not None and step < timedelta(0)
            silent = step is not None and step >= GAP
            turned = day is not None and self.days[-1] is not None and day != self.days[-1]
            if silent or turned:
                self.starts.append((len(self.messages), not silent))
        self.messages.append(message)
        self.days.append(day)
        return inverted

    def pieces(self) -> list[tuple[int, int]]:
        """(start, stop) of each session. A cut by the day alone is taken back where it would leave one message."""
        starts = self.starts
        kept = [starts[0][0]] if starts else []
        stops = [index for index, _ in starts[1:]] + [len(self.messages)]
        for (start, by_day), stop in zip(starts[1:], stops[1:], strict=True):
            lonely = stop - start == 1 or start - kept[-1] == 1
            if not (by_day and lonely):
                kept.append(start)
        return list(zip(kept, [*kept[1:], len(self.messages)], strict=True))


class ChatBuilder:
    """Collects one chat. Memory is that of the messages themselves: nothing of the source is kept beside them."""

    def __init__(self, network_id: str, source: str) -> None:
        self.network_id = network_id
        self.source = source
        self.members: dict[str, Member] = {}
        self._folded: dict[str, str] = {}
        self._ids: set[str] = set()
        self._channels: dict[str, Channel] = {}
        self._named: dict[tuple[str, str], list[tuple[Message, date | None]]] = {}
        self.inversions = 0

    def member(self, member_id: str, label: str, bot: bool = False) -> bool:
        """Make a member known; the first label stays (the id is the identity, the label only what people see).

        False where another member's id differs only in case or spaces: nobody could tell the two apart by name.
        """
        if self._folded.setdefault(fold(member_id), member_id) != member_id:
            return False
        known = self.members.get(member_id)
        if known is None:
            self.members[member_id] = Member(member_id, label, bot)
        elif bot and not known.bot:
            self.members[member_id] = Member(member_id, known.label, True)
        return True

    def add(self, message: Message, channel: str = "", day: date | None = None, session: str | None = None) -> bool:
        """Append a message whose speaker is known; False (and nothing done) where its id was there before.

        With `session`, the source names its sessions: an earlier one that returns goes on where it stopped.
        """
        if message.id in self._ids:
            return False
        self._ids.add(message.id)
        if session is None:
            self.inversions += self._channels.setdefault(channel, Channel()).add(message, day)
        else:
            self._named.setdefault((channel, session), []).append((message, day))
        return True

    def __len__(self) -> int:
        return len(self._ids)

    def network(self) -> Network:
        """The network; channels are merged by the times their sessions begin, never re-ordered inside a channel."""
        placed: list[tuple[datetime, int, Session]] = []
        taken: set[str] = set()
        for channel, stream in self._channels.items():
            for number, (start, stop) in enumerate(stream.pieces(), 1):
                name = unique(f"{channel}/s{number:03d}" if channel else f"s{number:03d}", taken)
                day = stream.days[start]
                self._place(placed, Session(name, tuple(stream.messages[start:stop]), str(day or ""), channel))
        for (channel, session), rows in self._named.items():
            name = unique(f"{channel}/{session}" if channel else session, taken)
            self._place(placed, Session(name, tuple(message for message, _ in rows), str(rows[0][1] or ""), channel))
        placed.sort(key=lambda one: one[:2])
        return Network(self.network_id, self._roster(), tuple(session for *_, session in placed), source=self.source)

    def _roster(self) -> Roster:
        """Labels may be such that names stay alike ("Ann (u2)" beside an Ann with the id u2): then ids are the names."""
        try:
            return Roster(tuple(self.members.values()))
        except DataError:
            return Roster(tuple(Member(one.id, one.id, one.bot) for one in self.members.values()))

    def _place(self, placed: list[tuple[datetime, int, Session]], session: Session) -> None:
        """A session begins at its first known time, but never before an earlier one of its channel."""
        begins = next((message.instant for message in session.messages if message.instant), EARLIEST)
        if placed and placed[-1][2].channel == session.channel:
            begins = max(begins, placed[-1][0])
        placed.append((begins, len(placed), session))


def sound(*texts: str) -> bool:
    """Whether texts can be written as UTF-8: JSON may hold half a surrogate pair, which no file of ours could."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unique(name: str, taken: set[str]) -> str:
    """`name`, or `name~2`, `name~3` ... where it is taken; marks it as taken."""
    made, number = name, 1
    while made in taken:
        number += 1
        made = f"{name}~{number}"
    taken.add(made)
    return made


def finish(builders: list[ChatBuilder], quarantined: list[Quarantined], read: int, notes: list[str] | None = None) -> Imported:
    """The import as a whole; a chat without a single message becomes no network."""
    inversions = sum(builder.inversions for builder in builders)
    late = [f"{inversions} messages are earlier than the one before them; the source's order was kept"] if inversions else []
    networks = tuple(builder.network() for builder in builders if len(builder))
    return Imported(networks, tuple(quarantined), read, (SESSION_RULE, *(notes or ()), *late))
