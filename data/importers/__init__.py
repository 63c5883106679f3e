"""Readers of other people's files: four benchmarks and four kinds of chat export, all to `Network`.

A benchmark's module has `load(path) -> list[Network]` and fails whole; a chat's has `load(path) -> Imported` and sets
bad entries aside. `FORMATS` gives both one form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from data import socialmem
from data.importers import discord, evermem, groupmem, locomo, plain, slack, socialmem_tables, whatsapp
from data.importers.imported import Imported, Quarantined, from_networks
from data.network import DataError, Network

Loader = Callable[[Path], Imported]


def _benchmark(load: Callable[[Path], list[Network]]) -> Loader:
    return lambda path: from_networks(load(path))


FORMATS: Mapping[str, Loader] = MappingProxyType(
    {
        "socialmem": _benchmark(socialmem.load),
        "socialmem-tables": _benchmark(socialmem_tables.load),
        "locomo": _benchmark(locomo.load),
        "groupmem": _benchmark(groupmem.load),
        "evermem": _benchmark(evermem.load),
        "slack": slack.load,
        "whatsapp": whatsapp.load,
        "discord": discord.load,
        "plain": plain.load,
    }
)


def import_chat(format_name: str, path: Path) -> Imported:
    """Read `path` in a format of FORMATS. Errors (DataError): another format, no such path, and what the loader says."""
    if format_name not in FORMATS:
        raise DataError(f"format {format_name!r}: use one of {', '.join(FORMATS)}")
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; check the path")
    return FORMATS[format_name](path)


__all__ = ["FORMATS", "Imported", "Loader", "Quarantined", "import_chat"]
