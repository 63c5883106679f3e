"""Kill -9 at random points: does a resumed run end as the one that was never stopped?

python -m benchmarks.resume            # docs/results/resume.md and .json

A tiny random Qwen2 is trained on the gym for a few rounds, once without a stop. Then the same run is begun again, its process
is killed at a point drawn from a seed (a phase, which of its occurrences, and how much processor time into it), the same
command is started once more and killed at the next point, and so on, until a process comes to the end of the run; what that
leaves is compared byte by byte. The kernel ends a process in the middle of whatever it does, without a handler or any clean-up.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.results import write_result
from tests.tiny import make_model, make_tokenizer
from writer_rl import checkpoint, entry, grpo
from writer_rl.logbook import read_lines
from writer_rl.recipe import Recipe, load

COMMAND = "python -m benchmarks.resume"
KILLS, LEAST, IN_A_ROW, SEED = 20, 2, 4, 0  # at least so many kills in all and in each phase; so many of one run
PHASES = ("rollout", "scoring", "update", "save")
SMALL = (
    "data.gym.train=2",
    "data.gym.config={segments:[2,2],messages:[2,3],members:[2,3]}",
    "sft.epochs=2",
    "grpo.rounds=3",
    "grpo.group_size=4",
    "grpo.max_new_tokens=90",
    "grpo.temperature=3.0",  # near uniform: some completions end before they are cut off, which is all the signal there is
    "grpo.top_p=1.0",
    "grpo.lr=1.0e-3",
    "grpo.save_every=2",
    "precision=fp32",
)
SERVER = multiprocessing.get_context("forkserver")  # the libraries are loaded once, not for every process
SERVER.set_forkserver_preload(["benchmarks.resume"])


@dataclass(frozen=True)
class Kill:
    """Where a process ends: `seconds` of processor time into the given occurrence of a phase in that process."""

    phase: str
    occurrence: int
    seconds: float


def tiny_recipe(folder: Path, where: str, *overrides: str) -> Recipe:
    """The recipe of a run under `folder/where`; the model is made the first time."""
    model = folder / "model"
    if not model.is_dir():
        make_model().save_pretrained(model)
        make_tokenizer().save_pretrained(model)
    return load("tiny", [*SMALL, f"model.path={model}", f"checkpoints={folder / where}", *overrides])


def process(recipe: Recipe, kill: Kill | None, marks: Path) -> int:
    """Run GRPO in a process of its own; its exit code (negative: the signal that ended it). `marks` gets the phase it is in
    and, at the end, what each phase took."""
    child = SERVER.Process(target=_child, args=(recipe, kill, marks))
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def _child(recipe: Recipe, kill: Kill | None, marks: Path) -> None:
    sys.stderr = (marks.parent / "stderr").open("a")  # progress bars of many runs
    warnings.simplefilter("ignore")
    taken: dict[str, list[float]] = {phase: [] for phase in PHASES}
    mark = os.open(marks.with_suffix(".phase"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def watched(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            os.pwrite(mark, phase.ljust(16).encode(), 0)
            if kill is not None and kill.phase == phase and kill.occurrence == len(taken[phase]):
                signal.signal(signal.SIGPROF, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_PROF, max(kill.seconds, 1e-6))
            begun = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                taken[phase].append(time.process_time() - begun)
                os.pwrite(mark, b"between".ljust(16), 0)

        return run

    for module, name, phase in (
        (grpo, "rollout", "rollout"),
        (grpo, "score_round", "scoring"),
        (grpo, "update", "update"),
        (checkpoint, "save", "save"),
    ):
        setattr(module, name, watched(phase, getattr(module, name)))
    entry.run("grpo", recipe)
    signal.setitimer(signal.ITIMER_PROF, 0)
    marks.write_text(json.dumps(taken))


def died_in(marks: Path) -> str:
    return marks.with_suffix(".phase").read_text().strip()


def left_behind(recipe: Recipe) -> dict[str, str]:
    """Name -> sha256 of all that must come out equal: weights, moments, completions, metrics (without times)."""
    last = checkpoint.latest(recipe.folder / "grpo")
    assert last is not None
    files = {f"{last.name}/{path.name}": path.read_bytes() for path in sorted(last.rglob("*.safetensors"))}
    files |= {path.name: path.read_bytes() for path in sorted((recipe.folder / "trace" / "grpo").iterdir())}
    rows = [json.loads(line) for line in (recipe.folder / "metrics-grpo.jsonl").read_text("utf-8").splitlines()]
    untimed = [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]
    files["metrics"] = json.dumps(untimed).encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def plan(taken: dict[str, list[float]], count: int, seed: int) -> list[Kill]:
    """Random points, as many in one phase as in another: `taken` is the processor time of each occurrence of a phase."""
    draw = random.Random(seed)
    phases = [PHASES[number % len(PHASES)] for number in range(count)]
    draw.shuffle(phases)
    made = []
    for phase in phases:
        occurrence = draw.randrange(len(taken[phase]))
        made.append(Kill(phase, occurrence, draw.uniform(0, taken[phase][occurrence])))
    return made


def begun(folder: Path, where: str, *overrides: str) -> Recipe:
    """A run whose SFT is done: that of `folder/whole`, copied."""
    recipe = tiny_recipe(folder, where, *overrides)
    shutil.copytree(folder / "whole" / recipe.run / "sft", recipe.folder / "sft")
    return recipe


def uninterrupted(folder: Path, *overrides: str) -> tuple[dict[str, str], dict[str, list[float]]]:
    """What the run leaves that nothing stops, and what its phases took."""
    recipe = tiny_recipe(folder, "whole", *overrides)
    entry.run("sft", recipe)
    assert process(recipe, None, folder / "whole.json") == 0
    return left_behind(recipe), json.loads((folder / "whole.json").read_text())


def resumed(folder: Path, name: str, kills: Sequence[Kill], *overrides: str) -> tuple[list[str], dict[str, str]]:
    """A run killed at each of the points, one process after the other, and then left to end: in which phases the processes
    died (one that came to its end before its point did not), and what the run leaves."""
    recipe = begun(folder, name, *overrides)
    marks = folder / f"{name}.json"
    died = []
    for kill in (*kills, None):
        code = process(recipe, kill, marks)
        if code == 0:
            return died, left_behind(recipe)
        assert kill is not None and code == -signal.SIGPROF, f"{name} does not go on: exit code {code}"
        died.append(died_in(marks))
    raise AssertionError("the last process is not killed")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        expected, taken = uninterrupted(folder)
        steps = sum(row["update/steps"] for row in read_lines(folder / "whole" / "tiny" / "metrics-grpo.jsonl"))
        assert steps, "no round took a step, so there is nothing to compare"
        print(f"uninterrupted: {steps:.0f} optimizer steps, {taken}", flush=True)
        by_phase: Counter[str] = Counter()
        runs: list[dict[str, Any]] = []
        points = iter(plan(taken, 10 * KILLS, SEED))
        while sum(by_phase.values()) < KILLS or min(by_phase[phase] for phase in PHASES) < LEAST:
            died, left = resumed(folder, f"run{len(runs)}", list(islice(points, IN_A_ROW)))
            by_phase.update(died)
            runs.append({"died_in": died, "equal": left == expected})
            print(runs[-1], flush=True)
            shutil.rmtree(folder / f"run{len(runs) - 1}")
    result = {
        "kills": sum(by_phase.values()),
        "equal": sum(len(run["died_in"]) for run in runs if run["equal"]),
        "by_phase": {phase: by_phase[phase] for phase in (*PHASES, "between") if by_phase[phase]},
        "steps": steps,
        "compared": sorted(expected),
        "runs": runs,
    }
    write_result("resume", "Killed at random points and resumed", result, text(result), COMMAND)


def text(result: dict[str, Any]) -> str:
    phases = ", ".join(f"{name} {count}" for name, count in result["by_phase"].items())
    lines = ["| run | its processes died in | left the same bytes |", "|---|---|---|"]
    lines += [
        f"| {number} | {', '.join(run['died_in']) or 'none'} | {'yes' if run['equal'] else 'NO'} |"
        for number, run in enumerate(result["runs"], start=1)
    ]
    return "\n\n".join(
        [
            f"**{result['equal']} of {result['kills']} kills were in runs that ended equal** to the one that was never "
            "stopped: weights, optimizer moments and random states, every round's trace (completions, verdicts, rewards), and "
            f"metrics. Died in: {phases}.",
            "Tiny random Qwen2, gym, 3 rounds of 4 trajectories, a checkpoint every 2 rounds, fp32 on a CPU. Points are drawn "
            "with seed 0; there the kernel ends the process at once, by the default action of its processor-time signal, which "
            "runs nothing, as that of SIGKILL. `between` is where none of the four was at work: while libraries, model and "
            "data are made ready, or between two phases.",
            "\n".join(lines),
        ]
    )


if __name__ == "__main__":
    main()
