"""Archives that mean harm, and those that are merely broken."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from data.importers import archive, slack, whatsapp
from data.importers.archive import natural, open_archive
from data.network import DataError
from tests.data.importers.files import put, zipped


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "..\\evil.txt", "C:\\evil.txt"])
def test_a_name_that_leads_out_of_the_archive_is_refused(tmp_path: Path, name: str) -> None:
    path = zipped(tmp_path / "a.zip", {"_chat.txt": "x"})
    with zipfile.ZipFile(path, "a") as more:
        info = zipfile.ZipInfo("placeholder")
        info.filename = name
        more.writestr(info, "x")
    with pytest.raises(DataError, match="outside itself"):
        whatsapp.load(path)
    assert not (tmp_path.parent / "evil.txt").exists()


def test_a_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"_chat.txt": b"\0" * (archive.RATIO_FROM + 1)})
    with pytest.raises(DataError, match="times its size"):
        whatsapp.load(path)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 10)
    with pytest.raises(DataError, match="more than 10 bytes"):
        slack.load(zipped(tmp_path / "a.zip", {"users.json": "[          ]"}))


def test_too_many_names_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_NAMES", 1)
    with pytest.raises(DataError, match="no chat export"):
        whatsapp.load(zipped(tmp_path / "a.zip", {"a.txt": "", "b.txt": ""}))


def test_damaged_bytes_inside_are_a_data_error(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"_chat.txt": "01.02.23, 10:00 - Ann: hello there\n" * 100})
    raw = bytearray(path.read_bytes())
    raw[60:80] = bytes(20)
    path.write_bytes(raw)
    with pytest.raises(DataError, match="damaged"):
        whatsapp.load(path)


def test_an_encrypted_file_is_a_data_error(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"_chat.txt": "x"})
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match="encrypted"):
        whatsapp.load(path)


def test_a_link_that_leads_out_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "secret.txt", "x")
    put(tmp_path / "chat" / "_chat.txt", "x")
    (tmp_path / "chat" / "b.txt").symlink_to(tmp_path / "secret.txt")
    with open_archive(tmp_path / "chat") as opened:
        assert opened.names == ("_chat.txt",)


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["part 10", "part 2", "part 02b", "x", "part 1"]
    assert sorted(names, key=natural) == ["part 1", "part 2", "part 02b", "part 10", "x"]
    assert natural("9" * 5000) < natural("1" + "0" * 5000)
