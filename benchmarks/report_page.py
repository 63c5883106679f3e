"""How large the report of 30 rounds is, and how long a browser takes to draw it at the width of a phone.

    python -m benchmarks.report_page     # docs/results/report_page.md and .json; needs Chromium

The run is made up with real contents, as for the tests of the report: what a trained run writes down is of the same form and
size.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.results import write_result
from data.network import DataError
from tests.writer_rl.report_run import make_run
from writer_rl.report import write_report

ROUNDS, GROUP, OPENED, ATTEMPTS = 30, 8, 5, 20
PHONE = "390,844"
ADDRESSES = {"curves": "", "evaluation": "#evaluation", "worst trajectory": "#trajectories"}


def measure(folder: Path) -> dict[str, Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise DataError("no Chromium on this machine; install one (apt-get install chromium)")
    page = write_report(make_run(folder / "runs", rounds=ROUNDS, group=GROUP))
    drawn = {name: [ready(chromium, page, at, folder) for _ in range(OPENED)] for name, at in ADDRESSES.items()}
    return {
        "rounds": ROUNDS,
        "group": GROUP,
        "megabytes": round(page.stat().st_size / 1e6, 2),
        "opened": OPENED,
        "ready_ms": {name: median(ones) for name, ones in drawn.items()},
        "slowest_ms": max(max(ones) for ones in drawn.values()),
    }


def ready(chromium: str, page: Path, address: str, folder: Path) -> int:
    """Milliseconds from the start of loading to the page's last stroke, by the browser's own clock; a fresh profile each.
    The browser hands the page out once it is loaded, which may be before it is drawn: then it is opened again."""
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(dir=folder) as profile:
            flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--window-size={PHONE}"]
            command = [chromium, *flags, f"--user-data-dir={profile}", "--dump-dom", f"file://{page}{address}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        found = re.search(r'data-ready="(\d+)"', done.stdout)
        if found is not None:
            return int(found[1])
    raise DataError(f"{page}{address}: was never handed out drawn in {ATTEMPTS} attempts")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder))
    times = "\n".join(f"| {name} | {value:.0f} |" for name, value in result["ready_ms"].items())
    text = (
        f"A run of {ROUNDS} rounds with {GROUP} trajectories each and an evaluation, on one page of {result['megabytes']} MB. "
        f"From the start of loading to drawn, by the browser's clock, a fresh profile each time, window "
        f"{PHONE.replace(',', ' x ')}; medians of {OPENED}, the slowest of all {result['slowest_ms']} ms.\n\n"
        f"| opened at | ms |\n|---|---|\n{times}"
    )
    write_result("report_page", "The run report in a browser", result, text, "python -m benchmarks.report_page")


if __name__ == "__main__":
    main()
