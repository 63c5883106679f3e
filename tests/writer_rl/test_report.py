"""The report page: whole, safe, and true to the run it is made from."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.writer_rl.report_run import HOSTILE, make_run
from writer_rl.logbook import read_lines, write_lines
from writer_rl.report import write_report
from writer_rl.report.command import report
from writer_rl.report.page import _block, _columns
from writer_rl.report.replay import replay_round
from writer_rl.report.run import RunError, read_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the tests of this module: do not change it."""
    return make_run(tmp_path_factory.mktemp("checkpoints"), rounds=3, group=4)


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(made, tmp_path / "made-up"))


class Page(HTMLParser):
    """The scripts of a page by id, and everything it refers to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.scripts: dict[str | None, str] = {}
        self.references: list[str] = []
        self.tags: list[str] = []
        self.title = ""
        self._open: str | None = None
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.references += [given[name] or "" for name in ("src", "href") if name in given]
        self._open = tag
        if tag == "script":
            self.scripts[given.get("id")] = ""
            self._script = given.get("id")

    def handle_data(self, text: str) -> None:
        if self._open == "script":
            self.scripts[self._script] += text
        if self._open == "title":
            self.title += text

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def block(self, name: str) -> Any:
        text = self.scripts[name]
        return json.loads(zlib.decompress(base64.b64decode(text)) if name.startswith("round-") else text)


@pytest.fixture(scope="module")
def page(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(write_report(made, tmp_path_factory.mktemp("out") / "page.html"))


def test_the_page_has_every_part_and_nothing_from_outside(page: Page) -> None:
    assert set(page.scripts) == {"summary", "networks", "round-0", "round-1", "round-2", None}
    assert page.tags.count("section") == 4 and page.tags.count("nav") == 1 and page.title == "made-up: run report"
    assert all(one.startswith("#") or one == "data:," for one in page.references)
    assert not {"img", "iframe", "form", "object"} & set(page.tags)
    assert (
        "http://" not in page.scripts[None].replace("http://www.w3.org/2000/svg", "") and "https://" not in page.scripts[None]
    )


def test_chat_text_stays_data(page: Page, made: Path) -> None:
    assert any(HOSTILE in row["text"] for _, rows in read_run(made).rounds() for row in rows), "the made-up run must be hostile"
    contents = [record[6] for number in range(3) for one in page.block(f"round-{number}") for record in one["records"]]
    assert any(HOSTILE in content for content in contents)
    assert "innerHTML" not in page.scripts[None] and "outerHTML" not in page.scripts[None]


def test_no_text_ends_its_block_or_opens_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<body>{_block('a', {'text': HOSTILE})}<p></p>", "utf-8")
    page = Page(path)
    assert page.tags == ["body", "script", "p"] and page.block("a") == {"text": HOSTILE} and page.title == ""
    assert "<!--" not in path.read_text("utf-8")


def test_only_the_pages_own_script_and_style_may_run(made: Path, tmp_path: Path) -> None:
    text = write_report(made, tmp_path / "page.html").read_text("utf-8")
    policy = text.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src 'none'" in policy and "unsafe" not in policy and policy.count("sha256-") == 2


def test_the_page_is_the_same_each_time(made: Path, tmp_path: Path) -> None:
    pages = [write_report(made, tmp_path / f"{n}.html").read_bytes() for n in range(2)]
    assert pages[0] == pages[1]


def test_replayed_states_score_what_the_run_recorded(page: Page) -> None:
    assert page.block("summary")["notes"] == []


def test_every_trajectory_is_in_the_index_with_its_mean_and_reasons(page: Page, made: Path) -> None:
    index = page.block("summary")["index"]
    for number, rows in read_run(made).rounds():
        entries = index[number]["trajectories"]
        assert [entry["g"] for entry in entries] == [0, 1, 2, 3]
        for entry in entries:
            returns = [row["reward"]["return"] for row in rows if row["g"] == entry["g"]]
            assert entry["mean"] == pytest.approx(sum(returns) / len(returns), abs=1e-4)
            assert entry["why"][0].startswith("Mean return")


def test_prompts_come_back_whole(made: Path) -> None:
    for _, rows in read_run(made).rounds():
        trajectories = replay_round(rows, {})
        for one in trajectories:
            assert one.segments is not None and one.states is not None
            for t, segment in enumerate(one.segments):
                prompt = one.prompt(t, trajectories[0])
                assert prompt is not None and prompt.startswith("<|im_start|>user\n")
                assert prompt.endswith("<|im_start|>assistant\n")
                assert all(message.text in prompt for message in segment.messages)
                heads = one.states[t - 1].heads() if t else []
                assert all(f"\n{head.entry_id} " in prompt for head in heads)


def test_pairs_are_those_of_phi(page: Page) -> None:
    networks = page.block("networks")
    seen = 0
    for number in range(3):
        for entry, block in zip(
            page.block("summary")["index"][number]["trajectories"], page.block(f"round-{number}"), strict=True
        ):
            golds = {record[0]: record for record in networks[entry["network"]]["references"]}
            ours = {record[0]: record for record in block["records"]}
            for t, write in enumerate(block["writes"]):
                for mine, gold, kappa in write["pairs"]:
                    assert ours[mine][2:5] == golds[gold][2:5] and 0.5 <= kappa <= 1
                    assert ours[mine][1] <= t and golds[gold][1] <= t
                    seen += 1
    assert seen > 20


def test_a_changed_matching_or_executor_is_told(run: Path, tmp_path: Path) -> None:
    path = run / "trace" / "grpo" / "round-0001.jsonl"
    rows = read_lines(path)
    rows[0]["reward"]["phi"] += 0.1
    applied = next(action for row in rows[1:] for action in row["actions"] if action["fate"] == "applied")
    applied["fate"] = "rejected"
    write_lines(path, rows)
    notes = Page(write_report(run, tmp_path / "page.html")).block("summary")["notes"]
    assert len(notes) == 2 and "1 of 12 trajectories do not replay" in notes[0] and "another Phi" in notes[1]


def test_without_networks_the_page_goes_without_references_and_says_so(run: Path, tmp_path: Path) -> None:
    recipe = run / "recipe-grpo.yaml"
    text = recipe.read_text("utf-8")
    start, stop = text.index("data:\n"), text.index("writer:\n")
    data = "data:\n  sources: [nowhere]\n  split: socialmem_cpu\n"
    recipe.write_text(text[:start] + data + text[stop:], "utf-8")
    page = Page(write_report(run, tmp_path / "page.html"))
    assert "networks are not at hand" in page.block("summary")["notes"][0]
    assert all(network["references"] is None for network in page.block("networks").values())
    assert all("pairs" not in write and one["records"] is not None for one in page.block("round-2") for write in one["writes"])


def test_a_trace_without_segments_is_rebuilt_from_the_networks(run: Path, tmp_path: Path) -> None:
    for path in (run / "trace" / "grpo").iterdir():
        dropped = ("segment", "prompt", "prompt_shared", "questions")
        write_lines(path, [{name: value for name, value in row.items() if name not in dropped} for row in read_lines(path)])
    page = Page(write_report(run, tmp_path / "page.html"))
    assert page.block("summary")["notes"] == []
    assert all(one["records"] and "prompt" not in one["writes"][0] for one in page.block("round-0"))


def test_a_run_without_traces_or_recipe_still_has_curves(run: Path, tmp_path: Path) -> None:
    shutil.rmtree(run / "trace")
    (run / "recipe-grpo.yaml").unlink()
    summary = Page(write_report(run, tmp_path / "page.html")).block("summary")
    assert summary["index"] == [] and len(summary["grpo"]["reward"]) == 3 and summary["gate"] == 0.02
    assert "No recipe" in summary["notes"][0]


def test_folders_that_are_no_run_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such folder"):
        write_report(tmp_path / "nothing")
    with pytest.raises(RunError, match="has begun"):
        write_report(tmp_path)


def test_a_line_cut_off_at_the_end_is_left_out_and_a_broken_one_named(run: Path) -> None:
    path = run / "metrics-grpo.jsonl"
    whole = path.read_text("utf-8")
    path.write_text(whole + '{"step": 3, "rew', "utf-8")
    assert len(read_run(run).grpo) == 3
    path.write_text('{"step": 0, "rew\n' + whole, "utf-8")
    with pytest.raises(RunError, match=r"metrics-grpo.jsonl, line 1"):
        read_run(run)


def test_every_evaluation_is_read_and_what_was_asked_again_counts_once(tmp_path: Path) -> None:
    row = {"row": "question", "writer": "a", "network": "n", "seed": 0, "question": "q", "verdict": "missing"}
    write_lines(tmp_path / "eval" / "rows.jsonl", [row, row | {"verdict": "correct"}])
    write_lines(tmp_path / "eval" / "round-0002" / "rows.jsonl", [row])
    found = read_run(tmp_path).evaluations
    assert list(found) == ["eval/round-0002", "eval"]
    assert [one["verdict"] for one in found["eval"]] == ["correct"]


def test_numbers_that_are_not_finite_become_gaps() -> None:
    columns = _columns([{"step": 0, "kl": float("nan")}, {"step": 1, "kl": 0.123456789, "late": float("inf")}])
    assert columns == {"step": [0.0, 1.0], "kl": [None, 0.123457], "late": [None, None]}


def test_the_command_writes_the_page_or_one_paragraph(made: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(report)
    done = CliRunner().invoke(app, [str(made), "--to", str(tmp_path / "a" / "page.html")])
    assert done.exit_code == 0 and (tmp_path / "a" / "page.html").is_file()
    failed = CliRunner().invoke(app, [str(tmp_path / "nothing")])
    assert failed.exit_code == 2 and "no such folder" in failed.output
