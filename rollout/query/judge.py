"""Judge: reading a verdict and a chosen letter without ever guessing (pitfall 36)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rollout.query.roles import Verdict, VerdictKind

_FINAL = re.compile(r"^\s*\**final(?: verdict| answer)?\s*:\**(.*)$", re.IGNORECASE)
_LONE = re.compile(r"^[\s(\[*\"']*([A-Za-z])[\s)\]*\"'.:,]*$")
_MARKED = re.compile(r"(?<![A-Za-z0-9'])([A-Z])(?=[.):,])")
_NAMED = re.compile(r"(?:answer|choice|option)\s*(?:is|:)?\s*[(\[\"'*]*([A-Z])(?![A-Za-z0-9'])", re.IGNORECASE)


def read_verdict(text: str) -> Verdict:
    """The last "Final:" line must say exactly `correct` or `incorrect`, whatever its case and punctuation; a reply of
    that one word alone counts too. Everything else, "not correct" included, is unparsed."""
    finals = [found.group(1) for line in text.splitlines() if (found := _FINAL.match(line))]
    said = re.sub(r"[^a-z ]", "", (finals[-1] if finals else text).casefold()).strip()
    if said in (VerdictKind.CORRECT.value, VerdictKind.INCORRECT.value):
        return Verdict(VerdictKind(said), "")
    return Verdict(VerdictKind.UNPARSED, f"no verdict in {text.strip()[-80:]!r}")


def choice_letter(answer: str, letters: Sequence[str]) -> str | None:
    """The option letter that an answer states: a lone letter; else a letter followed by `.`, `)`, `:` or `,`; else one
    after answer, choice or option. A bare "a" in prose is an article, never a choice."""
    text = answer.strip()
    if lone := _LONE.match(text):
        return _known(lone.group(1).upper(), letters)
    for pattern in (_MARKED, _NAMED):
        for found in pattern.finditer(text):
            if found.group(1) != "a" and (letter := _known(found.group(1).upper(), letters)):
                return letter
    return None


def _known(letter: str, letters: Sequence[str]) -> str | None:
    return letter if letter in letters else None
