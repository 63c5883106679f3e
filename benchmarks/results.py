"""Where benchmarks leave what they measured: NAME.md for people, NAME.json with the fields, both from one call."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path("docs/results")


def machine() -> str:
    """Processor, cores and Python: enough to read a ratio by, nothing that names a host."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def write_result(name: str, title: str, result: Mapping[str, Any], text: str, command: str, folder: Path = RESULTS) -> None:
    """Write both files. `text` is Markdown without the heading; command, machine and date are added to both."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = {"command": command, "machine": machine(), "date": date.today().isoformat()}
    (folder / f"{name}.json").write_text(json.dumps({**result, **stamp}, indent=1, ensure_ascii=False) + "\n", "utf-8")
    head = f"# {title}\n\nCommand: `{command}`\nMachine: {stamp['machine']}\nDate: {stamp['date']}\n"
    (folder / f"{name}.md").write_text(f"{head}\n{text}\n", "utf-8")
