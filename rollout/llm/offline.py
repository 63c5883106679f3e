"""Offline roles: deterministic, lexical, without network. Their scores are labelled "offline" wherever shown.

They exist so that training, tests and evaluation run anywhere; they are no match for an LLM. They favour neither
track: one function reads raw messages and derived records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from data.network import ALL, GROUP, fold
from rollout.llm.offline_answer import is_choice, lexical_answer
from rollout.llm.offline_select import Weights, ranked
from rollout.llm.offline_words import content_stems, names_in, tokens
from rollout.query.answer import ABSTENTION
from rollout.query.evidence import Evidence, Tense
from rollout.query.judge import choice_letter
from rollout.query.roles import (
    Call,
    Candidate,
    Gold,
    Projected,
    Query,
    Reply,
    Roles,
    Selected,
    Sufficiency,
    Verdict,
    VerdictKind,
)

NAME = "offline"
LONG_RECALL = 0.30  # share of a long gold's content words that a correct long answer holds (it quotes ten lines)

_FULL = re.compile(
    r"\b(before|first|earlier|earliest|used to|original|originally|initial|initially|previous|previously|former|formerly"
    r"|history|chang(?:e|es|ed|ing)|evolv(?:e|es|ed)|shift(?:s|ed)?|over time|turning point|back then|no longer)\b",
    re.IGNORECASE,
)
_GROUP = re.compile(
    r"\b(?:group(?!\s+chat)|team|everyone|everybody|we|us|our|together|decided|decide|decision|agree|agreed|consensus|norm)\b",
    re.IGNORECASE,
)
_VIEWS = "views?|opinions?|impressions?|take|thoughts?|feelings?|assessments?|judge?ments?"
_THINKS = (
    "thinks?|thought|says?|said|feels?|felt|believes?|believed|tells?|told|claims?|claimed|mention(?:s|ed)?|report(?:s|ed)?"
    "|reveal(?:s|ed)?|notes?|noted|notices?|noticed|observes?|observed|sees?|saw|describes?|described|views?|viewed"
    "|regards?|regarded|calls?|called"
)
_FIRST_PERSON = {"i": "{}", "me": "{}", "myself": "{}", "my": "{}'s", "mine": "{}'s"}
_ABSTAINS = re.compile(
    r"not (?:mentioned|stated|specified|discussed|enough information|in the conversation|available|known)|no information"
    r"|unanswerable|cannot be (?:determined|answered|inferred)|unknown",
    re.IGNORECASE,
)


class OfflineProject:
    """Names in the question are the rows (none: ALL), group words add GROUP; words of change ask for full chains;
    "X's view of Y", "what does X think about Y", "according to X" and the like constrain the source."""

    name = NAME
    fingerprint = "lexical"

    async def project(self, query: Query, names: Sequence[str]) -> Reply[Projected]:
        text = query.text if query.asker is None else as_third_person(query.text, query.asker)
        found = names_in(text, names)
        source, subjects = _relation(text, found)
        rows = subjects or ([] if source else found) or [ALL]
        if _GROUP.search(text) or GROUP in re.findall(r"\w+", text):
            rows = [*rows, GROUP]
        tense = Tense.FULL if _FULL.search(text) else Tense.HEAD
        return Reply(Projected(text, tuple(rows), tense, source), Call("project", NAME))


class OfflineSelect:
    """Ranks by fused signals (`offline_select`); asks for the surroundings of its best `anchors` messages."""

    name = NAME

    def __init__(self, weights: Weights | None = None, anchors: int = 2) -> None:
        self.weights = Weights() if weights is None else weights
        self.anchors = anchors

    @property
    def fingerprint(self) -> str:
        return f"fused {self.weights}, {self.anchors} anchors"

    async def select(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Selected]:
        text = query.text if query.asker is None else as_third_person(query.text, query.asker)
        ids = ranked(text, candidates, self.weights)
        return Reply(Selected(tuple(ids), tuple(ids[: self.anchors])), Call("select", NAME))


class OfflineAsk:
    """Never asks for more."""

    name = NAME
    fingerprint = "enough"

    async def ask(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Sufficiency]:
        return Reply(Sufficiency(enough=True), Call("ask", NAME))


class OfflineAnswer:
    """Reads the answer off the evidence line that shares most with the question (`offline_answer`)."""

    name = NAME
    fingerprint = "lexical"

    async def answer(self, query: Query, evidence: Evidence) -> Reply[str]:
        text = query.text if query.asker is None else as_third_person(query.text, query.asker)
        return Reply(lexical_answer(text, query, evidence), Call("answer", NAME))


class OfflineJudge:
    """Short answers and letters exactly after normalisation; long answers by recall of the gold's content words."""

    name = NAME
    fingerprint = f"lexical, long recall >= {LONG_RECALL}"

    async def judge(self, query: Query, gold: Gold, answer: str) -> Reply[Verdict]:
        return Reply(lexical_verdict(query, gold, answer), Call("judge", NAME))


def offline_roles() -> Roles:
    return Roles(OfflineProject(), OfflineSelect(), OfflineAsk(), OfflineAnswer(), OfflineJudge())


def as_third_person(text: str, asker: str) -> str:
    """First-person words become the asker's name."""
    pattern = re.compile(r"(?<![\w'’])(i|me|myself|my|mine)(?![\w])(?!['’](?!s\b))", re.IGNORECASE)
    return pattern.sub(lambda match: _FIRST_PERSON[match.group(1).lower()].format(asker), text)


def _relation(text: str, found: Sequence[str]) -> tuple[str | None, list[str]]:
    """The source that a question is restricted to and the members it is about, or (None, [])."""
    plain = " ".join(text.split())
    for source in found:
        x = re.escape(source)
        others = [name for name in found if name != source]
        if re.search(rf"\baccording to {x}(?!\w)|\b(?:in|from) {x}['’]s? (?:view|opinion|words|eyes)\b", plain, re.IGNORECASE):
            return source, others
        for subject in others:
            about = rf"{x}['’]s? (?:\w+ )?(?:{_VIEWS}) (?:of|on|about|towards?|for) {re.escape(subject)}"
            thinks = rf"{x} (?:\w+ )?(?:{_THINKS}) (?:\w+ )?(?:(?:of|about|on|regarding|that) )?{re.escape(subject)}"
            if re.search(rf"(?<!\w)(?:{about}|{thinks})(?!\w)", plain, re.IGNORECASE):
                return source, others
    return None, []


def lexical_verdict(query: Query, gold: Gold, answer: str) -> Verdict:
    """The offline verdict on a final answer; a gold that abstains is met by any abstention, and only by one."""
    abstains = gold.abstain or (not is_choice(query) and len(gold.answer) < 120 and _ABSTAINS.search(gold.answer) is not None)
    said_nothing = normalised(answer) == normalised(ABSTENTION) or (len(answer) < 120 and _ABSTAINS.search(answer) is not None)
    if abstains or said_nothing:
        return _verdict(bool(abstains and said_nothing), "abstention")
    if is_choice(query):
        letters = [letter for letter, _ in query.options]
        letter = choice_letter(answer, letters)
        by_text = [one for one, text in query.options if normalised(text) == normalised(answer)]
        chosen = by_text[0] if len(by_text) == 1 else letter
        return _verdict(chosen == gold.option, f"letter {chosen}")
    if query.format == "long_form":
        recall = long_recall(gold.answer, answer)
        return _verdict(recall >= LONG_RECALL, f"lexical recall {recall:.3f}")
    return _verdict(normalised(answer) == normalised(gold.answer), "exact after normalisation")


def normalised(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces."""
    return " ".join(one.folded for one in tokens(text) if one.folded not in ("a", "an", "the"))


def long_recall(gold: str, answer: str) -> float:
    """Share of the gold's content stems that the answer holds; 1 where the gold has none."""
    wanted = content_stems(gold)
    held = set(content_stems(answer))
    return sum(one in held for one in wanted) / len(wanted) if wanted else float(fold(gold) == fold(answer))


def _verdict(correct: bool, reason: str) -> Verdict:
    return Verdict(VerdictKind.CORRECT if correct else VerdictKind.INCORRECT, reason)
