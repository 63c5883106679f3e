"""What files hold, in short: bytes and sha256."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

BLOCK = 1 << 20


def fingerprint(path: Path) -> dict[str, Any]:
    """Bytes and sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def weights_hash(folder: Path) -> str:
    """sha256 over the weights of a model folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(bytes.fromhex(fingerprint(path)["sha256"]))
    return digest.hexdigest()
