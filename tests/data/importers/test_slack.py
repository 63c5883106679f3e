"""Slack exports: folder and zip, mentions, threads, bots, notices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data.importers import Imported, slack
from data.network import DataError, Member
from tests.data.importers.files import put, slack_files, slack_message, texts, zipped


def read(tmp_path: Path, messages: list[Any], file: str = "general/2024-05-01.json") -> Imported:
    for name, content in slack_files({file: messages}).items():
        put(tmp_path / "export" / name, content)
    return slack.load(tmp_path / "export")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@U2> and <@U9|zed>", "@Ben B and @zed"),
        ("<@U9>", "@U9"),
        ("<#C2> <#C9|gone>", "#random #gone"),
        ("<!here> <!subteam^S1|@team> <!subteam^S1>", "@here @team @subteam"),
        ("<https://a.example/x?a=1&amp;b=2|the page>", "the page (https://a.example/x?a=1&b=2)"),
        ("<https://a.example>", "https://a.example"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("1 &lt; 2 &amp;amp; <3", "1 < 2 &amp; <3"),
    ],
)
def test_markup_becomes_plain_text(tmp_path: Path, text: str, shown: str) -> None:
    assert texts(read(tmp_path, [slack_message("1714550400.000100", text)]).networks[0]) == [shown]


def test_members_are_ids_labels_stay_apart_and_bots_are_marked(tmp_path: Path) -> None:
    rows = [
        slack_message("1714550400.000100"),
        slack_message("1714550401.000100", user="U4"),
        slack_message("1714550402.000100", user="U3"),
        {"type": "message", "subtype": "bot_message", "bot_id": "B1", "username": "CI", "text": "green", "ts": "1714550403.1"},
        slack_message("1714550404.000100", user="U77", user_profile={"display_name": "", "real_name": "Zed Z"}),
    ]
    roster = read(tmp_path, rows).networks[0].roster
    assert roster.members == (
        Member("U1", "Ann"),
        Member("U4", "Ann"),
        Member("U3", "helper", True),
        Member("B1", "CI", True),
        Member("U77", "Zed Z"),
    )
    assert roster.names[:2] == ("Ann (U1)", "Ann (U4)")


def test_a_mentioned_colleague_is_on_the_roster(tmp_path: Path) -> None:
    network = read(tmp_path, [slack_message("1714550400.000100", "ask <@U2>")]).networks[0]
    assert network.roster.names == ("Ann", "Ben B")


def test_a_reply_names_the_first_message_of_its_thread(tmp_path: Path) -> None:
    rows = [
        slack_message("1714550400.000100", thread_ts="1714550400.000100"),
        slack_message("1714550500.000100", thread_ts="1714550400.000100"),
    ]
    first, second = read(tmp_path, rows).networks[0].messages()
    assert first.reply_to is None and second.reply_to == first.id == "general/1714550400.000100"


def test_the_instant_is_exact_and_its_zone_known(tmp_path: Path) -> None:
    message = next(read(tmp_path, [slack_message("1714550400.000105")]).networks[0].messages())
    assert message.time == "2024-05-01T08:00:00.000105Z" and not message.zone_assumed
    assert message.instant is not None and message.instant.microsecond == 105


def test_notices_and_misfits_are_quarantined_with_file_and_place(tmp_path: Path) -> None:
    rows = [
        slack_message("1714550400.000100", "<@U1> has joined", subtype="channel_join"),
        slack_message("soon"),
        {"type": "message", "ts": "1714550400.1", "text": "who"},
        slack_message("1714550400.000200", ""),
        slack_message("1714550400.000300", "half \ud83d"),
        "text",
        None,
        slack_message("1714550400.000400", "ok"),
        slack_message("1714550400.000400", "again"),
    ]
    made = read(tmp_path, rows)
    assert made.read == len(rows) and texts(made.networks[0]) == ["ok"]
    assert [(one.line, one.file) for one in made.quarantined] == [
        (n, "general/2024-05-01.json") for n in (1, 2, 3, 4, 5, 6, 7, 9)
    ]
    assert made.quarantined[0].reason == "a notice of the app, not a message (channel_join)"


def test_files_and_bot_attachments_are_part_of_what_was_said(tmp_path: Path) -> None:
    rows = [
        slack_message("1714550400.000100", "see", files=[{"title": "Plan"}], subtype="file_share"),
        slack_message("1714550400.000200", "", attachments=[{"fallback": "build 7 failed"}]),
    ]
    assert texts(read(tmp_path, rows).networks[0]) == ["see\n[file: Plan]", "build 7 failed"]


def test_channels_are_merged_by_time_and_days_go_in_order(tmp_path: Path) -> None:
    files = slack_files(
        {
            "general/2024-05-02.json": [slack_message("1714636800.1", "g2")],
            "general/2024-05-01.json": [slack_message("1714550400.1", "g1"), slack_message("1714550401.1", "g1b")],
            "random/2024-05-01.json": [slack_message("1714554000.1", "r1")],
        }
    )
    network = slack.load(zipped(tmp_path / "export.zip", files)).networks[0]
    assert texts(network) == ["g1", "g1b", "r1", "g2"]
    assert [(one.id, one.channel, one.date) for one in network.sessions] == [
        ("general/s001", "general", "2024-05-01"),
        ("random/s001", "random", "2024-05-01"),
        ("general/s002", "general", "2024-05-02"),
    ]


def test_a_zip_with_a_folder_around_gives_what_the_folder_gives(tmp_path: Path) -> None:
    rows = [slack_message("1714550400.000100", "hi <@U2>")]
    files = {f"export/{name}": content for name, content in slack_files({"general/2024-05-01.json": rows}).items()}
    packed = slack.load(zipped(tmp_path / "export.zip", files)).networks
    assert packed == read(tmp_path, rows).networks


def test_a_day_that_is_no_json_is_one_quarantined_entry(tmp_path: Path) -> None:
    files = slack_files({"general/2024-05-01.json": [slack_message("1714550400.1")], "general/2024-05-03.json": {}})
    files["general/2024-05-02.json"] = "[{"
    made = slack.load(zipped(tmp_path / "export.zip", files))
    assert made.messages == 1 and made.read == 3
    assert [one.file for one in made.quarantined] == ["general/2024-05-02.json", "general/2024-05-03.json"]


def test_what_is_no_export_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"users\.json"):
        slack.load(zipped(tmp_path / "a.zip", {"general/2024-05-01.json": "[]"}))
    with pytest.raises(DataError, match=r"users\.json is not JSON"):
        slack.load(zipped(tmp_path / "b.zip", {"users.json": "["}))
    with pytest.raises(DataError, match="neither a folder nor a readable zip"):
        slack.load(put(tmp_path / "c.zip", json.dumps({})))
