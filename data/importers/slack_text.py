"""Slack's message markup as plain text: mentions resolved, links readable, entities undone."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

MARKUP = re.compile(r"<([^<>\n]+)>")


def plain(text: str, people: Mapping[str, str], channels: Mapping[str, str]) -> str:
    """`text` with <@U1> as @label, <#C1> as #name, <!here> as @here, and links as `label (address)`.

    `people` and `channels` map ids to names; an unknown id stays visible as itself.
    """
    return html.unescape(MARKUP.sub(lambda match: _resolve(match[1], people, channels), text)).strip()


def _resolve(inside: str, people: Mapping[str, str], channels: Mapping[str, str]) -> str:
    target, _, label = inside.partition("|")
    sign, name = target[0], target[1:]
    if sign == "@":
        return f"@{people.get(name) or label or name}"
    if sign == "#":
        return f"#{label or channels.get(name, name)}"
    if sign == "!":
        return label or f"@{name.partition('^')[0]}"
    address = target.removeprefix("mailto:")
    return f"{label} ({address})" if label and label != address else address


def files(raw: Mapping[str, Any]) -> list[str]:
    """A line for each shared file."""
    shared = raw.get("files")
    named = [one for one in shared if isinstance(one, dict)] if isinstance(shared, list) else []
    return [f"[file: {one.get('title') or one.get('name') or 'unnamed'}]" for one in named]


def attachments(raw: Mapping[str, Any]) -> list[str]:
    """The texts of attachments: what most bots say."""
    attached = raw.get("attachments")
    named = [one for one in attached if isinstance(one, dict)] if isinstance(attached, list) else []
    return [str(one.get("text") or one.get("fallback") or "") for one in named]
