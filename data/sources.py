"""What `writer-rl data fetch NAME` can fetch, under which licence, from which revision, and with which checksums."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from data.fetch import FETCHED, default_folder, fetch_socialmem
from data.jsonfile import read_json
from data.network import DataError

TIMEOUT = 60  # seconds without a byte
UNCLEAR = (
    "no licence is stated for this data: nothing here gives you a right to it. This command downloads it for yourself from its "
    "authors' own place; do not pass it on, and ask the authors before you use it for more than your own evaluation."
)
DOMAINS = ("Finance", "Healthcare", "Manufacturing", "Technology")
TYPES = ("multi_hop", "knowledge_update", "temporal", "user_implicit", "term_ambiguity", "abstention")
TOPICS = ("01", "02", "03", "04", "05")


@dataclass(frozen=True)
class Part:
    """Files of one repository at one revision. `host`: `github`, or `hub` for a Hugging Face data set. `sha256` holds the
    checksums that are known beforehand; `folder` cuts a leading folder off where the files are put."""

    host: str
    repository: str
    revision: str
    files: tuple[str, ...]
    sha256: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""


@dataclass(frozen=True)
class Source:
    """A benchmark: its licence in words that are shown before anything is downloaded, and its parts."""

    name: str
    licence: str
    parts: tuple[Part, ...]


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "locomo": Source(
            "locomo",
            "LoCoMo (ACL 2024) is licensed CC BY-NC 4.0: non-commercial use only, keep the attribution.",
            (
                Part(
                    "github",
                    "snap-research/locomo",
                    "3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376",
                    ("data/locomo10.json",),
                    {"data/locomo10.json": "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"},
                    folder="data/",
                ),
            ),
        ),
        "groupmem": Source(
            "groupmem",
            f"GroupMemBench (arXiv 2605.14498): {UNCLEAR}",
            (
                Part(
                    "hub",
                    "kimperyang/GroupMemBench",
                    "main",
                    tuple(f"data/final/{one}/synthetic_domain_channels_rolevariants_{one}.json" for one in DOMAINS),
                ),
                Part(
                    "github",
                    "UCSB-NLP-Chang/GroupMemBench",
                    "e2682e01ff490acfe4fac2940159dce60307dfc9",
                    tuple(f"questions/{domain}/{kind}.jsonl" for domain in DOMAINS for kind in TYPES),
                ),
            ),
        ),
        "evermem": Source(
            "evermem",
            f"EverMemBench-Dynamic (arXiv 2602.01313): {UNCLEAR}",
            (
                Part(
                    "hub",
                    "EverMind-AI/EverMemBench-Dynamic",
                    "main",
                    tuple(name for topic in TOPICS for name in (f"{topic}/dialogue.json", f"{topic}/qa_{topic}.json")),
                ),
            ),
        ),
    }
)
NAMES = ("socialmem", *SOURCES)


def fetch(
    name: str,
    to: Path | None = None,
    say: Callable[[str], Any] = print,
    hub: Any = None,
    get: Callable[[str], bytes] | None = None,
) -> Path:
    """Fetch a benchmark of NAMES into `to` (default: the user's cache folder) and return that folder.

    The licence is said first. Beside the files lies fetched.json: where they are from, the commit and the SHA-256 of
    each. A file that is there already with its recorded checksum is not fetched again. `hub` is huggingface_hub, `get`
    reads an address: both can be replaced. Errors (DataError): another name, no connection, other bytes than the known
    or the recorded ones.
    """
    if name not in NAMES:
        raise DataError(f"data fetch: {name!r} is none of {', '.join(NAMES)}")
    folder = to or default_folder().parent / name
    if name == "socialmem":
        fetch_socialmem(folder, say, hub)
        return folder
    source = SOURCES[name]
    say(source.licence)
    before = read_json(folder / FETCHED).get("sha256", {}) if (folder / FETCHED).is_file() else {}
    record: dict[str, Any] = {"name": name, "licence": source.licence, "parts": [], "sha256": {}}
    for part in source.parts:
        record["parts"].append({"repository": part.repository, "commit": _commit(part, hub)})
        for file in part.files:
            target = folder / file.removeprefix(part.folder)
            known = part.sha256.get(file) or before.get(file)
            record["sha256"][file] = _place(part, record["parts"][-1]["commit"], file, target, known, hub, get or _get)
    (folder / FETCHED).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    say(f"{len(record['sha256'])} files in {folder}")
    return folder


def _commit(part: Part, hub: Any) -> str:
    """The commit that a part's revision stands for; GitHub parts are pinned to one."""
    if part.host == "github":
        return part.revision
    try:
        return str((hub or _hub()).HfApi().dataset_info(part.repository, revision=part.revision).sha)
    except Exception as error:  # the hub's own errors and those of the connection under it share no base class
        raise _unreachable(part, part.revision, error) from error


def _place(part: Part, commit: str, file: str, target: Path, known: str | None, hub: Any, get: Callable[[str], bytes]) -> str:
    """Put one file at `target` unless it lies there with the known checksum; returns its SHA-256."""
    if known is not None and target.is_file() and _sha256(target) == known:
        return known
    try:
        if part.host == "github":
            content = get(f"https://raw.githubusercontent.com/{part.repository}/{commit}/{file}")
        else:
            local = (hub or _hub()).hf_hub_download(part.repository, file, repo_type="dataset", revision=commit)
            content = Path(local).read_bytes()
    except Exception as error:  # as above
        raise _unreachable(part, file, error) from error
    found = hashlib.sha256(content).hexdigest()
    if known is not None and found != known:
        raise DataError(
            f"{part.repository}: {file} has SHA-256 {found} where {known} was expected; nothing was replaced. Where the "
            "authors changed the file on purpose, fetch into another folder"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f"{target.suffix}.part")
    partial.write_bytes(content)
    os.replace(partial, target)
    return found


def _unreachable(part: Part, what: str, error: Exception) -> DataError:
    return DataError(
        f"{part.repository}: {what} could not be fetched ({type(error).__name__}: {' '.join(str(error).split())}); check the "
        f"connection and HF_HUB_OFFLINE, or copy the files from a machine that is online and name their folder"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:  # noqa: S310 - addresses are https, from the list above
        content: bytes = answer.read()
        return content


def _hub() -> Any:
    import huggingface_hub  # heavy; only fetching needs it

    return huggingface_hub
