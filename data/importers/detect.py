"""Which format a path is in, from the names and first characters of its files: nothing is guessed from their suffix alone."""

from __future__ import annotations

from pathlib import Path

from data.importers import plain
from data.importers.archive import open_archive
from data.importers.groupmem import PREFIX
from data.importers.socialmem_tables import has_tables
from data.network import DataError

HEAD = 4096  # bytes of a JSON file that tell what it is


def detect(path: Path) -> str:
    """A key of FORMATS. Errors (DataError): no such path, or one that is none of the formats."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; check the path")
    found = _folder(path) if path.is_dir() else _file(path)
    if found is None:
        raise DataError(f"{path}: not recognised; name its format")
    return found


def _folder(path: Path) -> str | None:
    if has_tables(path):
        return "socialmem-tables"
    tests = {
        "slack": ("users.json", "org_users.json"),
        "evermem": ("dialogue.json", "*/dialogue.json"),
        "locomo": ("locomo10.json",),
        "groupmem": (f"**/{PREFIX}*.json",),
        "whatsapp": ("_chat.txt",),
    }
    for name, patterns in tests.items():
        if any(next(path.glob(pattern), None) is not None for pattern in patterns):
            return name
    first = next(iter(sorted(path.glob("*.json"))), None)
    return _file(first) if first is not None else None


def _file(path: Path) -> str | None:
    suffix = path.suffix.lower()
    if suffix in (*plain.JSONL, *plain.CSV):
        return "plain"
    if suffix == ".txt":
        return "whatsapp"
    if suffix == ".zip":
        return _zip(path)
    if suffix != ".json":
        return None
    if path.name.startswith(PREFIX):
        return "groupmem"
    with path.open("rb") as handle:
        head = handle.read(HEAD).decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    if head.startswith("["):
        return "locomo"
    return "discord" if '"guild"' in head and '"channel"' in head else "socialmem"


def _zip(path: Path) -> str | None:
    with open_archive(path) as archive:
        names = [name.rpartition("/")[2] for name in archive.names]
    if "users.json" in names or "org_users.json" in names:
        return "slack"
    if any(name.lower().endswith(".txt") for name in names):
        return "whatsapp"
    return "discord" if any(name.lower().endswith(".json") for name in names) else None
