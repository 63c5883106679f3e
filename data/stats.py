"""Numbers about networks, and the same as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from data.network import DataError, Network

SHOWN = 20  # bars in a picture; the rest is summed


@dataclass(frozen=True)
class Stats:
    """`session_lengths` and `message_lengths` have one number a session (messages) and a message (characters);
    `by_member` counts messages by `network / name`, `kinds` questions by kind, `days` messages by day (UTC)."""

    networks: int
    members: int
    bots: int
    questions: int
    session_lengths: tuple[int, ...]
    message_lengths: tuple[int, ...]
    by_member: Mapping[str, int]
    kinds: Mapping[str, int]
    days: Mapping[str, int]

    def rows(self) -> list[tuple[str, str]]:
        """(what, number) for a table."""
        return [
            ("networks", str(self.networks)),
            ("members", f"{self.members} ({self.bots} bots)"),
            ("sessions", str(len(self.session_lengths))),
            ("messages", str(len(self.message_lengths))),
            ("questions", str(self.questions)),
            ("messages a session", _spread(self.session_lengths)),
            ("characters a message", _spread(self.message_lengths)),
            ("days", f"{len(self.days)} ({min(self.days)} to {max(self.days)})" if self.days else "unknown"),
            *((f"questions {kind}", str(count)) for kind, count in self.kinds.items()),
        ]


def _spread(values: Sequence[int]) -> str:
    return f"mean {mean(values):.1f}, median {median(values):g}, most {max(values)}" if values else "none"


def stats(networks: Sequence[Network]) -> Stats:
    """Counts over all networks."""
    messages = [(network, message) for network in networks for message in network.messages()]
    by_member = Counter(f"{network.id} / {network.roster.name(message.speaker)}" for network, message in messages)
    kinds = Counter(question.kind or "(none)" for network in networks for question in network.questions)
    days = Counter(message.instant.date().isoformat() for _, message in messages if message.instant is not None)
    return Stats(
        networks=len(networks),
        members=sum(len(network.roster.members) for network in networks),
        bots=sum(member.bot for network in networks for member in network.roster.members),
        questions=sum(len(network.questions) for network in networks),
        session_lengths=tuple(len(session.messages) for network in networks for session in network.sessions),
        message_lengths=tuple(len(message.text) for _, message in messages),
        by_member=dict(by_member.most_common()),
        kinds=dict(sorted(kinds.items())),
        days=dict(sorted(days.items())),
    )


def draw(numbers: Stats, path: Path) -> None:
    """Four panels as a PNG: messages a session, characters a message, messages by member, questions by kind.

    Errors: DataError where the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # heavy; only the picture needs it
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    FigureCanvasAgg(figure)
    ((first, second), (third, fourth)) = figure.subplots(2, 2)
    first.hist(numbers.session_lengths, bins=30)
    first.set(title=f"{len(numbers.session_lengths)} sessions", xlabel="messages a session")
    second.hist(numbers.message_lengths, bins=30, log=bool(numbers.message_lengths))
    second.set(title=f"{len(numbers.message_lengths)} messages", xlabel="characters a message")
    for axes, counts, title in (
        (third, numbers.by_member, f"messages of {len(numbers.by_member)} speakers"),
        (fourth, numbers.kinds, f"{numbers.questions} questions by kind"),
    ):
        bars = _bars(counts)
        axes.barh(range(len(bars)), [count for _, count in bars])
        axes.set_yticks(range(len(bars)), [_plain(name) for name, _ in bars])
        axes.invert_yaxis()
        axes.set(title=title)
    try:
        figure.savefig(path, format="png", dpi=120)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); name a folder you may write to") from error


def _bars(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    items = list(counts.items())
    rest = sum(count for _, count in items[SHOWN:])
    return items[:SHOWN] + ([(f"{len(items) - SHOWN} others", rest)] if rest else [])


def _plain(name: str) -> str:
    """A label as it is: a dollar sign opens no formula."""
    return name.replace("$", r"\$")[:40]
