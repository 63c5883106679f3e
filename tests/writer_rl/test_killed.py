"""Runs that are killed, told to end, or run out of disk, and what they leave once they were started again."""

from __future__ import annotations

import errno
import os
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.resume import Kill, begun, left_behind, process, resumed, tiny_recipe, uninterrupted
from rollout.engines.hf import HFEngine
from rollout.query.qa import QAResult
from writer_rl import checkpoint, entry, scoring
from writer_rl.grace import EXIT_CODE, Terminated
from writer_rl.logbook import read_lines
from writer_rl.recipe import Recipe, RecipeError
from writer_rl.run import Run
from writer_rl.selection import behind

SHORT = ("sft.epochs=1",)  # 3 rounds, of which the second and the third end with a checkpoint


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], dict[str, list[float]]]:
    """A run that nothing stopped, what it left and what its phases took."""
    folder = tmp_path_factory.mktemp("killed")
    return folder, *uninterrupted(folder, *SHORT)


@pytest.fixture
def fresh(whole: tuple[Path, dict[str, str], dict[str, list[float]]], tmp_path: Path) -> Callable[..., Recipe]:
    def make(*overrides: str) -> Recipe:
        return begun(whole[0], f"{tmp_path.name}", *SHORT, *overrides)

    return make


def test_a_run_killed_in_a_rollout_an_update_and_a_save_ends_equal(
    whole: tuple[Path, dict[str, str], dict[str, list[float]]],
) -> None:
    folder, expected, taken = whole
    kills = [
        Kill("rollout", 1, min(taken["rollout"]) / 4),  # well inside, however slow the machine was when the whole run was timed
        Kill("update", 1, min(taken["update"]) / 4),
        Kill("save", 0, min(taken["save"]) / 4),
    ]
    died, left = resumed(folder, "three", kills, *SHORT)
    assert len(died) == 3
    assert left == expected
    assert not any((folder / "three" / "tiny" / "journal").iterdir())


class Asked:
    """Counts what the engine generates and the pipeline is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.completions, self.groups = 0, 0
        complete, gains = HFEngine.complete, scoring.qa_gains

        def counted(engine: HFEngine, requests: list[object]) -> object:
            self.completions += sum(one.key.round >= 0 for one in requests)  # type: ignore[attr-defined]
            return complete(engine, requests)  # type: ignore[arg-type]

        async def asked(*args: object) -> object:
            self.groups += 1
            return await gains(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(HFEngine, "complete", counted)
        monkeypatch.setattr(scoring, "qa_gains", asked)


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str, call: int, error: BaseException) -> None:
    """The given call of a method of Run raises instead."""
    method, calls = getattr(Run, name), []

    def stopped(run: Run, *args: object) -> object:
        calls.append(name)
        if len(calls) == call:
            raise error
        return method(run, *args)

    monkeypatch.setattr(Run, name, stopped)


def test_the_journal_is_used_and_nothing_in_it_is_asked_again(
    whole: tuple[Path, dict[str, str], dict[str, list[float]]], fresh: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = fresh()
    with monkeypatch.context() as patched:
        stop_at(patched, "finish", 2, KeyboardInterrupt())  # round 0 and 1 are in the journal, none in a checkpoint
        with pytest.raises(KeyboardInterrupt):
            entry.run("grpo", recipe)
    assert sorted(path.name for path in (recipe.folder / "journal").iterdir()) == [
        "round-0000.rank0.jsonl",
        "round-0001.rank0.jsonl",
    ]
    with monkeypatch.context() as patched:
        again = Asked(patched)
        entry.run("grpo", recipe)
    assert (again.completions, again.groups) == (8, 1)  # those of round 2 alone
    assert left_behind(recipe) == whole[1]


def test_a_full_disk_ends_a_run_and_space_lets_it_go_on(
    whole: tuple[Path, dict[str, str], dict[str, list[float]]], fresh: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = fresh()
    write, sync = os.write, checkpoint._sync
    for part in ("journal", "checkpoint"):
        lines = iter(range(100))

        def full(file: int, data: bytes) -> int:
            if b'"kind": "completions"' in data[:40] and next(lines) == 1:  # noqa: B023
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, data)

        def unsynced(path: Path) -> None:
            if path.name == "model.safetensors":
                raise OSError(errno.ENOSPC, "No space left on device")
            sync(path)

        with monkeypatch.context() as patched:
            if part == "journal":
                patched.setattr(os, "write", full)
            else:
                patched.setattr(checkpoint, "_sync", unsynced)
            with pytest.raises(OSError, match="No space left"):
                entry.run("grpo", recipe)
        assert checkpoint.latest(recipe.folder / "grpo") is None
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*(torn|dropped)")
        entry.run("grpo", recipe)
    assert left_behind(recipe) == whole[1]


def test_sigterm_saves_the_rounds_that_are_whole(
    whole: tuple[Path, dict[str, str], dict[str, list[float]]], fresh: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = fresh()
    with monkeypatch.context() as patched:
        sent = iter(range(100))
        gains = scoring.qa_gains

        async def told_to_end(*args: object) -> object:
            if next(sent) == 1:  # round 1 is being scored, round 0 is whole and in no checkpoint
                os.kill(os.getpid(), signal.SIGTERM)
            return await gains(*args)  # type: ignore[arg-type]

        patched.setattr(scoring, "qa_gains", told_to_end)
        with pytest.raises(Terminated) as ended:
            entry.run("grpo", recipe)
    assert ended.value.code == EXIT_CODE == 143
    saved = checkpoint.latest(recipe.folder / "grpo")
    assert saved is not None and saved.name == "round-0001"
    assert [path.name for path in (recipe.folder / "journal").iterdir()] == ["round-0001.rank0.jsonl"]
    entry.run("grpo", recipe)
    assert left_behind(recipe) == whole[1]


def test_sigterm_in_an_update_waits_for_the_round(fresh: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = fresh()
    sync = Run.sync
    finish = Run.finish
    order = []

    def told_to_end(run: Run) -> None:
        order.append("sync")
        os.kill(os.getpid(), signal.SIGTERM)
        sync(run)

    def finished(run: Run, done: int) -> None:
        order.append(f"finish {done}")
        finish(run, done)

    monkeypatch.setattr(Run, "sync", told_to_end)
    monkeypatch.setattr(Run, "finish", finished)
    with pytest.raises(Terminated):
        entry.run("grpo", recipe)
    assert order[-2:] == ["sync", order[-1]] and order[-1].startswith("finish")
    saved = checkpoint.latest(recipe.folder / "grpo")
    assert saved is not None and saved.name == f"round-{int(order[-1].split()[1]):04d}"


def test_a_round_that_stayed_unjudged_is_asked_again(fresh: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = fresh()
    gains = scoring.qa_gains
    outage = [True]

    async def judged(*args: object) -> QAResult:
        found = await gains(*args)  # type: ignore[arg-type]
        return replace(found, unjudged=found.total, gains=(0.0,) * 4) if outage else found

    monkeypatch.setattr(scoring, "qa_gains", judged)
    with pytest.raises(scoring.TooManyUnjudged):
        entry.run("grpo", recipe)
    outage.clear()
    stop_at(monkeypatch, "finish", 1, KeyboardInterrupt())
    again = Asked(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        entry.run("grpo", recipe)
    assert (again.completions, again.groups) == (0, 1)
    rows = read_lines(recipe.folder / "metrics-grpo.jsonl")
    assert rows[0]["qa/questions"] > 0 and rows[0]["qa/unjudged"] == 0


def test_the_journal_of_another_recipe_is_not_taken_for_this_one(
    fresh: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = fresh()
    with monkeypatch.context() as patched:
        stop_at(patched, "finish", 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            entry.run("grpo", recipe)
    other = Recipe.model_validate(recipe.model_dump() | {"grpo": recipe.grpo.model_dump() | {"beta": 0.2}})
    with monkeypatch.context() as patched:
        again = Asked(patched)
        stop_at(patched, "finish", 1, KeyboardInterrupt())
        with pytest.warns(UserWarning, match="another round, recipe"), pytest.raises(KeyboardInterrupt):
            entry.run("grpo", other)
    assert again.completions == 8


@pytest.mark.parametrize("moment", ["old aside", "new in place", "new torn"])
def test_a_save_killed_between_its_renames_is_mended(tmp_path: Path, moment: str) -> None:
    def folder(name: str, text: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "state").write_text(text)
        print_of = checkpoint.fingerprint(tmp_path / name / "state")
        (tmp_path / name / "manifest.json").write_text(f'{{"files": {{"state": {str(print_of).replace(chr(39), chr(34))}}}}}')

    folder(".round-0002.old", "old")
    folder("round-0002" if moment == "new in place" else ".round-0002.tmp", "new")
    if moment == "new torn":
        (tmp_path / ".round-0002.tmp" / "state").write_text("ne")
    checkpoint.mend(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["round-0002"]
    assert (tmp_path / "round-0002" / "state").read_text() == ("old" if moment == "new torn" else "new")


def test_patience_counts_evaluations_since_the_best_and_ties_do_not_help() -> None:
    table = [{"checkpoint": f"round-{number}", "accuracy": value} for number, value in enumerate([0.5, 0.75, 0.75, 0.25])]
    assert [behind(table[:count], "accuracy") for count in range(5)] == [0, 0, 0, 1, 2]


def test_a_run_ends_when_its_patience_is_spent_and_stays_ended(
    fresh: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = fresh("grpo.rounds=9", "grpo.eval_every=1", "grpo.patience=2", "data.gym.dev=1", "grpo.save_every=1")
    accuracies = iter([0.5, 0.25, 0.5])

    def judged(runtime: object, writer: object, dev: object, done: int) -> dict[str, object]:
        return {"checkpoint": f"round-{done:04d}", "accuracy": next(accuracies)}

    monkeypatch.setattr("writer_rl.run.judge", judged)
    for _ in range(2):
        entry.run("grpo", recipe)
        last = checkpoint.latest(recipe.folder / "grpo")
        assert last is not None and last.name == "round-0003"
        assert (recipe.folder / "grpo" / "round-0001").is_dir()  # the best, ties to the earlier


def test_patience_without_evaluations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="`eval_every`"):
        tiny_recipe(tmp_path, "x", "grpo.patience=2")


def test_a_kill_ends_a_process_without_any_clean_up(whole: tuple[Path, dict[str, str], dict[str, list[float]]]) -> None:
    folder, _, taken = whole
    recipe = begun(folder, "uncleaned", *SHORT)
    assert process(recipe, Kill("rollout", 0, min(taken["rollout"]) / 4), folder / "uncleaned.json") == -signal.SIGPROF
    assert (recipe.folder / "journal" / "round-0000.rank0.jsonl").is_file()
    assert checkpoint.latest(recipe.folder / "grpo") is None
