"""Messages on their way into a store: what a chat export or a bot hands over, and who it says spoke."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from data.instants import read_instant
from data.network import DataError

FIELDS = ("speaker", "text", "label", "channel", "platform", "session", "id", "time", "reply_to", "bot")


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message. The speaker is the account `speaker` on `platform`, shown as `label` (empty: the account itself).
    `id` is the message's own id in its `channel`, where the source has one. `time` stays as the source wrote it."""

    speaker: str
    text: str
    label: str = ""
    channel: str = ""
    platform: str = ""
    session: str = ""
    id: str = ""
    time: str = ""
    reply_to: str | None = None
    bot: bool = False

    @property
    def member_id(self) -> str:
        """The roster id: the account, with the platform before it where there is one. One-to-one."""
        if not self.platform and "/" not in self.speaker:
            return self.speaker
        return f"{self.platform.replace('%', '%25').replace('/', '%2F')}/{self.speaker}"

    @property
    def session_id(self) -> str:
        """The session as records name it: channels never share one."""
        return "/".join(part for part in (self.channel, self.session) if part) or "main"

    def instant(self) -> tuple[datetime | None, bool]:
        """(UTC instant, zone assumed); no instant where the source's time is not ISO 8601: the string stays."""
        try:
            return read_instant(self.time, "time")
        except DataError:
            return None, True

    def key(self, repeat: int) -> str:
        """What makes this message this message in its channel: its id, else its content. `repeat` counts equal contents
        in one batch, so that "ok" said twice is two messages and a retried batch is none."""
        if self.id:
            return f"id:{self.id}"
        content = json.dumps([self.member_id, self.session, self.time, self.text, repeat], ensure_ascii=False)
        return f"content:{hashlib.sha256(content.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A line that is no message: where it stood and why. Never dropped in silence, never the end of an import."""

    line: int
    reason: str


def read_message(value: object) -> Incoming:
    """A message from a plain mapping with the keys of `Incoming` (numbers as ids are fine). Errors: DataError."""
    if isinstance(value, Incoming):
        value = {name: getattr(value, name) for name in FIELDS}
    if not isinstance(value, Mapping):
        raise DataError(f"a message must be an object with speaker and text, not {type(value).__name__}")
    unknown = sorted(set(value) - set(FIELDS))
    if unknown:
        raise DataError(f"message has the unknown key {unknown[0]!r}; known are {', '.join(FIELDS)}")
    fields: dict[str, Any] = {}
    for name in FIELDS:
        given = value.get(name)
        if given is None:
            continue
        if name == "bot":
            wanted = isinstance(given, bool)
        else:
            wanted = isinstance(given, str) or (name != "text" and isinstance(given, int) and not isinstance(given, bool))
        if not wanted:
            raise DataError(
                f"message key {name!r} holds {type(given).__name__}; give {'true or false' if name == 'bot' else 'text'}"
            )
        fields[name] = given if name == "bot" else str(given)
    for name in ("speaker", "text"):
        if name not in fields or (name == "speaker" and not fields[name].strip()):
            raise DataError(f"message lacks {name!r}")
    for name, given in fields.items():
        if isinstance(given, str) and not given.isascii() and any("\ud800" <= char <= "\udfff" for char in given):
            raise DataError(f"message key {name!r} holds half a character (a lone surrogate); export it again as UTF-8")
    return Incoming(**fields)


def read_file(path: Path) -> tuple[list[Incoming], list[Quarantined]]:
    """Messages of a JSONL file (one object a line), or of a JSON list. A bad line is set aside with its reason.

    Errors: no such file, not UTF-8, or a whole file that is neither form.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    messages: list[Incoming] = []
    bad: list[Quarantined] = []
    for number, item in _items(path, text):
        try:
            messages.append(read_message(json.loads(item) if isinstance(item, str) else item))
        except json.JSONDecodeError as error:
            bad.append(Quarantined(number, f"not JSON: {error}"))
        except DataError as error:
            bad.append(Quarantined(number, str(error)))
    if bad and not messages:
        raise DataError(
            f"{path}: none of {len(bad)} lines is a message; the first: {bad[0].reason}. Give one JSON object a line, "
            'such as {"speaker": "ann", "text": "hello", "time": "2025-02-03T14:11:00+01:00"}'
        )
    return messages, bad


def _items(path: Path, text: str) -> list[tuple[int, Any]]:
    if text.lstrip().startswith("["):
        try:
            return list(enumerate(json.loads(text), start=1))
        except json.JSONDecodeError as error:
            raise DataError(f"{path}: starts as a JSON list but is none: {error}") from None
    return [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
