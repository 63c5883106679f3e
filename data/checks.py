"""Checks of networks before they are trained on or evaluated: rows for a table, and whether CI should stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from data.importers.counts import PUBLISHED, differences
from data.network import RESERVED, DataError, Network, fold
from data.overlap import Overlap, overlap
from data.segments import segments
from data.splits import LEAK_SHARE, LONG, check_leaks

Tokenizer = Callable[[str], Sequence[int]]
"""A text to its token ids, such as `tokenizer.encode`."""


class Level(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Row:
    """One finding: which check, about which network ("" for all), and a sentence."""

    check: str
    level: Level
    network: str
    detail: str


@dataclass(frozen=True)
class Report:
    """All findings in the order of the checks."""

    rows: tuple[Row, ...]

    @property
    def failed(self) -> bool:
        return any(row.level is Level.ERROR for row in self.rows)

    @property
    def exit_code(self) -> int:
        """1 where there is an error, else 0: what CI reads."""
        return int(self.failed)

    def table(self) -> list[tuple[str, str, str, str]]:
        """(check, level, network, detail) of each row."""
        return [(row.check, row.level.value, row.network, row.detail) for row in self.rows]


def check(
    networks: Sequence[Network],
    heldout: Sequence[Network] = (),
    tokenizer: Tokenizer | None = None,
    window: int | None = None,
    max_tokens: int | None = None,
) -> Report:
    """Check `networks`, and against `heldout` that nothing leaks. With a tokenizer, lengths of messages and of segments
    (windows of `window` messages) are counted; a segment above `max_tokens` is an error. Never raises for bad data."""
    rows: list[Row] = []
    if not networks:
        rows.append(Row("schema", Level.ERROR, "", "there are no networks"))
    for side in (networks, heldout):
        for network_id, times in Counter(network.id for network in side).items():
            if times > 1:
                rows.append(Row("schema", Level.ERROR, network_id, f"{times} networks have this id"))
    for network in (*networks, *heldout):
        for part in (_schema, _roster, _times, _duplicates):
            rows += part(network)
    rows += _kinds(networks) + _leaks(networks, heldout)
    if tokenizer is not None:
        rows += [row for network in networks for row in _lengths(network, tokenizer, window, max_tokens)]
    return Report(tuple(rows))


def unreadable(error: DataError) -> Report:
    """The report on a path that could not be loaded at all."""
    return Report((Row("schema", Level.ERROR, "", str(error)),))


def _schema(network: Network) -> list[Row]:
    known = {message.id for message in network.messages()}
    members = {member.id for member in network.roster.members}
    texts = sum(bool(message.text.strip()) for message in network.messages())
    size = (
        f"{len(members)} members, {len(network.sessions)} sessions, {len(known)} messages, {len(network.questions)} questions"
    )
    faults = {"message without text": len(known) - texts}
    faults["reply to a message that is not there"] = sum(
        message.reply_to is not None and message.reply_to not in known for message in network.messages()
    )
    questions = network.questions
    faults["question without evidence"] = sum(not question.evidence and not question.abstain for question in questions)
    faults["evidence that names no message"] = sum(key == "unresolved_evidence" for one in questions for key, _ in one.extra)
    rows = [Row("schema", Level.INFO, network.id, size)]
    rows += [Row("schema", Level.WARNING, network.id, f"{count} x {what}") for what, count in faults.items() if count]
    if not known:
        rows.append(Row("schema", Level.ERROR, network.id, "no messages"))
    for question in questions:
        for fault in _question_faults(question.evidence, known, question.asker, members):
            rows.append(Row("schema", Level.ERROR, network.id, f"question {question.id!r}: {fault}"))
        letters = dict(question.options)
        if question.format == "multiple_choice" and question.correct_option not in letters:
            detail = f"question {question.id!r}: correct option {question.correct_option!r} is not among {', '.join(letters)}"
            rows.append(Row("schema", Level.ERROR, network.id, detail))
        if not question.text.strip() or not question.answer.strip():
            rows.append(Row("schema", Level.ERROR, network.id, f"question {question.id!r}: no text or no answer"))
    return rows


def _question_faults(evidence: Iterable[str], known: set[str], asker: str | None, members: set[str]) -> list[str]:
    faults = [f"evidence {one!r} is no message" for one in evidence if one not in known]
    return faults + ([f"asker {asker!r} is not on the roster"] if asker is not None and asker not in members else [])


def _roster(network: Network) -> list[Row]:
    members = network.roster.members
    spoken = {message.speaker for message in network.messages()}
    labels = Counter(fold(member.label) for member in members)
    shared = sorted(label for label, times in labels.items() if times > 1)
    reserved = sorted(label for label in labels if label in RESERVED)
    found = {
        Level.INFO: [
            (sum(member.bot for member in members), "bots"),
            (sum(member.id not in spoken for member in members), "members who never speak"),
        ],
        Level.WARNING: [
            (len(shared), f"labels of more than one member: {', '.join(shared[:3])}; their names carry the id"),
            (len(reserved), f"labels that are reserved words: {', '.join(reserved)}; their names carry the id"),
            (int(len(spoken) < 2), "network with fewer than two speakers"),
        ],
    }
    return [
        Row("roster", level, network.id, f"{count} {what}") for level, pairs in found.items() for count, what in pairs if count
    ]


def _times(network: Network) -> list[Row]:
    messages = list(network.messages())
    backwards = 0
    for session in network.sessions:
        known = [message.instant for message in session.messages if message.instant is not None]
        backwards += sum(later < earlier for earlier, later in pairwise(known))
    facts = [
        (Level.WARNING, backwards, "messages earlier than the one before them; the source's order holds"),
        (Level.WARNING, sum(message.instant is None for message in messages), "messages without a time"),
        (Level.INFO, sum(bool(one.instant) and one.zone_assumed for one in messages), "times without a zone, taken as UTC"),
    ]
    return [Row("times", level, network.id, f"{count} {what}") for level, count, what in facts if count]


def _duplicates(network: Network) -> list[Row]:
    said = Counter((message.speaker, fold(message.text)) for message in network.messages() if len(message.text) >= LONG)
    asked = Counter(fold(question.text) for question in network.questions)
    facts = [
        (sum(times - 1 for times in said.values()), f"messages of {LONG} and more characters repeat one of the same speaker"),
        (sum(times - 1 for times in asked.values()), "questions repeat another's text"),
    ]
    return [Row("duplicates", Level.WARNING, network.id, f"{count} {what}") for count, what in facts if count]


def _kinds(networks: Sequence[Network]) -> list[Row]:
    rows = []
    for benchmark in sorted({network.benchmark for network in networks}):
        own = [network for network in networks if network.benchmark == benchmark]
        kinds = Counter(question.kind or "(none)" for network in own for question in network.questions)
        counted = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())) or "no questions"
        rows.append(Row("kinds", Level.INFO, "", f"{benchmark or 'own data'}: {counted}"))
        published = PUBLISHED.get(benchmark)
        if published is not None and len(own) == published.networks:
            rows += [Row("kinds", Level.ERROR, "", f"{benchmark}: {one} as published") for one in differences(own, benchmark)]
    return rows


def _leaks(train: Sequence[Network], heldout: Sequence[Network]) -> list[Row]:
    """Ids and equal messages as in `data.splits`, then near-equal messages and equal questions."""
    rows = []
    for network in heldout:
        try:
            check_leaks(train, [network])
        except DataError as error:
            rows.append(Row("leaks", Level.ERROR, network.id, str(error)))
    for found in overlap(train, heldout):
        rows += _overlap_rows(found)
    if heldout and not rows:
        rows.append(Row("leaks", Level.INFO, "", f"none between {len(train)} training and {len(heldout)} held-out networks"))
    return rows


def _overlap_rows(found: Overlap) -> list[Row]:
    rows = []
    if found.close:
        level = Level.ERROR if found.close >= LEAK_SHARE * found.compared else Level.WARNING
        detail = f"{found.close} of {found.compared} longer messages are equal or near-equal to training messages"
        rows.append(Row("leaks", level, found.network, f"{detail}, such as {found.example!r}"))
    if found.questions:
        rows.append(Row("leaks", Level.WARNING, found.network, f"{found.questions} questions are asked in training too"))
    return rows


def _lengths(network: Network, tokenizer: Tokenizer, window: int | None, max_tokens: int | None) -> list[Row]:
    """Tokens of message texts, and of segments as the sum of their `name: text` lines."""
    longest, where = 0, ""
    totals = []
    for segment in segments(network, window):
        lines = [f"{segment.roster.name(one.speaker)}: {one.text}\n" for one in segment.messages]
        counts = [len(tokenizer(line)) for line in lines]
        totals.append(sum(counts))
        if max(counts) > longest:
            longest, where = max(counts), segment.messages[counts.index(max(counts))].id
    if not totals:
        return []
    mean = sum(totals) / len(totals)
    detail = f"segments: {max(totals)} tokens at most, {mean:.0f} on average, longest message {longest} ({where})"
    rows = [Row("tokens", Level.INFO, network.id, detail)]
    over = sum(total > max_tokens for total in totals) if max_tokens is not None else 0
    if over:
        rows.append(
            Row("tokens", Level.ERROR, network.id, f"{over} segments are longer than {max_tokens} tokens; use a window")
        )
    return rows
