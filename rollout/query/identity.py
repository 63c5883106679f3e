"""The pipeline id: one hash over everything that must not change between two comparable results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import data.memory
import rollout

# what chooses records; the durable store beside them only keeps them
DATA = ("network.py", "segments.py")  # names, identity of texts, verbatim records
MEMORY = ("embedder.py", "provenance.py", "vectors.py")


def source_hashes() -> dict[str, str]:
    """sha256 of every source and prompt file that decides what is remembered, retrieved, answered and judged, by path
    relative to the project. Line ends are folded, so that a checkout on another platform gives the same id."""
    memory = Path(data.memory.__path__[0])
    root = Path(rollout.__path__[0])
    files = [(f"data/memory/{path.relative_to(memory).as_posix()}", path) for path in memory.rglob("*")]
    files += [(f"data/{name}", memory.parent / name) for name in DATA]
    files += [(f"rollout/memory/{name}", root / "memory" / name) for name in MEMORY]
    files += [(f"rollout/query/{path.relative_to(root / 'query').as_posix()}", path) for path in (root / "query").rglob("*")]
    files += [(f"rollout/llm/{path.name}", path) for path in (root / "llm").glob("offline*.py")]
    return {
        name: hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
        for name, path in sorted(files)
        if path.suffix in (".py", ".txt")
    }


def pipeline_id(parts: Mapping[str, object]) -> str:
    """sha256 over the given JSON-able parts and the sources."""
    whole = json.dumps({**parts, "sources": source_hashes()}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(whole.encode()).hexdigest()
