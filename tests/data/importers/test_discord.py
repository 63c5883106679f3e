"""DiscordChatExporter's JSON: one file, several channels, mentions, replies, broken ends."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from data.importers import discord, jsonstream
from data.network import DataError, Member
from tests.data.importers.files import discord_export, discord_message, put, texts, zipped


def test_authors_are_ids_with_nicknames_and_bots(tmp_path: Path) -> None:
    rows = [discord_message(1), discord_message(2, author="9")]
    network = discord.load(put(tmp_path / "general.json", discord_export(rows))).networks[0]
    assert network.id == "discord-77"
    assert network.roster.members == (Member("1", "Nick 1"), Member("9", "Nick 9", True))


def test_time_offset_is_known_and_the_string_kept(tmp_path: Path) -> None:
    message = next(discord.load(put(tmp_path / "a.json", discord_export([discord_message(1)]))).networks[0].messages())
    assert message.time == "2024-05-01T10:01:00.123+02:00" and not message.zone_assumed
    assert message.instant == datetime(2024, 5, 1, 8, 1, 0, 123000, tzinfo=UTC)


def test_mentions_by_id_are_resolved_and_replies_point_back(tmp_path: Path) -> None:
    rows = [
        discord_message(1),
        discord_message(2, "hi <@1> <@!4> <@5>", "2", mentions=[{"id": "4", "nickname": None, "name": "dora"}])
        | {"type": "Reply", "reference": {"messageId": "1001", "channelId": "5", "guildId": "77"}},
    ]
    first, second = discord.load(put(tmp_path / "a.json", discord_export(rows))).networks[0].messages()
    assert second.text == "hi @Nick 1 @dora @5" and second.reply_to == first.id


def test_notices_and_misfits_are_quarantined_by_place(tmp_path: Path) -> None:
    rows = [
        discord_message(1, type="GuildMemberJoin"),
        discord_message(2, ""),
        discord_message(3, timestamp="noon"),
        discord_message(4, author="1") | {"author": None},
        5,
        discord_message(6, "", attachments=[{"fileName": "cat.png"}]),
        discord_message(6, "twice"),
    ]
    made = discord.load(put(tmp_path / "a.json", discord_export(rows)))
    assert made.read == 7 and [one.line for one in made.quarantined] == [1, 2, 3, 4, 5, 7]
    assert texts(made.networks[0]) == ["[file: cat.png]"]


def test_channels_of_a_guild_are_one_network_and_direct_messages_are_not(tmp_path: Path) -> None:
    files = {
        "a.json": discord_export([discord_message(1)], channel="5"),
        "b.json": discord_export([discord_message(2)], channel="6"),
        "c.json": discord_export([discord_message(3)], guild="0", channel="8", name="dora"),
        "d.json": discord_export([discord_message(4)], guild="0", channel="9", name="emil"),
    }
    made = discord.load(zipped(tmp_path / "all.zip", {name: json.dumps(value) for name, value in files.items()}))
    assert [network.id for network in made.networks] == ["discord-77", "discord-dm-8", "discord-dm-9"]
    assert [session.channel for session in made.networks[0].sessions] == ["general", "general (6)"]


def test_parts_of_a_channel_go_in_number_order(tmp_path: Path) -> None:
    for part in (10, 2, 1):
        put(tmp_path / "x" / f"general [part {part}].json", discord_export([discord_message(part, f"part {part}")]))
    assert texts(discord.load(tmp_path / "x").networks[0]) == ["part 1", "part 2", "part 10"]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_a_file_that_breaks_off_keeps_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(jsonstream, "CHUNK", chunk)
    whole = json.dumps(discord_export([discord_message(1, "a"), discord_message(2, "b"), discord_message(3, "c")]))
    made = discord.load(put(tmp_path / "a.json", whole[: whole.index("1003")]))
    assert texts(made.networks[0]) == ["a", "b"]
    assert [(one.line, one.reason.partition(":")[0]) for one in made.quarantined] == [(3, "the file breaks off")]


def test_a_count_that_does_not_agree_is_noted(tmp_path: Path) -> None:
    made = discord.load(put(tmp_path / "a.json", discord_export([discord_message(1)]) | {"messageCount": 5}))
    assert "a.json: says it holds 5 messages, 1 were found" in made.notes


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"guild": {}', '{"messages": []}', "\udcff".encode(errors="surrogateescape")]
)
def test_what_is_no_export_is_an_error(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(DataError):
        discord.load(put(tmp_path / "a.json", content))


def test_an_empty_channel_is_no_error(tmp_path: Path) -> None:
    assert discord.load(put(tmp_path / "a.json", discord_export([]))).networks == ()
