"""What a group chat is: members, messages, sessions, questions, and the network that holds them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

GROUP = "GROUP"  # the owner of both group layers; never a member's name
ALL = "ALL"  # in a projection: every roster row
RESERVED = frozenset({GROUP.casefold(), ALL.casefold()})


class DataError(ValueError):
    """Input that does not fit. The message says what, where (file, row, field), and what to do."""


class UnknownMember(DataError):
    """A name that is nobody's on the roster."""


class AmbiguousMember(DataError):
    """A name that is more than one member's: never guessed."""


def fold(text: str) -> str:
    """Identity of names and contents: NFC, casefold, white space folded to single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


@dataclass(frozen=True, slots=True)
class Member:
    """A participant: `id` is the identity on its platform, `label` what people see; a bot is a member like any other."""

    id: str
    label: str
    bot: bool = False


@dataclass(frozen=True)
class Roster:
    """The members of a network and the unique name each is called by.

    A name is the label with white space folded; members who share a label (or whose label is a reserved word or
    another member's id) get `label (id)`, so that prompts and records tell them apart. Records carry names, messages
    carry ids. Errors: an empty or repeated id, an empty label, names that stay alike.
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for member in self.members:
            if not member.id.strip() or not member.label.strip():
                raise DataError(f"roster: member {member!r} has an empty id or label; give both")
            if member.id in seen:
                raise DataError(f"roster: member id {member.id!r} appears twice; ids must be unique")
            seen.add(member.id)
        holder: dict[str, str] = {}  # folded name -> member id
        for member_id, name in self._name_of.items():
            other = holder.setdefault(fold(name), member_id)
            if other != member_id:
                raise DataError(f"roster: members {other!r} and {member_id!r} would both be called {name!r}; change a label")

    @cached_property
    def _name_of(self) -> dict[str, str]:
        shared: dict[str, int] = {}
        for member in self.members:
            for key in {fold(member.label), fold(member.id)}:
                shared[key] = shared.get(key, 0) + 1
        names = {}
        for member in self.members:
            unique = shared[fold(member.label)] == 1 and fold(member.label) not in RESERVED
            name = member.label if unique else f"{member.label} ({member.id})"
            names[member.id] = " ".join(unicodedata.normalize("NFC", name).split())
        return names

    @cached_property
    def _by_fold(self) -> dict[str, set[str]]:
        index: dict[str, set[str]] = {}
        for member in self.members:
            for key in (member.label, self._name_of[member.id]):
                index.setdefault(fold(key), set()).add(self._name_of[member.id])
        return index

    @property
    def names(self) -> tuple[str, ...]:
        """Unique names in roster order. Shape [members]."""
        return tuple(self._name_of[member.id] for member in self.members)

    def name(self, member_id: str) -> str:
        """The unique name of a member id; raises UnknownMember."""
        try:
            return self._name_of[member_id]
        except KeyError:
            raise UnknownMember(f"speaker id {member_id!r} is not on the roster: {', '.join(self.names)}") from None

    def canonical(self, text: str) -> str:
        """The roster's spelling of a name written by anybody (design section 8, pitfall 23).

        An exact member id first, then NFC, strip, folded spaces and casefold against names and labels.
        Raises UnknownMember, or AmbiguousMember where two members answer to it.
        """
        if text in self._name_of:
            return self._name_of[text]
        found = self._by_fold.get(fold(text), set())
        if len(found) == 1:
            return next(iter(found))
        if found:
            raise AmbiguousMember(f"{text!r} is {len(found)} members: {', '.join(sorted(found))}")
        raise UnknownMember(f"{text!r} is not on the roster: {', '.join(self.names)}")


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `speaker` is a member id; `time` the source's own string; `instant` that time in UTC where it is
    known, `zone_assumed` where the source gave no zone. Order is the source's order, never the time."""

    id: str
    speaker: str
    text: str
    time: str = ""
    instant: datetime | None = None
    zone_assumed: bool = True
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """Messages that belong together; `channel` tells parallel streams of one network apart."""

    id: str
    messages: tuple[Message, ...]
    date: str = ""
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a network. `format`: multiple_choice, short_answer or long_form. `options` maps a letter to
    its text and `correct_option` is that letter (only for multiple_choice). `evidence` holds message ids.
    `asker` is a member id where the benchmark has one. `abstain` marks a gold of "not in the conversation"."""

    id: str
    text: str
    answer: str
    kind: str = ""
    format: str = "short_answer"
    options: tuple[tuple[str, str], ...] = ()
    correct_option: str = ""
    evidence: tuple[str, ...] = ()
    asker: str | None = None
    abstain: bool = False
    extra: tuple[tuple[str, str], ...] = ()  # benchmark fields a scorer needs (contamination foil, trap answer)


@dataclass(frozen=True)
class Network:
    """One multi-party conversation: the unit of train/held-out splits. (benchmark, id, question id) keys a question."""

    id: str
    roster: Roster
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...] = ()
    benchmark: str = ""
    source: str = field(default="", compare=False)  # file it came from, for error messages

    def __post_init__(self) -> None:
        where = f"{self.source or 'network'} [{self.id}]"
        for unit, ids in (
            ("session", [session.id for session in self.sessions]),
            ("message", [message.id for message in self.messages()]),
            ("question", [question.id for question in self.questions]),
        ):
            repeated = {one for one in ids if ids.count(one) > 1} if len(set(ids)) != len(ids) else set()
            if repeated:
                raise DataError(f"{where}: {unit} id {sorted(repeated)[0]!r} appears more than once; ids must be unique")
        known = {member.id for member in self.roster.members}
        for session in self.sessions:
            if not session.messages:
                raise DataError(f"{where}, session {session.id!r}: no messages; remove the session or fill it")
            for message in session.messages:
                if message.speaker not in known:
                    raise DataError(
                        f"{where}, session {session.id!r}, message {message.id!r}: speaker {message.speaker!r} is not on "
                        f"the roster ({', '.join(self.roster.names)}); add the member or mend the speaker"
                    )

    def messages(self) -> Iterator[Message]:
        """All messages in network order: (session index, message index)."""
        for session in self.sessions:
            yield from session.messages
