"""Words as the offline roles see them: tokens with offsets, light stems, stop words, names in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from data.network import fold

_TOKEN = re.compile(r"[㐀-䶿一-鿿豈-﫿]|(?:(?![㐀-䶿一-鿿豈-﫿])\w)+")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s?(?!\w)")
_CONTRACTION = re.compile(r"(?<=\w)['’](?=\w)")

_STOP_WORDS = """
a an the and or but nor so if then than that this these those there here it its he she they them his her hers their
theirs him i me my mine myself you your yours we us our ours is am are was were be been being do does did done doing has
have had having will would shall should can could may might must of in on at to from for with by about as into onto over
under up down out off again also just only very too not no yes now still already currently current today what which who
whom whose when where why how all any both each every some such one ones other another same own more most much many
thing things get gets got please tell say says said think thinks thought know knows known mention mentioned according
change changed changes ever new old before after first earlier earliest originally previously used use initially last
latest recent recently im ive id isnt wasnt dont didnt doesnt thats whats lets ok okay well oh hey yeah really actually
maybe like btw lol haha fyi quick note hi hello way
"""
_CONNECTORS = "of and the a an in on at to for with by de la le"
STOP = frozenset(_STOP_WORDS.split())
CONNECTORS = frozenset(_CONNECTORS.split())


@dataclass(frozen=True, slots=True)
class Token:
    """A word as written and as compared."""

    text: str
    folded: str
    stem: str


def tokens(text: str) -> list[Token]:
    """Words in text order: possessive endings go, contractions join ("don't" -> "dont"), CJK characters stand alone."""
    plain = _CONTRACTION.sub("", _POSSESSIVE.sub("", unicodedata.normalize("NFC", text)))
    return [Token(word, word.casefold(), stem(word.casefold())) for word in _TOKEN.findall(plain)]


def stem(word: str) -> str:
    """A light English stem: plural, past and -ing endings, and a silent e, where at least three letters stay."""
    if not word.isascii() or len(word) < 4 or word[-1].isdigit():
        return word
    for ending, least in (("ies", 2), ("sses", 3), ("ing", 3), ("ed", 3), ("es", 3), ("s", 3)):
        if word.endswith(ending) and len(word) - len(ending) >= least and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + {"ies": "y", "sses": "ss"}.get(ending, "")
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]  # planned -> plann -> plan
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def content_stems(text: str, without: Iterable[str] = ()) -> list[str]:
    """Stems of words that are not stop words and not in `without` (folded words), in order, each once."""
    left_out = set(without)
    kept = [one.stem for one in tokens(text) if one.folded not in STOP and one.folded not in left_out]
    return list(dict.fromkeys(kept))


def names_in(text: str, names: Sequence[str]) -> list[str]:
    """Names found in a text as whole folded words, in order of appearance; the longest name wins where they overlap.

    A name that is also a common word ("Will", "May") counts only where it is not written in lower case.
    """
    plain = " ".join(unicodedata.normalize("NFC", text).split())
    taken = [""] * len(plain)  # the spelling that holds each character
    found: list[tuple[int, str]] = []
    spellings = dict.fromkeys((spelling, name) for name in names for spelling in (name, _label(name)))
    for spelling, name in sorted(spellings, key=lambda one: (-len(one[0]), one)):
        for match in re.finditer(rf"(?<!\w){re.escape(spelling)}(?!\w)", plain, re.IGNORECASE):
            if any(held not in ("", spelling) for held in taken[match.start() : match.end()]):
                continue
            if fold(match.group()) in STOP and match.group().islower():
                continue
            taken[match.start() : match.end()] = [spelling] * (match.end() - match.start())
            found.append((match.start(), name))
    order = {name: index for index, name in enumerate(names)}
    return list(dict.fromkeys(name for _, name in sorted(found, key=lambda one: (one[0], order[one[1]]))))


def _label(name: str) -> str:
    """The label of `label (id)`, the name of a member who shares a label: both members are meant, none is guessed."""
    return re.sub(r" \([^()]*\)$", "", name)


def name_words(names: Iterable[str]) -> set[str]:
    """Folded words that names consist of."""
    return {one.folded for name in names for one in tokens(name)}
