"""A made-up run with real contents: teacher actions spoilt on purpose, replayed through the real rollout, scoring and trace."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from data.memory.actions import to_json
from rollout.engines.base import RequestKey
from rollout.engines.replay import ReplayEngine
from rollout.query.view import MemoryView
from rollout.writer.prompt import WriterPrompt
from tests.tiny import make_tokenizer
from writer_rl import recipe as recipes
from writer_rl.advantages import advantages
from writer_rl.cases import Case, load_cases
from writer_rl.evaluation.evaluate import evaluate
from writer_rl.evaluation.writers import Writer, empty_writer, teacher_writer
from writer_rl.grpo import rollout, samples_of, score_round
from writer_rl.journal import Journal, Origin
from writer_rl.logbook import Logbook, write_lines
from writer_rl.recipe import Recipe
from writer_rl.round_log import metrics, trace_rows
from writer_rl.runtime import Runtime
from writer_rl.schedule import visits
from writer_rl.update_stats import EpochStats, Outcome, UpdateStats

HOSTILE = "</script><script>document.title='broken out'</script><!-- <b>& \u2028"


def make_run(
    checkpoints: Path, rounds: int = 2, group: int = 4, *, evaluation: bool = True, more: tuple[str, ...] = ()
) -> Path:
    """Train nothing, but write down everything; returns the run's folder."""
    own = (f"checkpoints={checkpoints}", "run=made-up", f"grpo.rounds={rounds}", f"grpo.group_size={group}")
    loaded = recipes.load("tiny", (*own, "grpo.max_new_tokens=900", "eval.max_new_tokens=900", *more))
    loaded.folder.mkdir(parents=True)
    (loaded.folder / "recipe-grpo.yaml").write_text(loaded.to_yaml(), "utf-8")
    runtime = Runtime.of(loaded)
    tokenizer = make_tokenizer()
    prompt = WriterPrompt(loaded.writer.prompt, tokenizer)
    cases = {case.network.id: case for case in load_cases(loaded.data, "train")}
    views = {name: MemoryView.of(case.network).prepared(runtime.embedder) for name, case in cases.items()}
    engine = ReplayEngine(lambda key: spoilt(cases, key, rounds), prompt)
    logbook = Logbook(loaded.folder, "grpo", 0)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-4)
    for index in range(rounds):
        chosen = visits(sorted(cases), loaded.seed, index, 1)
        groups = rollout(runtime, engine, prompt, cases, chosen, index)
        scored = score_round(runtime, groups, cases, views, Journal(checkpoints / "journal", Origin(index, index, "")))
        advantage = advantages({one.key: one.ret for one in samples_of(groups, scored)}, group)
        logbook.trace(index, trace_rows(groups, scored, advantage, loaded.run, tokenizer.decode))
        times = {"time/rollout": 40.0 - index / 3, "time/scoring": 2.0 + index % 3, "time/update": 25.0}
        logbook.log(index, metrics(groups, scored, advantage, _stats(index), optimizer) | times)
        asyncio.run(engine.sync((), index + 1))
    logbook.close()
    _sft(loaded)
    if evaluation:
        tests = load_cases(loaded.data, "test")
        spoiling = ReplayEngine(lambda key: spoilt({one.network.id: one for one in tests}, key, 1), prompt)
        writers = [Writer("sft", spoiling, prompt), teacher_writer(tests, prompt), empty_writer(prompt)]
        rows = [row for writer in writers for row in evaluate(runtime, writer, tests, 2)]
        write_lines(loaded.folder / "eval" / "rows.jsonl", rows)
    return loaded.folder


def spoilt(cases: Mapping[str, Case], key: RequestKey, rounds: int) -> str:
    """The teacher's output with faults, fewer of them in later rounds."""
    teacher = cases[key.network].teacher
    assert teacher is not None
    names = cases[key.network].network.roster.names
    rng = random.Random(f"{key.round}/{key.network}/{key.g}/{key.t}")
    rate = 0.35 * (1 - 0.7 * max(key.round, 0) / rounds) * (1.0 + key.g / 4)
    actions = [_action(action, names, rng, rate) for action in map(_plain, teacher[key.t]) if rng.random() > rate / 2]
    if rng.random() < rate / 3:
        actions.append({"action": "ADD", "content": f"Says {HOSTILE}", **_place(names[0])})
    if rng.random() < rate / 3 and actions:
        actions.append(dict(actions[0]))
    text = json.dumps({"actions": actions}, ensure_ascii=False)
    if rng.random() < rate / 4:
        return f"Sure! ```json\n{text}\n```"
    return text[: len(text) // 2] if rng.random() < rate / 6 else text


def _plain(action: Any) -> dict[str, Any]:
    return dict(to_json(action))


def _place(name: str) -> dict[str, str]:
    return {"owner": name, "source": name, "layer": "per_speaker_core", "utype": "fact"}


def _action(action: dict[str, Any], names: tuple[str, ...], rng: random.Random, rate: float) -> dict[str, Any]:
    fault = rng.random() / rate
    if action["action"] == "ADD" and fault < 0.25 and action["owner"] != "GROUP":
        action["owner"] = rng.choice(names)
    elif action["action"] == "ADD" and fault < 0.4:
        action["source"] = "Nobody"
    elif action["action"] == "UPDATE" and fault < 0.3:
        action["entry_id"] = "d99"
    elif "content" in action and fault < 0.9:
        words = action["content"].split()
        rng.shuffle(words)
        action["content"] = " ".join(words[: 1 + len(words) // 2])
    return action


def _stats(index: int) -> UpdateStats:
    """Statistics of an update that never was; every seventh round the gate shuts."""
    gated = index % 7 == 6
    kl = 0.024 if gated else 0.002 + 0.0004 * index
    first = EpochStats(0.0, kl / 2, 0.0, 0.0, 0.4, 0.3, 0.1, 0.8)
    second = EpochStats(-0.01, kl, 0.01, 0.02, 0.4, 0.5, 0.2, 0.7, Outcome.GATED if gated else Outcome.STEPPED)
    return UpdateStats(20, 4, (first, second))


def _sft(recipe: Recipe) -> None:
    logbook = Logbook(recipe.folder, "sft", 0)
    for step in range(40):
        logbook.log(step, {"loss": 3.0 / (1 + step / 4), "grad_norm": 1.0, "epoch": step / 20})
    logbook.close()
    table = [{"epoch": 1, "phi": 0.31, "valid": 0.8, "return": 0.2}, {"epoch": 2, "phi": 0.42, "valid": 0.9, "return": 0.3}]
    (recipe.folder / "sft").mkdir()
    chosen = {"checkpoint": "epoch-02", "by": "phi", "table": table}
    (recipe.folder / "sft" / "selected.json").write_text(json.dumps(chosen), "utf-8")
