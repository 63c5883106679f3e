"""The offline answerer: lexical, one scoring for both tracks."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from data.network import GROUP
from rollout.llm.offline_words import CONNECTORS, STOP, Token, content_stems, name_words, names_in, tokens
from rollout.query.answer import ABSTENTION
from rollout.query.evidence import Evidence, Line
from rollout.query.roles import Query

LEAST_OVERLAP = 0.20  # below this share of the question's weight nothing is known about it
PERSON_BONUS = 0.50  # the line's person (owner; source under a relation constraint) is one whom the question names
MENTION_BONUS = 0.25  # its text names the persons of the question: this times their share
ASKING = -0.25  # the line itself asks
PEER_SHARES = (0.80, 0.30)  # a line of the same owner with this share of the best overlap is on the same subject
TOP_CHOICE = 5  # lines that vote for an option
TOP_LONG = 10  # lines that make a long answer

_FIRST = re.compile(r"\b(first|original|originally|initial|initially|earliest|at the start|to begin with)\b", re.IGNORECASE)
_BEFORE = re.compile(r"\b(before|earlier|previous|previously|former|formerly|used to|prior|back then)\b", re.IGNORECASE)
_WHO = re.compile(r"\b(who|whose|whom)\b|\b(?:which|what) (?:person|member|one of)\b", re.IGNORECASE)
_SAID = re.compile(
    r"\b(?:said|say|says|told|tell|tells|announced?|announces|suggest(?:s|ed)?|mention(?:s|ed)?|report(?:s|ed)?|reveal(?:s|ed)?"
    r"|claim(?:s|ed)?|propos(?:e|es|ed)|point(?:s|ed) out|noted?|notic(?:e|es|ed)|observ(?:e|es|ed)|brought up|according)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Scored:
    line: Line
    place: int  # position in the evidence: breaks ties of equal age
    overlap: float  # idf-weighted share of the question's content words, 0..1
    bonus: float
    score: float

    @property
    def age(self) -> tuple[int, int]:
        """Older is smaller: message number, then place in the chain."""
        return (self.line.order, self.line.depth)


def is_choice(query: Query) -> bool:
    return query.format == "multiple_choice" and bool(query.options)


def said_question(text: str) -> bool:
    """Whether "who" asks for the speaker, the source, and not for the person concerned."""
    return _SAID.search(text) is not None


def lexical_answer(text: str, query: Query, evidence: Evidence) -> str:
    """The answer to `text` (the question, first person resolved) from the evidence lines alone."""
    people = _people(evidence)
    named = names_in(text, people)
    scored = _score(text, named, people, evidence)
    if is_choice(query):
        return _choice(text, query, named, people, scored)
    if query.format == "long_form":
        shown = [one.line.record for one in scored if one.score > 0][:TOP_LONG]
        return "\n".join(f"{record.owner}: {record.content}" for record in shown) or ABSTENTION
    top = [one for one in scored if one.overlap >= LEAST_OVERLAP and (one.bonus > 0 or not named)]
    if not top:
        return ABSTENTION
    best = _in_time(text, top, people)
    if _WHO.search(text):
        return _who(text, named, people, best)
    return _residual(text, people, best.line) or ABSTENTION


def _people(evidence: Evidence) -> list[str]:
    """Everybody whom the evidence knows: owners, sources and the rows."""
    names = {name: None for line in evidence.lines for name in (line.record.owner, line.record.source, line.row) if name}
    return [name for name in names if name != GROUP]


def _score(text: str, named: Sequence[str], people: Sequence[str], evidence: Evidence) -> list[_Scored]:
    """All lines, one per record, best first; newest first among equals (a record after the message that it came from)."""
    lines = {line.record.entry_id: (place, line) for place, line in reversed(list(enumerate(evidence.lines)))}
    left_out = name_words(people)
    wanted = content_stems(text, left_out)
    stems = {one: set(content_stems(line.record.content, left_out)) for one, (_, line) in lines.items()}
    holding = {word: sum(word in held for held in stems.values()) for word in wanted}
    weight = {word: math.log(1 + (len(lines) + 1) / (1 + count)) for word, count in holding.items()}
    whole = math.fsum(weight.values())
    scored = []
    for entry, (place, line) in lines.items():
        shared = math.fsum(weight[word] for word in wanted if word in stems[entry])
        overlap = round(shared / whole, 9) if wanted else 1.0
        person = line.record.source if evidence.source is not None else line.record.owner
        about = [evidence.source] if evidence.source is not None else named
        bonus = PERSON_BONUS if person in about else 0.0
        others = [name for name in named if name != person]
        if others:
            bonus += MENTION_BONUS * len(names_in(line.record.content, others)) / len(others)
        asking = ASKING if line.record.content.rstrip().endswith(("?", "？")) else 0.0
        scored.append(_Scored(line, place, overlap, bonus, round(overlap + bonus + asking, 9)))
    return sorted(scored, key=lambda one: (-one.score, -one.line.order, -one.line.depth, -one.place))


def _in_time(text: str, top: Sequence[_Scored], people: Sequence[str]) -> _Scored:
    """The line to read: the best; for questions about the past an older line of the same owner on the same subject
    that says something else (the oldest for "first", the newest of them for "before")."""
    best = top[0]
    if _FIRST.search(text):
        return min(_peers(top, PEER_SHARES[0]), key=lambda one: (one.age, -one.place))
    if not _BEFORE.search(text):
        return best
    says = {one.stem for one in _left(text, people, best.line)}
    for share in PEER_SHARES:  # the lower one for a question that names the newer value: only the best line holds it
        older = []
        for one in _peers(top, share):
            left = {token.stem for token in _left(text, people, one.line)}
            if one.age < best.age and left and not left & says:
                older.append(one)
        if older:
            return max(older, key=lambda one: (one.age, one.place))
    return best


def _peers(top: Sequence[_Scored], share: float) -> list[_Scored]:
    """Lines of the best line's owner that are on its subject, the best one among them."""
    best = top[0]
    return [one for one in top if one.line.record.owner == best.line.record.owner and one.overlap >= share * best.overlap]


def _who(text: str, named: Sequence[str], people: Sequence[str], best: _Scored) -> str:
    """The owner of the line, or its source where the question asks who said it. Where that is whom the question names
    already, the person whom the text names, else the rest of the text."""
    record = best.line.record
    person = record.source if said_question(text) else record.owner
    if person != GROUP and person not in named:
        return person
    others = [name for name in names_in(record.content, people) if name not in named]
    return others[0] if others else _residual(text, people, best.line) or ABSTENTION


def _left(text: str, people: Sequence[str], line: Line) -> list[Token]:
    known = {one.stem for one in tokens(text)}
    names = name_words(people)
    return [
        one
        for one in tokens(line.record.content)
        if one.stem not in known and one.folded not in STOP and one.folded not in names
    ]


def _residual(text: str, people: Sequence[str], line: Line) -> str:
    """What the line says beyond the question: its words without the question's, stop words and names, in order, with
    the small words that join two of them ("house of cards")."""
    wanted = iter(_left(text, people, line))
    expected = next(wanted, None)
    words: list[str] = []
    joining: list[str] = []
    for one in tokens(line.record.content):
        if expected is not None and one == expected:
            words += [*(joining if words else []), one.text]
            joining = []
            expected = next(wanted, None)
        elif one.folded in CONNECTORS and words:
            joining.append(one.text)
        else:
            joining = []
    return " ".join(words)


def _choice(text: str, query: Query, named: Sequence[str], people: Sequence[str], scored: Sequence[_Scored]) -> str:
    """The letter for which the top lines speak most: a person option by who the line is about (or by whom, where the
    question asks that) and whom it names, any other by the words it shares. Ties go to the first letter."""
    votes = []
    for letter, option in query.options:
        votes.append((letter, math.fsum(one.score * _agreement(text, option, people, one.line) for one in scored[:TOP_CHOICE])))
    best = max(votes, key=lambda vote: vote[1])
    return best[0] if best[1] > 0 else ABSTENTION


def _agreement(text: str, option: str, people: Sequence[str], line: Line) -> float:
    person = line.record.source if said_question(text) else line.record.owner
    persons = names_in(option, [*people, option]) if len(tokens(option)) <= 3 else []
    if any(one in people for one in persons):
        if person in persons:
            return 1.0
        return 0.5 if names_in(line.record.content, persons) else 0.0
    words = content_stems(option)
    held = set(content_stems(line.record.content))
    return sum(one in held for one in words) / len(words) if words else 0.0
