"""The update through the real launchers. Each launch runs all cases of `launched/cases.py` once; one process is the measure."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.writer_rl.launched import cases

ROOT = Path(__file__).parents[2]
TRAINED = ("precision=fp32", "data.gym.train=3", "sft.epochs=1", "grpo.group_size=3")
CUTS = tuple(f"cut{budget}" for budget in (10_000, 40, 1))
EQUAL = (*CUTS, "lonely", "uneven", "shut", "recomputed", "resumed", "adapted")
TRACELESS = ("gated", "nonfinite", "resumed", "adapted")


def launcher(name: str) -> list[str]:
    """The command in front of `-m module`: kind and number of processes, for example ddp-2 or zero3-2."""
    kind, _, processes = name.partition("-")
    binaries = Path(sys.executable).parent
    if kind == "one":
        return [sys.executable]
    if kind == "ddp":
        return [str(binaries / "torchrun"), "--standalone", "--nproc_per_node", processes]
    file = ROOT / "recipes" / "accelerate" / f"{kind}_cpu.yaml"
    return [str(binaries / "accelerate"), "launch", "--config_file", str(file), "--num_processes", processes]


def environment(name: str) -> dict[str, str]:
    own = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(ROOT)}
    return os.environ | own | ({"ACCELERATE_USE_CPU": "true"} if name.startswith("ddp") else {})


@pytest.fixture(scope="session")
def launched(tmp_path_factory):
    """Run all cases under a launcher, once; the folder with what they left."""
    made: dict[str, Path] = {}
    model = tmp_path_factory.mktemp("model")
    policy = cases.make_policy()
    policy.model.save_pretrained(model)
    policy.tokenizer.save_pretrained(model)

    def run(name: str) -> Path:
        if name.startswith("zero") and find_spec("deepspeed") is None:
            pytest.skip("deepspeed is not installed: pip install deepspeed")
        if name.startswith("zero") and shutil.which("g++") is None:
            pytest.skip("DeepSpeed compiles an extension at its first start, and there is no g++")
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            overrides = (f"model.path={model}", *TRAINED) if name in ("one", "ddp-2", "zero3-2") else ()
            module = ["-m", "tests.writer_rl.launched.cases", str(folder), *overrides]
            done = subprocess.run(
                [*launcher(name), *module], cwd=ROOT, env=environment(name), capture_output=True, text=True, timeout=600
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
            made[name] = folder
        return made[name]

    return run


def told(folder: Path, case: str) -> dict:
    return json.loads((folder / f"{case}.json").read_text())


LAUNCHES = {
    "ddp-2": (2, "MULTI_CPU"),
    "ddp-3": (3, "MULTI_CPU"),
    "zero1-2": (2, "DEEPSPEED"),
    "zero2-3": (3, "DEEPSPEED"),
    "zero3-2": (2, "DEEPSPEED"),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_loss_gradient_norm_and_next_weights_are_those_of_one_process(launched, name):
    """Unequal lengths, dropped samples, a rank without a sample, 1 to 8 micro-batches, recomputed activations, LoRA."""
    one, many = launched("one"), launched(name)
    processes, kind = LAUNCHES[name]
    for case in EQUAL:
        ours, theirs = told(many, case), told(one, case)
        assert (ours["processes"], ours["kind"]) == (processes, kind)
        assert [len(round_["epochs"]) for round_ in ours["rounds"]] == [len(round_["epochs"]) for round_ in theirs["rounds"]]
        for left, right in zip(ours["rounds"], theirs["rounds"], strict=True):
            assert (left["kept"], left["dropped"]) == (right["kept"], right["dropped"]), case
            for mine, plain in zip(left["epochs"], right["epochs"], strict=True):
                assert mine["outcome"] == plain["outcome"], case
                for value in ("loss", "kl", "grad_norm", "nll", "max_delta", "clip_low", "clip_high"):
                    assert mine[value] == pytest.approx(plain[value], rel=1e-5, abs=1e-5), (case, value)
        weights, plain_weights = (load_file(folder / f"{case}.safetensors") for folder in (many, one))
        assert weights.keys() == plain_weights.keys()
        for weight, tensor in weights.items():
            assert (tensor - plain_weights[weight]).abs().max() < 1e-5, (case, weight)


@pytest.mark.parametrize("name", ["one", *LAUNCHES])
def test_how_a_round_is_cut_into_micro_batches_changes_nothing(launched, name):
    folder = launched(name)
    whole, *others = (load_file(folder / f"{case}.safetensors") for case in CUTS)
    for cut in others:
        assert all((cut[weight] - tensor).abs().max() < 1e-5 for weight, tensor in whole.items())


@pytest.mark.parametrize("name", ["one", *LAUNCHES])
def test_a_round_that_did_not_count_leaves_no_trace_and_a_resumed_course_is_the_same_bit_for_bit(launched, name):
    """Weights, moments, schedule and the next round: behind a gated and a non-finite round, and behind a resume."""
    folder = launched(name)
    for case in TRACELESS:
        assert told(folder, case)["unequal"] == [], case
    for case in ("gated", "nonfinite"):
        outcomes = [[epoch["outcome"] for epoch in round_["epochs"]] for round_ in told(folder, case)["rounds"]]
        assert outcomes == [["stepped", "stepped"], [case], ["stepped", "stepped"]]
    assert [epoch["outcome"] for epoch in told(folder, "shut")["rounds"][0]["epochs"]] == ["stepped", "gated"]


@pytest.mark.parametrize("name", ["ddp-2", "zero3-2"])
def test_sft_and_grpo_run_on_many_processes_and_rank_0_alone_writes(launched, name):
    one, many = launched("one") / "tiny", launched(name) / "tiny"
    sft, plain = (load_file(folder / "sft" / "epoch-01" / "model.safetensors") for folder in (many, one))
    assert all((tensor - plain[weight]).abs().max() < 1e-5 for weight, tensor in sft.items())
    rows = [json.loads(line) for line in (many / "metrics-grpo.jsonl").read_text().splitlines()]
    plain_rows = [json.loads(line) for line in (one / "metrics-grpo.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1]
    for row, plain_row in zip(rows, plain_rows, strict=True):
        assert row["num_tokens"] == plain_row["num_tokens"] and row["reward"] == pytest.approx(plain_row["reward"])
        assert row["update/kept_samples"] == plain_row["update/kept_samples"]
    assert [path.name for path in sorted((many / "grpo").glob("round-*"))] == ["round-0001", "round-0002"]
    traces = [(folder / "trace" / "grpo" / "round-0001.jsonl").read_text().splitlines() for folder in (many, one)]
    assert [json.loads(line)["text"] for line in traces[0]] == [json.loads(line)["text"] for line in traces[1]]


def test_moments_that_zero_cut_are_refused_elsewhere(launched):
    from writer_rl.checkpoint import CheckpointError, restore_trainer

    folder = launched("zero1-2")
    course = cases.Course.new()
    with pytest.raises(CheckpointError, match="ZeRO-1 on 2 processes, and this is no ZeRO"):
        restore_trainer(folder / "round-2", course.optimizer, course.scheduler, course.accelerator)
