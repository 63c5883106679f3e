"""WhatsApp exports as phones write them: iOS and Android, locales, half-days, notices, media, several lines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from data.importers import Imported, whatsapp
from data.network import DataError
from tests.data.importers.files import put, texts, zipped


def read(tmp_path: Path, text: str) -> Imported:
    return whatsapp.load(put(tmp_path / "chat.txt", text))


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("[31/12/2023, 21:15:07] Ann: hi", datetime(2023, 12, 31, 21, 15, 7, tzinfo=UTC)),
        ("\u200e[31/12/2023, 21:15:07] Ann: hi", datetime(2023, 12, 31, 21, 15, 7, tzinfo=UTC)),
        ("[12/31/23, 9:15:07\u202fPM] Ann: hi", datetime(2023, 12, 31, 21, 15, 7, tzinfo=UTC)),
        ("12/31/23, 12:05 AM - Ann: hi", datetime(2023, 12, 31, 0, 5, tzinfo=UTC)),
        ("12/31/23, 12:05\u202fpm - Ann: hi", datetime(2023, 12, 31, 12, 5, tzinfo=UTC)),
        ("31.12.23, 21:15 - Ann: hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("[31.12.23, 21:15:07] Ann: hi", datetime(2023, 12, 31, 21, 15, 7, tzinfo=UTC)),
        ("31.12.2023 klo 21.15 - Ann: hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("31/12/2023 às 21:15 - Ann: hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("31/12/23 9:15\u00a0p.\u00a0m. - Ann: hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("31-12-2023 21:15 - Ann: hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("2023-12-31, 9:15 p.m. - Ann: hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("2023. 12. 31. 21:15 - Ann: hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("2023/12/31 下午9:15 - Ann: hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("2023년 12월 31일 오후 9:15, Ann : hi", datetime(2023, 12, 31, 21, 15, tzinfo=UTC)),
        ("31/12/2023 21:15:07: Ann: hi", datetime(2023, 12, 31, 21, 15, 7, tzinfo=UTC)),
    ],
)
def test_a_locales_header_is_read(tmp_path: Path, line: str, time: datetime) -> None:
    message = next(read(tmp_path, line).networks[0].messages())
    assert (message.text, message.instant, message.zone_assumed) == ("hi", time, True)


def test_the_sources_own_time_is_kept(tmp_path: Path) -> None:
    made = read(tmp_path, "[12/31/23, 9:15:07\u202fPM] Ann: hi\n[12/31/23, 9:15:08\u202fPM] Ben: ho\n")
    assert [message.time for message in made.networks[0].messages()] == ["12/31/23, 9:15:07 PM", "12/31/23, 9:15:08 PM"]


def test_one_date_order_for_the_file_from_all_its_lines(tmp_path: Path) -> None:
    text = "03/04/2023, 10:00 - Ann: a\n05/04/2023, 10:00 - Ben: b\n13/04/2023, 10:00 - Ann: c\n"
    made = read(tmp_path, text)
    assert [message.instant.day for message in made.networks[0].messages() if message.instant] == [3, 5, 13]
    assert any("day first" in note for note in made.notes)
    late = read(tmp_path, text.replace("13/04", "04/13"))
    assert [message.instant.month for message in late.networks[0].messages() if message.instant] == [3, 5, 4]


def test_time_going_forward_decides_where_days_do_not(tmp_path: Path) -> None:
    made = read(tmp_path, "01/02/2023, 10:00 - Ann: a\n02/01/2023, 10:00 - Ben: b\n")
    assert [message.instant.month for message in made.networks[0].messages() if message.instant] == [1, 2]
    assert any("goes back in time" in note for note in made.notes)


def test_where_nothing_decides_it_is_said(tmp_path: Path) -> None:
    made = read(tmp_path, "01/02/2023, 10:00 - Ann: a\n")
    assert any("no line of the file decides it" in note for note in made.notes)
    american = read(tmp_path, "1/2/23, 10:00 AM - Ann: a\n")
    assert next(american.networks[0].messages()).instant == datetime(2023, 1, 2, 10, tzinfo=UTC)


def test_a_line_that_does_not_fit_the_files_order_is_quarantined(tmp_path: Path) -> None:
    lines = ["13/04/2023, 10:00 - Ann: a", "14/04/2023, 10:00 - Ben: b", "04/15/2023, 10:00 - Ann: c"]
    made = read(tmp_path, "\n".join(lines))
    assert made.messages == 2 and [(one.line, one.reason) for one in made.quarantined] == [
        (3, "no such date when read as day first")
    ]


def test_system_lines_never_make_a_member(tmp_path: Path) -> None:
    lines = [
        "01.02.23, 10:00 - Messages and calls are end-to-end encrypted. Tap to learn more.",
        "01.02.23, 10:01 - Ann created group “Rome: the plan”",
        '01.02.23, 10:01 - Ann hat den Betreff von "A: b" zu "C" geändert',
        "01.02.23, 10:02 - Ben joined using this group's invite link",
        "01.02.23, 10:03 - Ann: Hello",
        "01.02.23, 10:04 - Ann: This message was deleted",
    ]
    made = read(tmp_path, "\n".join(lines))
    assert made.networks[0].roster.names == ("Ann",) and texts(made.networks[0]) == ["Hello"]
    assert made.reasons() == {whatsapp.NOTICE_REASON: 5}


def test_notices_of_ios_under_the_groups_name_make_no_member(tmp_path: Path) -> None:
    lines = [
        "[01.02.23, 10:00:00] Rome trip: \u200eMessages and calls are end-to-end encrypted.",
        "[01.02.23, 10:00:01] Rome trip: \u200e~\u202fCy requested to join.",
        "[01.02.23, 10:00:02] Ann: \u200eAnn added Ben",
        "[01.02.23, 10:00:03] Ann: hi",
    ]
    made = read(tmp_path, "\n".join(lines))
    assert made.networks[0].roster.names == ("Ann",) and texts(made.networks[0]) == ["hi"]
    assert len(made.quarantined) == 3


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<Media omitted>", "[media]"),
        ("<Medien ausgeschlossen>", "[media]"),
        ("\u200eimage omitted", "[media]"),
        ("\u200eBild weggelassen", "[media]"),
        ("\u200e<attached: 00000012-PHOTO-2023-02-01.jpg>", "[media]"),
        ("\u200eIMG-20230201-WA0001.jpg (file attached)\nthe view", "[media]\nthe view"),
        ("I omitted", "I omitted"),
        ("<div>", "<div>"),
        ("see notes.txt (old one)", "see notes.txt (old one)"),
    ],
)
def test_media_lines_are_media_and_typed_ones_are_not(tmp_path: Path, text: str, kept: str) -> None:
    assert texts(read(tmp_path, f"[01.02.23, 10:00:00] Ann: {text}\n").networks[0]) == [kept]


def test_a_message_of_several_lines_stays_one(tmp_path: Path) -> None:
    text = "01.02.23, 10:00 - Ann: list:\n- milk\n\n12.30 is too late: ok\n01.02.23, 10:01 - Ben: fine\n"
    assert texts(read(tmp_path, text).networks[0]) == ["list:\n- milk\n\n12.30 is too late: ok", "fine"]


def test_another_headers_style_inside_a_message_is_its_text(tmp_path: Path) -> None:
    text = "[01.02.23, 10:00:00] Ann: he wrote\n03.02.23, 11:00 - Cy: no\n[01.02.23, 10:00:01] Ben: ah\n"
    made = read(tmp_path, text)
    assert made.networks[0].roster.names == ("Ann", "Ben") and made.messages == 2


def test_a_member_is_one_through_cases_spaces_marks_and_tildes(tmp_path: Path) -> None:
    labels = ["Ann", "ann ", "\u202aAnn\u202c", "~\u202fAnn", "+49\u00a0170 1234567"]
    made = read(tmp_path, "".join(f"[01.02.23, 10:00:00] {label}: x\n" for label in labels))
    assert made.networks[0].roster.names == ("Ann", "+49 170 1234567") and made.messages == 5


def test_text_before_the_first_message_and_bytes_that_are_no_text_are_quarantined(tmp_path: Path) -> None:
    content = b"noise\n\n01.02.23, 10:00 - Ann: a\n\xff\xfe\n01.02.23, 10:01 - Ann: b\n"
    made = whatsapp.load(put(tmp_path / "chat.txt", content))
    assert [(one.line, one.reason) for one in made.quarantined] == [(1, "text before the first message"), (4, "not UTF-8 text")]
    assert made.messages == 2


def test_a_zip_gives_what_the_text_gives(tmp_path: Path) -> None:
    text = "\ufeff[01.02.23, 10:00:00] Ann: a\r\n[01.02.23, 10:00:01] Ben: b\r\n"
    plain = read(tmp_path, text)
    packed = whatsapp.load(zipped(tmp_path / "chat.zip", {"_chat.txt": text, "0001-PHOTO.jpg": b"\xff", "notes.txt": "x"}))
    assert packed == plain and texts(plain.networks[0]) == ["a", "b"]


def test_a_zip_without_one_chat_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.txt file"):
        whatsapp.load(zipped(tmp_path / "none.zip", {"a.jpg": b"x"}))
    with pytest.raises(DataError, match=r"2 \.txt files"):
        whatsapp.load(zipped(tmp_path / "two.zip", {"a.txt": "x", "b.txt": "y"}))


def test_an_emoji_of_several_characters_stays_whole(tmp_path: Path) -> None:
    family = "👨\u200d👩\u200d👧"
    assert texts(read(tmp_path, f"01.02.23, 10:00 - Ann: {family}\n").networks[0]) == [family]


def test_the_time_zone_of_the_machine_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    made = []
    for zone in ("UTC", "Asia/Kolkata"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        made.append(read(tmp_path, "01.02.23, 10:00 - Ann: a\n"))
    assert made[0] == made[1]
