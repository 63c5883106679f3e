"""Slack workspace exports, a folder or zip: users.json, and a folder a channel with one JSON file a day."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from data.importers.archive import Archive, open_archive
from data.importers.chat import ChatBuilder, finish, sound
from data.importers.imported import Imported, Quarantined
from data.importers.slack_text import attachments, files, plain
from data.network import DataError, Member, Message

SPOKEN = {None, "bot_message", "me_message", "thread_broadcast", "reply_broadcast", "file_share", "file_comment"}
MENTIONED = re.compile(r"<@([A-Za-z0-9]+)")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Workspace:
    """Who and what the export's lists name: members by user id, channel names by id and by folder."""

    members: dict[str, Member] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)  # of the same members
    channels: dict[str, str] = field(default_factory=dict)


def load(path: Path) -> Imported:
    """One network for the workspace; channels are merged by time, a reply names its thread's first message.

    Speakers are the roster, with those whom they mention. Day files go in name order, messages in file order. The
    export gives times as epoch seconds, which stay inside the message id; `time` is the same instant in ISO form.
    Errors (DataError): neither folder nor zip, no users.json, users.json that is no list.
    """
    with open_archive(path) as archive:
        root = _root(archive)
        workspace = _workspace(archive, root)
        builder = ChatBuilder(f"slack-{path.stem}", str(path))
        quarantined: list[Quarantined] = []
        read = 0
        for name, channel in _day_files(archive, root):
            for number, raw in _messages(archive, name):
                read += 1
                reason = raw if isinstance(raw, str) else _take(raw, channel, workspace, builder)
                if reason is not None:
                    quarantined.append(Quarantined(number, reason, name))
    return finish([builder], quarantined, read)


def _root(archive: Archive) -> str:
    """The folder users.json lies in: exports are sometimes zipped again with a folder around them."""
    found = [name for name in archive.names if name.rpartition("/")[2] in ("users.json", "org_users.json")]
    if not found:
        raise DataError(f"{archive.path}: no users.json; name the folder or zip of a Slack workspace export")
    return min(found, key=lambda name: name.count("/")).rpartition("/")[0]


def _day_files(archive: Archive, root: str) -> Iterator[tuple[str, str]]:
    """(file, channel folder) of each JSON file that lies in a channel's folder."""
    depth = root.count("/") + 1 if root else 0
    for name in archive.names:
        parts = name.split("/")
        inside = not root or name.startswith(f"{root}/")
        if inside and len(parts) == depth + 2 and name.endswith(".json"):
            yield name, parts[depth]


def _messages(archive: Archive, name: str) -> Iterator[tuple[int, Any]]:
    """(number, element) of a day file; a file that is no list is one entry: the reason, as a text."""
    try:
        with archive.open(name) as handle:
            day = json.loads(handle.read().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        yield 1, f"the file is not JSON: {error}"
        return
    if not isinstance(day, list):
        yield 1, "the file is not a list of messages"
        return
    for number, raw in enumerate(day, 1):
        yield number, raw if not isinstance(raw, str) else None


def _list(archive: Archive, name: str) -> list[dict[str, Any]]:
    with archive.open(name) as handle:
        try:
            value = json.loads(handle.read().decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{archive.path}: {name} is not JSON ({error}); export again") from error
    if not isinstance(value, list):
        raise DataError(f"{archive.path}: {name} is not a list; export again")
    return [one for one in value if isinstance(one, dict)]


def _workspace(archive: Archive, root: str) -> Workspace:
    made = Workspace()
    at = {name.rpartition("/")[2]: name for name in reversed(archive.names) if name.rpartition("/")[0] == root}
    for user in _list(archive, at.get("users.json") or at["org_users.json"]):
        if isinstance(user.get("id"), str) and user["id"]:
            member = Member(user["id"], _user_label(user), user.get("is_bot") is True or user["id"] == "USLACKBOT")
            made.members[member.id] = member
            made.labels[member.id] = member.label
    for name in ("channels.json", "groups.json", "mpims.json"):
        for channel in _list(archive, at[name]) if name in at else []:
            made.channels[str(channel.get("id"))] = str(channel.get("name") or channel.get("id"))
    return made


def _user_label(user: dict[str, Any]) -> str:
    given = user.get("profile")
    profile = given if isinstance(given, dict) else {}
    names = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
    return next((name.strip() for name in names if isinstance(name, str) and name.strip()), user["id"])


def _take(raw: Any, channel: str, workspace: Workspace, builder: ChatBuilder) -> str | None:
    """Make a JSON message a message; else say why not."""
    if not isinstance(raw, dict):
        return "not an object"
    if raw.get("type") != "message":
        return "its type is not 'message'"
    subtype = raw.get("subtype")
    if not (subtype is None or isinstance(subtype, str)) or subtype not in SPOKEN:
        return f"a notice of the app, not a message ({subtype})"
    instant = _instant(raw.get("ts"))
    if instant is None:
        return "ts is no time"
    member = _speaker(raw, workspace)
    if member is None:
        return "no user and no bot"
    if not isinstance(raw.get("text", ""), str):
        return "text is not a text"
    said = [raw.get("text", ""), *([] if raw.get("text") else attachments(raw))]
    parts = [plain(part, workspace.labels, workspace.channels) for part in said] + files(raw)
    text = "\n".join(part for part in parts if part)
    if not sound(member.id, member.label, text, raw["ts"]):
        return "holds half a surrogate pair"
    if not text:
        return "no text"
    thread = raw.get("thread_ts")
    reply = f"{channel}/{thread}" if isinstance(thread, str) and thread != raw["ts"] else None
    iso = instant.isoformat().replace("+00:00", "Z")
    message = Message(f"{channel}/{raw['ts']}", member.id, text, iso, instant, zone_assumed=False, reply_to=reply)
    builder.member(member.id, member.label, member.bot)
    if not builder.add(message, channel, instant.date()):
        return "message id twice"
    for user in MENTIONED.findall(raw.get("text", "")):
        mentioned = workspace.members.get(user)
        if mentioned is not None and sound(mentioned.id, mentioned.label):
            builder.member(mentioned.id, mentioned.label, mentioned.bot)
    return None


def _speaker(raw: dict[str, Any], workspace: Workspace) -> Member | None:
    """By user id, else by bot id: a bot's display name may change from message to message."""
    user, bot = raw.get("user"), raw.get("bot_id")
    if isinstance(user, str) and user.strip():
        return workspace.members.get(user) or Member(user, _stranger(raw, "user_profile") or user, isinstance(bot, str))
    if isinstance(bot, str) and bot.strip():
        named = raw.get("username")
        label = named if isinstance(named, str) and named.strip() else _stranger(raw, "bot_profile") or bot
        return Member(bot, label.strip(), bot=True)
    return None


def _stranger(raw: dict[str, Any], key: str) -> str | None:
    """The name of one who is not in users.json (another workspace, an app), as the message itself gives it."""
    profile = raw.get(key)
    names = [profile.get(one) for one in ("display_name", "real_name", "name")] if isinstance(profile, dict) else []
    return next((name.strip() for name in names if isinstance(name, str) and name.strip()), None)


def _instant(ts: Any) -> datetime | None:
    """An epoch time such as 1355517523.000005, exact to the microsecond."""
    seconds, _, fraction = ts.partition(".") if isinstance(ts, str) else ("", "", "")
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 12) or (fraction and not fraction.isdigit()):
        return None
    try:
        return EPOCH + timedelta(seconds=int(seconds), microseconds=int(f"{fraction:0<6}"[:6]))
    except (ValueError, OverflowError):
        return None
