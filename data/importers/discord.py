"""Discord chats as DiscordChatExporter writes them in JSON: one file a channel; a folder or zip of them is one guild."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from data.importers.archive import open_archive
from data.importers.chat import ChatBuilder, finish, sound
from data.importers.imported import Imported, Quarantined
from data.importers.jsonstream import BrokenJson, JsonStream
from data.instants import read_instant
from data.network import DataError, Message

SPOKEN = {"Default", "Reply", "ThreadStarterMessage", "ChatInputCommand", "ContextMenuCommand", "20", "21", "23"}
MENTION = re.compile(r"<@!?(\d{1,25})>")


@dataclass
class Guild:
    """The chat under construction, and which channel owns a channel name."""

    builder: ChatBuilder
    channels: dict[str, str]

    def channel(self, channel_id: str, name: str) -> str:
        """The name, or `name (id)` for a second channel of that name."""
        return name if self.channels.setdefault(name, channel_id) == channel_id else f"{name} ({channel_id})"


def load(path: Path) -> Imported:
    """One network a guild (for direct messages: a channel) from a JSON file, a folder or a zip of them.

    Errors (DataError): unreadable path, no JSON file, a file that breaks off before its messages or is no such export.
    A file that breaks off inside its messages keeps those before; the rest is one quarantined entry.
    """
    guilds: dict[str, Guild] = {}
    quarantined: list[Quarantined] = []
    notes: list[str] = []
    read = found = 0
    for name, handle in _files(path):
        found += 1
        read += _channel(name, handle, path, guilds, quarantined, notes)
    if not found:
        raise DataError(f"{path}: holds no .json file; export with DiscordChatExporter in its JSON format")
    return finish([guild.builder for guild in guilds.values()], quarantined, read, notes)


def _files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if path.is_dir() or path.suffix.lower() == ".zip":
        with open_archive(path) as archive:
            for name in archive.names:
                if name.lower().endswith(".json"):
                    with archive.open(name) as handle:
                        yield name, handle
        return
    with _opened(path) as handle:
        yield path.name, handle


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as handle:
            yield handle
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def _channel(
    name: str, handle: IO[bytes], path: Path, guilds: dict[str, Guild], quarantined: list[Quarantined], notes: list[str]
) -> int:
    """Reads one file into its guild; returns how many entries it held."""
    head: dict[str, Any] = {}
    target: tuple[ChatBuilder, str] | None = None
    read = 0
    where = f"{path}: {name}"
    try:
        for key, value in JsonStream(handle).members("messages"):
            if key != "messages":
                head[key] = value
                continue
            target = target or _target(head, where, path, guilds)
            read += 1
            reason = _take(value, *target)
            if reason is not None:
                quarantined.append(Quarantined(read, reason, name))
    except BrokenJson as error:
        if target is None:
            raise DataError(f"{where}: not a DiscordChatExporter JSON file ({error}); export again") from error
        read += 1
        quarantined.append(Quarantined(read, f"the file breaks off: {error}", name))
    if target is None:
        _target(head, where, path, guilds)  # an export without messages still has to be one
    count = head.get("messageCount")
    if isinstance(count, int) and count != read:
        notes.append(f"{name}: says it holds {count} messages, {read} were found")
    return read


def _target(head: dict[str, Any], where: str, path: Path, guilds: dict[str, Guild]) -> tuple[ChatBuilder, str]:
    guild, channel = head.get("guild"), head.get("channel")
    if not isinstance(guild, dict) or not isinstance(channel, dict):
        raise DataError(f"{where}: no 'guild' and 'channel' before 'messages'; export with DiscordChatExporter as JSON")
    guild_id, channel_id = str(guild.get("id", "")), str(channel.get("id", ""))
    key = guild_id if guild_id not in ("", "0") else f"dm-{channel_id}"  # all direct messages share guild 0
    made = guilds.setdefault(key, Guild(ChatBuilder(f"discord-{key}", str(path)), {}))
    return made.builder, made.channel(channel_id, str(channel.get("name") or channel_id))


def _take(raw: Any, builder: ChatBuilder, channel: str) -> str | None:
    """Make a JSON message a message; else say why not."""
    author: Any = raw.get("author") if isinstance(raw, dict) else None
    if not isinstance(author, dict):
        return "not a message with an author"
    needed: tuple[Any, ...] = (raw.get("id"), author.get("id"), raw.get("timestamp"), raw.get("content"))
    if not all(isinstance(one, str) for one in needed) or not all(one.strip() for one in needed[:3]):
        return "id, author id, timestamp or content is missing"
    message_id, member, time, content = needed
    if str(raw.get("type", "Default")) not in SPOKEN:
        return "a notice of the app, not a message"
    label = str(author.get("nickname") or author.get("name") or member).strip() or member
    labels = {member: label} | _labels(raw.get("mentions"))
    text = MENTION.sub(lambda match: f"@{_label(match[1], labels, builder)}", content)
    text = "\n".join(part for part in (text.strip(), *_attachments(raw)) if part)
    if not sound(message_id, member, label, text, time):
        return "holds half a surrogate pair"
    if not text:
        return "no text"
    try:
        instant, assumed = read_instant(time, "timestamp")
        day = datetime.fromisoformat(time).date()  # the day the exporter's user saw
    except (DataError, ValueError):
        return "timestamp is no time"
    reference = raw.get("reference")
    reply = reference.get("messageId") if raw.get("type") == "Reply" and isinstance(reference, dict) else None
    builder.member(member, label, author.get("isBot") is True)
    message = Message(message_id, member, text, time, instant, assumed, reply if isinstance(reply, str) else None)
    return None if builder.add(message, channel, day) else "message id twice"


def _labels(mentions: Any) -> dict[str, str]:
    named = [one for one in mentions if isinstance(one, dict)] if isinstance(mentions, list) else []
    return {str(one.get("id")): str(one.get("nickname") or one.get("name") or one.get("id")) for one in named}


def _label(member: str, labels: dict[str, str], builder: ChatBuilder) -> str:
    known = builder.members.get(member)
    return known.label if known else labels.get(member, member)


def _attachments(raw: dict[str, Any]) -> list[str]:
    attached = raw.get("attachments")
    named = [one for one in attached if isinstance(one, dict)] if isinstance(attached, list) else []
    return [f"[file: {one.get('fileName') or 'unnamed'}]" for one in named]
