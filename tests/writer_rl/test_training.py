"""SFT and GRPO through their real code on a tiny random model: what runs leave behind, and that they can go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

from data.memory.actions import Noop, render
from data.network import DataError
from rollout.engines.base import Completion, Request, RequestKey
from rollout.engines.replay import ReplayEngine
from rollout.query.view import MemoryView
from writer_rl import checkpoint, entry, grpo, parity, run
from writer_rl.batches import batch_of
from writer_rl.cases import load_cases
from writer_rl.evaluation.evaluate import evaluate
from writer_rl.evaluation.writers import empty_writer, teacher_writer
from writer_rl.examples import Example
from writer_rl.journal import Journal, Origin
from writer_rl.logbook import read_lines
from writer_rl.logprobs import completion_logprobs
from writer_rl.policy import Policy
from writer_rl.recipe import Recipe, load
from writer_rl.runtime import Runtime
from writer_rl.schedule import Visit
from writer_rl.scoring import TooManyUnjudged
from writer_rl.selection import best, selected
from writer_rl.sft import shaping

SMALL = [
    "data.gym.train=2",
    "data.gym.config={segments:[2,2],messages:[2,3],members:[2,3]}",
    "sft.micro_batch_tokens=2048",
    "grpo.group_size=2",
    "grpo.max_new_tokens=300",
    "eval.max_new_tokens=24",
    "precision=fp32",
]


@pytest.fixture
def recipe(model_folder: Path, tmp_path: Path) -> Callable[..., Recipe]:
    def make(*overrides: str, where: str = "runs") -> Recipe:
        return load("tiny", [*SMALL, f"model.path={model_folder}", f"checkpoints={tmp_path / where}", *overrides])

    return make


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Weights and optimizer of a checkpoint, byte by byte."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.safetensors") if path.name != "rng.safetensors"}


def untimed(path: Path) -> list[dict[str, object]]:
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in read_lines(path)]


def test_sft_lowers_the_loss_and_leaves_a_checkpoint_an_epoch(recipe: Callable[..., Recipe]) -> None:
    made = recipe("sft.epochs=3", "sft.lr=3e-3")
    entry.run("sft", made)
    losses = [row["loss"] for row in read_lines(made.folder / "metrics-sft.jsonl")]
    assert losses[-1] < losses[0] - 0.3
    assert selected(made.folder / "sft").name == "epoch-03"
    assert sorted(path.name for path in (made.folder / "sft").glob("epoch-*")) == ["epoch-01", "epoch-02", "epoch-03"]


def test_sft_goes_on_from_an_epoch_to_the_same_bytes(recipe: Callable[..., Recipe]) -> None:
    whole, parts = recipe("sft.epochs=2", where="whole"), recipe("sft.epochs=1", where="parts")
    entry.run("sft", whole)
    entry.run("sft", parts)
    again = recipe("sft.epochs=2", where="parts")
    entry.run("sft", again)
    assert bytes_of(whole.folder / "sft" / "epoch-02") == bytes_of(again.folder / "sft" / "epoch-02")
    assert untimed(whole.folder / "metrics-sft.jsonl") == untimed(again.folder / "metrics-sft.jsonl")


def test_four_rounds_equal_two_and_two_to_the_byte(recipe: Callable[..., Recipe]) -> None:
    whole, parts = recipe("grpo.rounds=4", where="whole"), recipe("grpo.rounds=2", where="parts")
    for made in (whole, parts):
        entry.run("sft", made)
        entry.run("grpo", made)
    again = recipe("grpo.rounds=4", where="parts")
    entry.run("grpo", again)
    assert bytes_of(whole.folder / "grpo" / "round-0004") == bytes_of(again.folder / "grpo" / "round-0004")
    assert untimed(whole.folder / "metrics-grpo.jsonl") == untimed(again.folder / "metrics-grpo.jsonl")
    for index in range(4):
        name = f"trace/grpo/round-{index:04d}.jsonl"
        assert (whole.folder / name).read_bytes() == (again.folder / name).read_bytes()
    assert bytes_of(whole.folder / "grpo" / "round-0004") != bytes_of(whole.folder / "grpo" / "round-0003")


def test_the_rate_rises_and_falls_by_the_steps_taken(recipe: Callable[..., Recipe]) -> None:
    settings = ("grpo.lr=1e-4", "grpo.schedule=linear", "grpo.warmup_steps=2", "grpo.kl_gate=100.0")
    made = recipe("grpo.rounds=3", *settings)
    for phase in ("sft", "grpo"):
        entry.run(phase, made)
    taken = 0.0
    for row in read_lines(made.folder / "metrics-grpo.jsonl"):
        taken += row["update/steps"]  # the logged rate is that of the next step
        factor = (taken + 1) / 2 if taken < 2 else (3 * 2 - taken) / (3 * 2 - 2)
        assert row["learning_rate"] == pytest.approx(1e-4 * factor, abs=1e-12)
    assert taken > 2
    with pytest.raises(DataError, match=r"grpo\.rounds"):  # more rounds would be other rates for those that were run
        entry.run("grpo", recipe("grpo.rounds=4", *settings))


def test_a_run_does_not_go_on_under_another_recipe(recipe: Callable[..., Recipe]) -> None:
    entry.run("sft", recipe("sft.epochs=1"))
    with pytest.raises(DataError, match=r"another recipe \(different: sft\.lr\)"):
        entry.run("sft", recipe("sft.epochs=2", "sft.lr=5e-4"))
    kept = load(str(recipe().folder / "recipe-sft.yaml"))  # of the run that is there, not of the one that was refused
    assert (kept.sft.epochs, kept.sft.lr) == (1, recipe().sft.lr)


def test_what_shapes_a_run_depends_on_its_schedule_and_on_how_it_chooses(recipe: Callable[..., Recipe]) -> None:
    plain = shaping(recipe())
    assert "grpo.lr" in plain and "grpo.rounds" not in plain and "eval.temperature" not in plain
    assert shaping(recipe("grpo.schedule=linear", "grpo.rounds=3"))["grpo.rounds"] == 3
    for chosen in ("grpo.eval_every=1", "sft.select=phi"):
        assert "eval.temperature" in shaping(recipe(chosen)) and "eval.seeds" not in shaping(recipe(chosen))


def test_a_checkpoint_is_not_judged_by_the_few_verdicts_of_an_outage(
    recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = {"row": "memory", "phi": 0.5, "return": 0.5}
    verdicts = ["correct", "incorrect", "incorrect", "correct"]
    rows = [memory, *({"row": "question", "verdict": one} for one in verdicts)]
    monkeypatch.setattr(run, "evaluate", lambda *_, **__: rows)
    runtime, writer = Runtime.of(recipe()), cast(Any, None)
    assert run.judge(runtime, writer, [], 3) == {
        "checkpoint": "round-0003",
        "accuracy": 0.5,
        "questions": 4,
        "phi": 0.5,
        "return": 0.5,
    }
    rows += [{"row": "question", "verdict": "missing"}] * 2
    with pytest.raises(TooManyUnjudged, match="2 of 6 questions of the evaluation behind round 3"):
        run.judge(runtime, writer, [], 3)


def test_grpo_without_an_sft_checkpoint_says_what_to_run(recipe: Callable[..., Recipe]) -> None:
    with pytest.raises(DataError, match=r"run train_sft\.py"):
        entry.run("grpo", recipe())


def test_a_run_does_not_go_on_against_another_reference(recipe: Callable[..., Recipe]) -> None:
    entry.run("sft", recipe("sft.epochs=1"))
    entry.run("grpo", recipe("sft.epochs=1", "grpo.rounds=1"))
    entry.run("sft", recipe("sft.epochs=2"))
    with pytest.raises(DataError, match="the reference is not what this run was begun with"):
        entry.run("grpo", recipe("sft.epochs=2", "grpo.rounds=2"))


def test_a_run_killed_while_it_wrote_its_metrics_goes_on(recipe: Callable[..., Recipe]) -> None:
    whole, torn = recipe("grpo.rounds=2", where="whole"), recipe("grpo.rounds=1", where="torn")
    for made in (whole, torn):
        entry.run("sft", made)
        entry.run("grpo", made)
    with (torn.folder / "metrics-grpo.jsonl").open("a") as out:
        out.write('{"step": 1, "rewa')
    entry.run("grpo", recipe("grpo.rounds=2", where="torn"))
    assert untimed(whole.folder / "metrics-grpo.jsonl") == untimed(torn.folder / "metrics-grpo.jsonl")


def test_an_engine_on_other_weights_stops_the_run(recipe: Callable[..., Recipe]) -> None:
    runtime = Runtime.of(recipe())
    policy = runtime.policy()
    prompt, stale = runtime.prompt(policy), runtime.engine(runtime.policy())
    assert parity.sync(runtime.engine(policy), policy, prompt, 1) < 1e-4
    with torch.no_grad():
        policy.model.model.layers[0].mlp.down_proj.weight[0, 0] += 1.0
    assert parity.sync(runtime.engine(policy), policy, prompt, 2) < 1e-4
    with pytest.raises(parity.StaleWeights, match="look stale"):
        parity.sync(stale, policy, prompt, 2)


def test_gradient_checkpointing_is_on_where_the_recipe_says_so(recipe: Callable[..., Recipe]) -> None:
    runtime = Runtime.of(recipe("model.gradient_checkpointing=true"))
    model = runtime.policy().model
    assert model.training
    assert model.model.layers[0].gradient_checkpointing


def test_a_target_longer_than_the_limit_is_an_error_not_cut(recipe: Callable[..., Recipe]) -> None:
    with pytest.raises(
        DataError, match=r"network gym_train_0_0, position \d: the target has \d+ tokens, grpo\.max_new_tokens is 8"
    ):
        entry.run("sft", recipe("grpo.max_new_tokens=8"))


def test_the_best_checkpoint_is_chosen_by_held_out_accuracy_ties_to_the_earlier() -> None:
    table = [
        {"checkpoint": "round-0002", "accuracy": 0.50, "phi": 0.9, "return": 0.9},
        {"checkpoint": "round-0004", "accuracy": 0.75, "phi": 0.2, "return": 0.1},
        {"checkpoint": "round-0006", "accuracy": 0.75, "phi": 0.8, "return": 0.5},
    ]
    assert best(table, "accuracy") == "round-0004"
    assert best(table, "last") == "round-0006"


def test_the_chosen_round_is_kept_with_its_table_and_a_resumed_run_keeps_it(recipe: Callable[..., Recipe]) -> None:
    for rounds in (2, 3):
        made = recipe(f"grpo.rounds={rounds}", "grpo.eval_every=1", "grpo.keep=1", "data.gym.dev=1")
        if rounds == 2:
            entry.run("sft", made)
        entry.run("grpo", made)
    chosen = json.loads((made.folder / "grpo" / "selected.json").read_text("utf-8"))
    assert [row["checkpoint"] for row in chosen["table"]] == ["round-0001", "round-0002", "round-0003"]
    assert chosen["checkpoint"] == best(chosen["table"], "accuracy")
    assert selected(made.folder / "grpo").is_dir()
    assert (made.folder / "grpo" / "round-0003").is_dir()


class Spelled:
    """An engine whose tokens are not those that its text would be cut into again."""

    def __init__(self, ids: tuple[int, ...]) -> None:
        self._ids = ids

    async def generate(self, request: Request) -> Completion:
        return Completion(self._ids, (0.0,) * len(self._ids), "stop", 0)

    async def sync(self, named_tensors: object, version: int) -> None:
        return None


def test_trained_ids_are_the_sampled_ones_and_never_tokenized_again(recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    runtime = Runtime.of(recipe("data.gym.train=1"))
    prompt = runtime.prompt(runtime.policy())
    whole = prompt.encode("actions")
    spelled = tuple(one for letter in "actions" for one in prompt.encode(letter))
    assert whole != spelled and prompt.decode(spelled) == "actions"
    cases = {case.network.id: case for case in load_cases(runtime.recipe.data, "train")}
    engine = Spelled((*spelled, prompt.turn_end_id))
    groups = grpo.rollout(runtime, engine, prompt, cases, [Visit(next(iter(cases)), 0)], 0)
    views = {name: MemoryView.of(case.network).prepared(runtime.embedder) for name, case in cases.items()}
    samples = grpo.samples_of(groups, grpo.score_round(runtime, groups, cases, views, Journal(tmp_path, Origin(0, 0, ""))))
    assert all(sample.completion_ids == (*spelled, prompt.turn_end_id) for sample in samples)


def test_every_write_of_a_round_is_in_the_trace(recipe: Callable[..., Recipe]) -> None:
    made = recipe("grpo.rounds=1", "grpo.networks_per_round=2")
    entry.run("sft", made)
    entry.run("grpo", made)
    rows = read_lines(made.folder / "trace" / "grpo" / "round-0000.jsonl")
    keys = [(row["network"], row["g"], row["t"]) for row in rows]
    positions = {case.network.id: len(case.segments) for case in load_cases(made.data, "train")}
    assert sorted(keys) == sorted((name, g, t) for name, count in positions.items() for g in range(2) for t in range(count))
    assert all(row["reward"].keys() >= {"valid", "phi", "chain", "mem", "penalty", "qa_term", "return"} for row in rows)
    assert len({row["pipeline_id"] for row in rows}) == 1


def scripted(monkeypatch: pytest.MonkeyPatch, texts: Callable[[RequestKey], str]) -> None:
    """Rollouts say given texts; the model is still the one that is trained on them."""
    monkeypatch.setattr(Runtime, "engine", lambda self, policy: ReplayEngine(texts, self.prompt(policy)))
    monkeypatch.setattr(parity, "sync", lambda engine, policy, prompt, version: 0.0)


def test_an_update_makes_the_better_trajectory_likelier(recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe("grpo.rounds=1", "grpo.lr=1e-3", "data.gym.train=1", "grpo.beta=0")
    entry.run("sft", made)
    cases = {case.network.id: case for case in load_cases(made.data, "train")}

    def text(key: RequestKey) -> str:
        taught = cases[key.network].teacher
        assert taught is not None
        return render(taught[key.t]) if key.g == 0 else render([Noop()])

    scripted(monkeypatch, text)
    entry.run("grpo", made)
    rows = read_lines(made.folder / "trace" / "grpo" / "round-0000.jsonl")
    told = [row for row in rows if row["advantage"] is not None]
    assert told
    assert all((row["advantage"] > 0) == (row["g"] == 0) for row in told)
    runtime = Runtime.of(made)
    before, after = (runtime.policy(folder) for folder in (selected(made.folder / "sft"), made.folder / "grpo" / "round-0001"))
    prompt = runtime.prompt(before)
    good = [Example((5, 6, 7), prompt.target_ids(row["text"])) for row in told if row["g"] == 0]
    bad = [Example((5, 6, 7), prompt.target_ids(row["text"])) for row in told if row["g"] == 1]

    def likelihood(policy: Policy, examples: list[Example]) -> float:
        with torch.no_grad():
            batch = batch_of(examples, range(len(examples)))
            return float((completion_logprobs(policy.model, batch).sum(-1) / batch.completion_lengths).sum())

    assert likelihood(after, good) - likelihood(before, good) > likelihood(after, bad) - likelihood(before, bad)


def test_the_teacher_scores_one_and_the_empty_writer_gains_nothing(recipe: Callable[..., Recipe]) -> None:
    made = recipe("data.gym.dev=3")  # its limit of 24 tokens is for Writers that sample: the oracle is never cut off
    runtime = Runtime.of(made)
    cases = load_cases(made.data, "dev")
    prompt = runtime.prompt(runtime.policy())
    rows = evaluate(runtime, teacher_writer(cases, prompt), cases, 2) + evaluate(runtime, empty_writer(prompt), cases, 2)
    memory = {name: [row for row in rows if row["row"] == "memory" and row["writer"] == name] for name in ("teacher", "empty")}
    assert [len(found) for found in memory.values()] == [3, 3]  # neither samples: once each
    for row in memory["teacher"]:
        assert (row["phi"], row["chain"], row["json"], row["schema"], row["penalty"]) == (1, 1, 1, 1, 0)
        assert (row["attribution_errors"], row["stale_heads"], row["missed"]) == (0, 0, 0)
    assert all(row["qa_gain"] == 0 for row in memory["empty"])
    assert all(row["missed"] == row["gold_heads"] for row in memory["empty"])


def test_a_checkpoint_reloads_to_equal_logits(recipe: Callable[..., Recipe]) -> None:
    made = recipe("sft.epochs=1")
    entry.run("sft", made)
    folder = selected(made.folder / "sft")
    policy = Runtime.of(made).policy(folder)
    weights = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in weights  # tied
    ids = torch.arange(12)[None]
    with torch.no_grad():
        first = policy.model(input_ids=ids).logits
        second = checkpoint.load(folder).policy.model(input_ids=ids).logits
    assert torch.equal(first, second)
    assert json.loads((folder / "trainer" / "state.json").read_text())["pipeline_id"] == Runtime.of(made).pipeline.id


def test_the_loop_reads_on_one_screen() -> None:
    source = Path(grpo.__file__).read_text("utf-8")
    body = source.split("def train(")[1].split("\ndef ")[0]
    assert len(body.splitlines()) <= 60
