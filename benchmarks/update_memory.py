"""One update in a fresh process, and how much memory it took: what benchmarks/update_bench.py starts for every arm."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.update_arms import bare_arm, own_arm, trl_arm
from benchmarks.update_trace import make_samples

SETTINGS = {"own": own_arm, "bare": bare_arm, "trl": trl_arm}
LEAST = {  # what needs the least memory: one sample a forward, activations computed again
    "own": {"tokens": 1, "gradient_checkpointing": True},
    "bare": {},
    "trl": {"rows": 1, "gradient_checkpointing": True},
}


def resident(field: str) -> int:
    """Bytes of VmRSS or VmHWM, its peak."""
    status = Path("/proc/self/status").read_text("utf-8")
    return next(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field}:"))


def main() -> None:
    given = json.loads(sys.argv[1])
    samples = make_samples([tuple(pair) for pair in given["lengths"]], given["vocab_size"])
    arm = SETTINGS[given["arm"]](Path(given["folder"]), samples, **LEAST[given["arm"]])
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the peak starts again from here
    before = resident("VmRSS")
    arm()
    print(resident("VmHWM") - before)


if __name__ == "__main__":
    main()
