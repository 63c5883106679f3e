"""WhatsApp's line format over its locales: the header of a message, date order, 12 and 24 hours, media and notices."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"  # invisible direction marks
SPACES = str.maketrans(dict.fromkeys("\u00a0\u202f\u2009\u2007\u3000", " "))
NO_MARKS = dict.fromkeys(map(ord, MARKS))
NOTICE_MARK = "\u200e"  # the apps put it before what no member typed: notices and media lines

PM = {"pm", "nachm", "μμ", "ös", "下午", "오후", "午後", "م", "ch"}
HALF_DAY = r"[aApP]\.?\ ?[mM]\.?|vorm\.|nachm\.|[πμ]\.?\ ?μ\.?|Ö[ÖS]|SA|CH|上午|下午|오전|오후|午前|午後|ص|م"

HEADER = re.compile(
    rf"""
    [{MARKS}]* (?P<bracket>\[)? [{MARKS}]*
    (?P<a>\d{{1,4}}) [./\-年년] \ ? (?P<b>\d{{1,2}}) [./\-月월] \ ? (?P<c>\d{{1,4}}) [.日일]?
    ,? \ {{0,2}} (?:(?:um|klo|kl\.?|a\ las|à|às|alle|at|om) \ )?
    (?P<before>{HALF_DAY})? \ ?
    (?P<hour>\d{{1,2}}) [:.] (?P<minute>\d\d) (?:[:.](?P<second>\d\d))?
    \ ? (?P<after>{HALF_DAY})?
    (?(bracket) (?P<end>\]) \ ? | (?P<dash>\ [-–]\ |:\ |,\ ))
    """,
    re.VERBOSE,
)
FILE_KINDS = "media|medien|multimedia|mídia|midia|médias|medya|медиа|メディア|媒体|媒體|미디어"
FILE_KINDS += "|audio|image|imagen|video|bild|foto|sticker|gif"
MEDIA_TYPED = re.compile(  # without the mark, only what nobody types
    rf"<[^<>\n]*(?:{FILE_KINDS})[^<>\n]*>|(?:IMG|VID|PTT|AUD|DOC|STK)-\d{{8}}-WA\d+\.\w{{2,5}}(?: \([^()\n]+\))?",
    re.IGNORECASE,
)
MEDIA_MARKED = re.compile(
    r"<[^<>\n]+:[^<>\n]+>|.+\.\w{2,5} \([^()\n]{3,40}\)"
    r"|(?:.{1,40} )?(?:omitted|weggelassen|ausgeschlossen|omitid[oa]s?|omise?s?|absente?s?|ocultad?[oa]|omess[oaie]|weggelaten)"
    r"\.?",
    re.IGNORECASE,
)
NOTICE = re.compile(
    r"end-to-end|Ende-zu-Ende|cifrados? de extremo|chiffrés? de bout|criptografia de ponta|crittografia end|"
    r"security code|Sicherheitsnummer|código de segur|code de sécurité|"
    r"created (?:this )?group|changed (?:the|this|their)|joined using|"
    r"hat die Gruppe|Du hast die|creó el grupo|cambió el|a créé le groupe|a changé|criou o grupo|mudou o|ha creato il gruppo|"
    r"hinzugefügt|beigetreten|entfernt|(?:missed|verpasst\w*) (?:voice|video|group|Sprach|Video)",
    re.IGNORECASE,
)
DELETED = re.compile(
    r"(?:This message was deleted|You deleted this message|Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht|"
    r"Se eliminó este mensaje|Eliminaste este mensaje|Ce message a été supprimé|Vous avez supprimé ce message|"
    r"Mensagem apagada|Você apagou esta mensagem|Questo messaggio è stato eliminato|Hai eliminato questo messaggio)\.?",
    re.IGNORECASE,
)
QUOTES = '"“”„«»'


class DateOrder(Enum):
    """Where day, month and year stand: the value gives their places in the header's three numbers."""

    DAY_FIRST = (0, 1, 2)
    MONTH_FIRST = (1, 0, 2)
    YEAR_FIRST = (2, 1, 0)

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Header:
    """The start of a message. `numbers` are the date's as they stand, `clock` the time of a 24-hour day, `time` the
    source's own string, `rest` what follows; `style` tells the app's forms apart; `american`: slashes and a half-day."""

    numbers: tuple[int, int, int]
    clock: tuple[int, int, int]
    time: str
    rest: str
    style: str
    american: bool

    def at(self, order: DateOrder) -> datetime | None:
        """The wall time read in `order`, taken as UTC; None where no such time exists."""
        day, month, year = (self.numbers[place] for place in order.value)
        try:
            return datetime(year + 2000 if year < 100 else year, month, day, *self.clock, tzinfo=UTC)
        except ValueError:
            return None


def read_header(line: str) -> Header | None:
    """The header a line begins with, or None for a line that continues a message."""
    match = HEADER.match(line.translate(SPACES))
    if match is None:
        return None
    half = (match["before"] or match["after"] or "").lower().replace(".", "").replace(" ", "")
    hour = int(match["hour"])
    if half and 1 <= hour <= 12:  # "13:05 PM" is seen: there the number speaks for itself
        hour = hour % 12 + (12 if half in PM else 0)
    written = line[: match.start("end") if match["bracket"] else match.start("dash")].translate(SPACES).translate(NO_MARKS)
    return Header(
        numbers=(int(match["a"]), int(match["b"]), int(match["c"])),
        clock=(hour, int(match["minute"]), int(match["second"] or 0)),
        time=" ".join(written.replace("[", "").split()),
        rest=line[match.end() :],
        style=match["end"] or match["dash"],
        american="/" in match[0] and bool(half),
    )


class OrderEvidence:
    """Collects every header's numbers and decides one date order for the file."""

    def __init__(self) -> None:
        self.headers = 0
        self._american = 0
        self._valid: Counter[DateOrder] = Counter()
        self._backwards: Counter[DateOrder] = Counter()
        self._last: dict[DateOrder, datetime] = {}

    def add(self, header: Header) -> None:
        self.headers += 1
        self._american += header.american
        year_first = header.numbers[0] > 31
        for order in DateOrder:
            time = header.at(order) if (order is DateOrder.YEAR_FIRST) == year_first else None
            if time is not None:
                self._valid[order] += 1
                self._backwards[order] += order in self._last and time < self._last[order]
                self._last[order] = time

    def decide(self) -> tuple[DateOrder, str]:
        """The order that most lines allow; then the one with fewer steps back in time; then what such phones write.

        Returns the order and a sentence that says how it was found.
        """
        best = max(self._valid.values(), default=0)
        fitting = [order for order in DateOrder if self._valid[order] == best]
        if len(fitting) == 1:
            return fitting[
                0
            ], f"dates are {fitting[0].words}: {best} of {self.headers} lines allow it, more than any other order"
        least = min(self._backwards[order] for order in fitting)
        ordered = [order for order in fitting if self._backwards[order] == least]
        if len(ordered) == 1:
            return ordered[0], f"dates are {ordered[0].words}: the other order goes back in time more often"
        order = DateOrder.MONTH_FIRST if self._american * 2 > self.headers else DateOrder.DAY_FIRST
        return order, f"dates are taken as {order.words}: no line of the file decides it"


def trim(text: str) -> str:
    """Without outer white space and outer direction marks; what is inside the text stays as it is."""
    while text != (shorter := text.strip().strip(MARKS)):
        text = shorter
    return text


def split_speaker(rest: str) -> tuple[str, str] | None:
    """(label, text) after a header, or None for a notice, which has no speaker.

    A quotation mark before the first ": " belongs to a notice such as: Ann created group "Rome: the plan".
    """
    first, newline, more = rest.partition("\n")
    label, colon, text = first.partition(": ")
    if not colon:
        stripped = first.rstrip()
        if not stripped.endswith(":"):
            return None
        label, text = stripped[:-1], ""
    label = " ".join(label.translate(SPACES).translate(NO_MARKS).strip().removeprefix("~").split())
    if not label or any(quote in label for quote in QUOTES) or len(label) > 100:
        return None
    return label, text + newline + more


def is_media(text: str) -> bool:
    """A line that stands for a picture, voice note or file."""
    first = text.partition("\n")[0]
    bare = trim(first.translate(SPACES))
    marked = first.lstrip().startswith(NOTICE_MARK) and MEDIA_MARKED.fullmatch(bare) is not None
    return marked or MEDIA_TYPED.fullmatch(bare) is not None


def is_notice(text: str, label: str) -> bool:
    """A line of the app's own that carries a speaker: a deleted message, or what the mark opens and somebody did."""
    plain = trim(text)
    if DELETED.fullmatch(plain):
        return True
    if not text.lstrip().startswith(NOTICE_MARK) or is_media(text):
        return False
    return plain.startswith(label) or NOTICE.search(plain) is not None
