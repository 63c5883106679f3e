"""Fetching SocialMemBench from the Hugging Face hub, once, for those who are online."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data.jsonfile import read_json
from data.network import DataError

REPOSITORY = "anon4data/socialmembench"
REVISION = "main"  # the commit that it stands for at the time is recorded in FETCHED
TABLES = ("networks.parquet", "personas.parquet", "conversations.parquet", "qa.parquet")
FETCHED = "fetched.json"
LICENCE = "SocialMemBench (arXiv 2605.17789) is licensed CC BY 4.0: keep the attribution where you pass its data on."
FETCH_COMMAND = "writer-rl data fetch socialmem"


def default_folder() -> Path:
    """Where fetch puts the networks and the catalog looks for them: in the user's cache folder (XDG_CACHE_HOME)."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "writer-rl" / "socialmem"


def fetch_socialmem(to: Path, say: Callable[[str], Any] = print, hub: Any = None) -> dict[str, Any]:
    """Download the tables into `to` and record beside them where they are from: repository, commit, SHA-256 of each.

    A second fetch that finds other bytes than the recorded ones replaces both and says so. `hub` is huggingface_hub,
    or what stands in for it. Returns the record. Errors: DataError where the hub cannot be reached or lacks a table.
    """
    if hub is None:
        import huggingface_hub as hub  # heavy; only fetching needs it
    try:
        commit = hub.HfApi().dataset_info(REPOSITORY, revision=REVISION).sha
        to.mkdir(parents=True, exist_ok=True)
        for table in TABLES:
            hub.hf_hub_download(REPOSITORY, table, repo_type="dataset", revision=commit, local_dir=to)
    except Exception as error:  # the hub's own errors and those of the connection under it share no base class
        raise DataError(
            f"SocialMemBench could not be fetched from the Hugging Face hub ({REPOSITORY}, revision {REVISION}): "
            f"{type(error).__name__}: {' '.join(str(error).split())}. Check the connection and HF_HUB_OFFLINE, or copy "
            f"{', '.join(TABLES)} into {to} from a machine that is online, or name the folder you have in `data.socialmem`."
        ) from error
    record = {
        "repository": REPOSITORY,
        "revision": REVISION,
        "commit": commit,
        "licence": LICENCE,
        "sha256": {table: hashlib.sha256((to / table).read_bytes()).hexdigest() for table in TABLES},
    }
    before = to / FETCHED
    if before.is_file() and read_json(before).get("sha256") != record["sha256"]:
        say(f"{to}: the tables differ from those fetched before; results on them are not comparable with older ones")
    before.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    say(f"{len(TABLES)} tables of {REPOSITORY} at {commit} in {to}\n{LICENCE}")
    return record
