"""The page in a real browser: it draws itself, says nothing on the console, and keeps hostile text as text."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.writer_rl.report_run import make_run
from writer_rl.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=3000",
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the page is not looked at in a browser")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(make_run(tmp_path_factory.mktemp("checkpoints"), rounds=2, group=4, evaluation=True))


class Drawn(HTMLParser):
    """What a browser made of the page: classes and tags as it stands, texts outside of scripts."""

    def __init__(self, dom: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.classes: list[str] = []
        self.words: list[str] = []
        self.feed(dom)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.classes += (dict(attrs).get("class") or "").split()

    def handle_data(self, text: str) -> None:
        if self.tags[-1:] != ["script"]:
            self.words.append(text)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def look(report: Path, address: str, profile: Path, until: str = "data-ready=") -> Drawn:
    """The page after it has drawn itself; fails on anything that it says on the console."""
    for attempt in range(5):  # unpacking runs beside the virtual clock: the page may be dumped before it is drawn
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}-{attempt}", "--dump-dom", f"file://{report}{address}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        if until in done.stdout:
            break
    assert "CONSOLE" not in done.stderr, re.findall(r".*CONSOLE.*", done.stderr)
    assert "data-ready=" in done.stdout
    assert "<title>made-up: run report</title>" in done.stdout
    return Drawn(done.stdout)


def test_curves_are_drawn(report: Path, tmp_path: Path) -> None:
    drawn = look(report, "", tmp_path / "profile", until='class="limit"')
    assert drawn.tags.count("figure") > 14 and "limit" in drawn.classes
    for title in ("Parts of the reward", "KL to the SFT policy", "Return by position", "Time by phase", "SFT loss", "QA gain"):
        assert title in drawn.text


def test_evaluation_has_its_tables(report: Path, tmp_path: Path) -> None:
    drawn = look(report, "#evaluation", tmp_path / "profile")
    assert "Evaluation: gym" in drawn.text and "Difference to sft" in drawn.text and "Time of training" in drawn.text


def test_the_worst_trajectory_is_shown_first_with_states_and_matching(report: Path, tmp_path: Path) -> None:
    drawn = look(report, "#trajectories", tmp_path / "profile")
    assert "number 1 of 8 from the worst" in drawn.text and "Mean return" in drawn.text
    assert {"message", "owner", "record", "unmatched"} <= set(drawn.classes)


def test_every_position_opens_and_matches_are_joined_by_lines(report: Path, tmp_path: Path) -> None:
    drawn = look(report, "#trajectories/1/0/3", tmp_path / "profile")
    assert "Round 1," in drawn.text and "Position 3: session" in drawn.text and "Terminal questions" in drawn.text
    assert {"fresh", "matched", "action"} <= set(drawn.classes)
