"""What `writer-rl validate` finds before a launch, what it estimates, and that a dry run walks a round and leaves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data.checks import Level
from data.network import DataError
from tests.tiny import make_model, make_tokenizer
from tests.writer_rl.builders import make_policy
from writer_rl import entry, stand_in
from writer_rl.cli import app
from writer_rl.dry_run import dry_run
from writer_rl.estimate_page import clock, count, estimate, memory_line
from writer_rl.estimates import DEVICES, GIB, RUNTIME, Setting, Shape, activations, device_named, memory, training_flop
from writer_rl.examples import Example
from writer_rl.logprobs import CHUNK
from writer_rl.recipe import Recipe, load
from writer_rl.runtime import Runtime
from writer_rl.validate import Checked, divergence, validate
from writer_rl.workload import Written, llm_calls, seconds, setting_of, work_of

SMALL = [
    "data.gym.train=2",
    "data.gym.dev=1",
    "data.gym.test=1",
    "data.gym.config={segments:[2,2],messages:[2,3],members:[2,3]}",
    "sft.epochs=1",
    "precision=fp32",
]


@pytest.fixture(scope="module")
def overrides(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A tiny model, and a run whose SFT is done."""
    folder = tmp_path_factory.mktemp("validate")
    make_model().save_pretrained(folder / "model")
    make_tokenizer().save_pretrained(folder / "model")
    made = [*SMALL, f"model.path={folder / 'model'}", f"checkpoints={folder / 'runs'}"]
    entry.run("sft", load("tiny", made))
    return made


@pytest.fixture(scope="module")
def checked(overrides: list[str]) -> Checked:
    return validate(load("tiny", overrides))


def findings(checked: Checked, level: Level) -> dict[str, str]:
    return {one.check: one.detail for one in checked.findings if one.level is level}


def test_a_recipe_that_holds_together_passes_every_check(checked: Checked) -> None:
    assert not checked.failed
    found = findings(checked, Level.INFO)
    assert found.keys() >= {"data", "leaks", "pipeline", "model", "template", "lengths", "KL"}
    assert "<|im_end|> (2) is trained" in found["template"]
    assert found["KL"].startswith("0.0e+00")
    longest = max(length for one in checked.written for length in one.prompts)
    assert f"longest prompts {longest} (gym_train_0_" in found["lengths"]


def test_a_dry_run_walks_one_round_and_leaves_nothing(checked: Checked) -> None:
    folder = checked.recipe.folder
    before = sorted(folder.rglob("*"))
    done = dry_run(checked)
    assert done.reward[0] > done.reward[1] + 0.2
    assert (done.writes, done.kept, done.steps) == (4, 4, 2)
    assert done.kl < 1e-6
    assert done.questions > 0 and done.calls == 0
    assert sorted(folder.rglob("*")) == before


def test_without_sft_the_divergence_is_said_to_be_unmeasured_and_prompts_too_long_fail(overrides: list[str]) -> None:
    made = validate(load("tiny", [*overrides, "run=other", "writer.max_prompt_tokens=60"]))
    assert "SFT checkpoint, which is not there yet" in findings(made, Level.WARNING)["KL"]
    failed = findings(made, Level.ERROR)
    assert failed.keys() == {"lengths"}
    assert "the prompt has" in failed["lengths"] and "writer.max_prompt_tokens is 60" in failed["lengths"]
    with pytest.raises(DataError, match="marked FAIL"):
        dry_run(made)


def test_another_reference_than_the_starting_policy_fails(overrides: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runtime, "reference", lambda self, policy, start: make_policy(seed=1).model)
    failed = findings(validate(load("tiny", overrides)), Level.ERROR)
    assert failed.keys() == {"KL"} and "is not the policy that GRPO starts from" in failed["KL"]


def test_what_is_missing_is_one_finding_and_the_rest_is_still_checked(overrides: list[str]) -> None:
    made = validate(load("tiny", [*overrides, "run=other", "model.path=/no/such/folder"]))
    failed = findings(made, Level.ERROR)
    assert failed.keys() == {"model"} and "there is no such folder" in failed["model"]
    assert "data" in findings(made, Level.INFO)


def test_a_model_that_is_not_here_yet_is_estimated_from_its_shape(
    overrides: list[str], monkeypatch: pytest.MonkeyPatch, checked: Checked
) -> None:
    monkeypatch.setitem(stand_in.SHAPES, "/no/such/folder", QWEN3B)
    made = validate(load("tiny", [*overrides, "run=other", "model.path=/no/such/folder"]))
    assert made.failed and made.shape == QWEN3B
    assert "4 bytes a token" in findings(made, Level.WARNING)["lengths"]
    assert [(one.network, len(one.prompts), one.questions) for one in made.written] == [
        (one.network, len(one.prompts), one.questions) for one in checked.written
    ]
    text = "\n".join(estimate(made.recipe, made.shape, made.written, DEVICES["H100"]))
    assert "peak" in text and "fp32" in text


def test_divergence_is_zero_for_equal_models_and_the_token_mean_of_k3_else() -> None:
    example = Example((5, 6, 7), (8, 9, 2))
    one, other = make_policy(seed=0), make_policy(seed=1)
    assert divergence(one, make_policy(seed=0).model, [example]) == 0
    assert divergence(one, other.model, [example]) > 0.1


def test_the_command_prints_checks_and_an_estimate_and_fails_with_2(overrides: list[str]) -> None:
    done = CliRunner().invoke(app, ["validate", "tiny", *overrides, "--gpu", "h100", "--resolved"])
    assert done.exit_code == 0, done.output
    assert "w_mem: 0.45" in done.output  # --resolved: every default
    assert "ok   template" in done.output
    for part in ("estimate for H100", "  memory   weights (fp32)", "of 80 GiB, fits", "  tokens   SFT", "  cost     "):
        assert part in done.output
    assert "no calls: all roles are offline" in done.output
    failed = CliRunner().invoke(
        app, ["validate", "tiny", *overrides, "model.path=/no/such/folder", "run=other", "--gpu", "cpu"]
    )
    assert failed.exit_code == 2
    assert "FAIL model" in failed.output
    unknown = CliRunner().invoke(app, ["validate", "tiny", "--gpu", "H1000"])
    assert unknown.exit_code == 2 and "no device 'H1000'" in unknown.output


QWEN3B = Shape(3_085_938_688, 3_085_938_688, 36, 2048, 256, 11008, 151936)
PLAIN = Setting(True, True, 8192, 8192, 8, 8 * 4096, 2)


def test_memory_by_part_is_the_page_s_formula() -> None:
    parts = memory(QWEN3B, PLAIN)
    p = QWEN3B.parameters
    assert (parts["weights (fp32)"], parts["gradients"], parts["moments"], parts["reference"]) == (4 * p, 4 * p, 8 * p, 4 * p)
    assert parts["rollout cache"] == 8 * 4096 * 36 * 2 * 256 * 2
    layer = 20 * 2048 + 2 * (5 * 2048 + 3 * 256 + 4 * 11008)
    assert parts["activations"] == 8192 * (4 * 2048 * 36 + layer)
    assert activations(QWEN3B, 8192, Setting(True, False, 8192, 8192, 8, 0, 2)) == 8192 * 36 * layer
    assert parts["logits"] == CHUNK * 151936 * 10
    update = parts["activations"] + parts["logits"]
    fixed = sum(parts[name] for name in ("weights (fp32)", "gradients", "moments", "reference", "bf16 copies"))
    assert parts["total"] == fixed + max(update, parts["rollout cache"]) + RUNTIME
    assert 60 * GIB < parts["total"] < DEVICES["H100"].memory
    long = replace(PLAIN, sft_tokens=131072)
    assert memory(QWEN3B, long)["total"] == 18 * p + activations(QWEN3B, 131072, long) + parts["logits"] + RUNTIME
    assert memory(QWEN3B, replace(PLAIN, sft_tokens=8192))["total"] == parts["total"]


def test_a_sample_longer_than_the_budget_is_estimated_whole(checked: Checked) -> None:
    longest = max(max(one.prompts) for one in checked.written)
    small = load("tiny", [*SMALL, "grpo.micro_batch_tokens=8", "sft.micro_batch_tokens=8", "grpo.max_new_tokens=400"])
    setting = setting_of(small, checked.written, False)
    assert setting.grpo_tokens == longest + 400 and setting.sft_tokens > longest


def test_a_peak_near_the_device_s_memory_is_called_tight(checked: Checked) -> None:
    setting, shape = setting_of(checked.recipe, checked.written, False), checked.shape
    peak = memory(shape, setting)["total"]
    said = [memory_line(shape, setting, replace(DEVICES["H100"], memory=peak / share)) for share in (0.5, 0.9, 1.1)]
    assert "fits" in said[0] and "TIGHT" in said[1] and "DOES NOT FIT" in said[2]


def test_an_adapter_needs_neither_moments_nor_a_reference_of_the_whole_model() -> None:
    lora = memory(Shape(3_085_938_688, 30_000_000, 36, 2048, 256, 11008, 151936), PLAIN)
    assert lora["moments"] == 8 * 30_000_000 and lora["reference"] == 4 * 30_000_000
    assert lora["total"] < memory(QWEN3B, PLAIN)["total"] - 40 * GIB


NETWORKS = [Written("a", (100, 300), (50, 70), 6), Written("b", (200,), (80,), 2)]


def recipe_with(**pipeline: object) -> Recipe:
    base = load("tiny", ["grpo.rounds=3", "grpo.networks_per_round=2", "grpo.group_size=8", "sft.epochs=2"])
    return base.model_copy(update={"pipeline": base.pipeline.model_copy(update=pipeline)})


def test_work_is_counted_on_the_mean_network() -> None:
    work = work_of(recipe_with(), NETWORKS)
    assert work.sft_tokens == 2 * 800
    assert work.grpo_tokens == 3 * 2 * 8 * 400
    assert work.generated == 3 * 2 * 8 * 100
    assert work.prompt_tokens == 3 * 2 * (300 + 8 * 300) / 2
    assert work.longest == 3 * 120
    assert work.most_generated == 3 * 2 * 8 * 256 * 1.5


def test_llm_calls_are_the_bound_of_the_measured_formula() -> None:
    one = recipe_with(project="litellm:m", select="litellm:m", answer="litellm:m", judge="litellm:m")
    four = [Written("a", (1,), (1,), 4)]
    alone = one.model_copy(update={"grpo": one.grpo.model_copy(update={"rounds": 1, "networks_per_round": 1})})
    assert llm_calls(alone, four) == {"project": 4, "select": 8, "answer": 36, "judge": 36}
    assert sum(llm_calls(alone, four).values()) == 84
    assert llm_calls(one, NETWORKS)["judge"] == 6 * 3 * 9  # min(4, 6) and 2 questions: 3 in the mean
    assert llm_calls(recipe_with(), four) == {}
    assert llm_calls(recipe_with(judge="litellm:m"), four).keys() == {"judge"}


def test_seconds_follow_tokens_and_checkpointing_costs_a_third() -> None:
    recipe = recipe_with()
    setting = setting_of(recipe, NETWORKS, bf16=True)
    assert (setting.generating, setting.generating_tokens) == (16, 16 * 556)
    once = seconds(work_of(recipe, NETWORKS), QWEN3B, setting, DEVICES["H100"], 800, 8)
    assert once["scoring"] == 200
    double = recipe.model_copy(update={"grpo": recipe.grpo.model_copy(update={"rounds": 6})})
    twice = seconds(work_of(double, NETWORKS), QWEN3B, setting, DEVICES["H100"], 800, 8)
    assert twice["update"] == pytest.approx(2 * once["update"]) and twice["rollout"] == pytest.approx(2 * once["rollout"])
    assert twice["sft"] == once["sft"]
    plain, saving = (Setting(True, flag, 1, 1, 1, 1, 2) for flag in (False, True))
    assert training_flop(QWEN3B, 1e6, 0, plain) == 6e6 * QWEN3B.parameters
    assert training_flop(QWEN3B, 1e6, 500, saving) == pytest.approx(training_flop(QWEN3B, 1e6, 500, plain) * 4 / 3)


def test_numbers_are_said_as_people_say_them() -> None:
    assert [count(value) for value in (12, 3400, 2.5e6)] == ["12", "3.4 k", "2.5 M"]
    assert [clock(value) for value in (5, 600, 7200)] == ["5 s", "10 min", "2.0 h"]
    assert device_named("a100-80").memory == 80 * GIB


def test_nothing_is_written_beside_the_run(overrides: list[str], checked: Checked) -> None:
    root = Path(checked.recipe.checkpoints)
    assert [path.name for path in root.iterdir()] == ["tiny"]
