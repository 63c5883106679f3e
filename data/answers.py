"""Reading a multiple-choice answer without a model: EverMemBench's official letter match."""

from __future__ import annotations

import re

ALONE = re.compile(r"[\s(\"'\[]*([A-Da-d])[\s).:,\"'\]]*")
MARKED = re.compile(r"(?<![\w.'’-])(?:([A-D])|(?<=\()([b-d]))[.):,]|\A\s*\(?([a-d])[.):](?!\w)")
NAMED = re.compile(r"\b(?i:answer|choice|option)s?\b(?:\s+(?:is|would be))?[\s:=(\"']*(?:([A-D])|([b-d])|(a)(?=\W*\Z))(?!\w)")


def option_letter(answer: str) -> str | None:
    """The option A to D that an answer picks, upper case; None where it picks none.

    A lone letter; else the first letter followed by one of . ) : or , ; else the letter after answer, choice or option.
    The English article "a" is never a letter: inside a sentence only a capital A is one.
    """
    plain = answer.replace("*", "").replace("`", "").strip()
    alone = ALONE.fullmatch(plain)
    if alone:
        return alone[1].upper()
    for pattern in (MARKED, NAMED):
        match = pattern.search(plain)
        if match:
            return next(letter for letter in match.groups() if letter).upper()
    return None
