"""Export: one folder that plain transformers load, the same network as the checkpoint, and a contract that cannot drift."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from rollout.writer.prompt import WriterPrompt
from tests.writer_rl.builders import make_policy
from tests.writer_rl.evaluations import question_row
from tests.writer_rl.serving import checkpoints
from writer_rl import checkpoint, contract, export_check, lora, vllm_server
from writer_rl.cli import app
from writer_rl.contract import ContractMismatch, check_code
from writer_rl.export import Exported, ExportError, export, plain_model
from writer_rl.export_check import CheckFailed, by_transformers, parting
from writer_rl.hashes import weights_hash
from writer_rl.probe import Probe
from writer_rl.selection import write_selection

IDS = torch.tensor([[5, 9, 77, 3, 250, 399, 12]])
KINDS = ("tied", "untied", "adapter")


def make(kind: str, folder: Path) -> Path:
    """A checkpoint of a kind in a run's folder, its base beside it."""
    place = folder / "run" / "grpo" / "round-0003"
    return checkpoints.adapter(place, folder / "base") if kind == "adapter" else checkpoints.full(place, tied=kind == "tied")


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Exported, dict[Path, bytes]]:
    """A checkpoint, its fp32 export, and every byte of checkpoint and base before it."""
    folder = tmp_path_factory.mktemp(request.param)
    made = make(request.param, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return made, export(made, folder / "writer", "float32"), before


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A bf16 export, not to be changed."""
    folder = tmp_path_factory.mktemp("bf16")
    return export(make("tied", folder), folder / "writer")


@pytest.fixture
def copied(exported: Exported, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported.folder, tmp_path / "copy"))


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=IDS).logits


def test_plain_transformers_load_the_checkpoints_network(pair: tuple[Path, Exported, Any]) -> None:
    made, done, _ = pair
    model = AutoModelForCausalLM.from_pretrained(done.folder, dtype=torch.float32)
    torch.testing.assert_close(logits(model), logits(checkpoint.load(made).policy.model), atol=1e-5, rtol=0)
    ours, theirs = (AutoTokenizer.from_pretrained(done.folder), checkpoint.load(made).policy.tokenizer)
    assert ours.chat_template == theirs.chat_template and ours.get_vocab() == theirs.get_vocab()


def test_neither_checkpoint_nor_base_is_touched(pair: tuple[Path, Exported, dict[Path, bytes]]) -> None:
    assert all(path.read_bytes() == held for path, held in pair[2].items())


def test_only_an_untied_head_is_written_and_nothing_of_an_adapter_is_left(pair: tuple[Path, Exported, Any]) -> None:
    folder = pair[1].folder
    with safe_open(folder / "model.safetensors", "pt") as file:
        names = set(file.keys())
    tied = json.loads((folder / "config.json").read_text("utf-8"))["tie_word_embeddings"]
    assert ("lm_head.weight" in names) == (not tied)
    assert not any("lora" in name or "base_layer" in name for name in names)
    assert not list(folder.glob("adapter*")) and not (folder / "trainer").exists()


def test_an_adapter_really_changed_the_network(tmp_path: Path) -> None:
    made = make("adapter", tmp_path)
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(export(made, tmp_path / "w", "float32").folder, dtype=torch.float32)
    assert (logits(model) - logits(base)).abs().max() > 0.05


def test_bf16_weights_are_the_fp32_ones_rounded_once(exported: Exported, tmp_path: Path) -> None:
    rounded = load_file(exported.folder / "model.safetensors")
    whole = load_file(export(exported.checkpoint, tmp_path / "w", "float32").folder / "model.safetensors")
    assert rounded.keys() == whole.keys()
    assert all(torch.equal(rounded[name], whole[name].bfloat16()) for name in whole)


def test_a_server_takes_no_penalties_from_the_folder(exported: Exported) -> None:
    values = json.loads((exported.folder / "generation_config.json").read_text("utf-8"))
    assert values["do_sample"] is False
    assert {"repetition_penalty", "temperature", "top_p", "top_k"}.isdisjoint(values)
    assert values["eos_token_id"] in (2, [2]) and values["pad_token_id"] == 0


def test_the_contract_holds_what_the_outputs_depend_on(exported: Exported) -> None:
    terms = contract.read(exported.folder)
    assert terms == exported.contract
    assert terms.prompt.style == "compact" and "$messages" in terms.prompt.texts["compact_user.txt"]
    assert (terms.limits.prompt_tokens, terms.limits.head_tokens, terms.limits.new_tokens) == (1500, 512, 40)
    assert terms.layers == ("per_speaker_core", "per_speaker_profile", "group_interaction", "group_insight")
    assert terms.pipeline_id == "p" * 64 and len(terms.trained_on) == 4
    assert terms.hashes.weights == weights_hash(exported.folder) != terms.hashes.checkpoint
    assert terms.hashes.checkpoint == weights_hash(exported.checkpoint)
    assert len(terms.probe.greedy_ids) == len(terms.probe.top_ids) == 24
    assert [ids[0] for ids in terms.probe.top_ids] == list(terms.probe.greedy_ids)
    assert terms.probe.fates == (
        "applied:",
        "applied:",
        "applied:",
        "rejected:unknown_owner",
        "applied:",
        "rejected:unknown_entry",
        "rejected:noop_not_alone",
    )


def test_a_window_that_is_shorter_than_the_recipe_bounds_the_prompt(tmp_path: Path) -> None:
    recipe = checkpoints.state()["recipe"]
    recipe["writer"]["max_prompt_tokens"] = 100_000
    made = checkpoints.full(tmp_path / "run" / "grpo" / "round-0001", recipe=recipe)
    assert export(made, tmp_path / "w").contract.limits.prompt_tokens == 4096 - checkpoints.NEW_TOKENS


def test_limits_that_no_chat_fits_in_are_an_error(tmp_path: Path) -> None:
    recipe = checkpoints.state()["recipe"]
    recipe["writer"]["max_prompt_tokens"] = 100
    made = checkpoints.full(tmp_path / "run" / "grpo" / "round-0001", recipe=recipe)
    with pytest.raises(ExportError, match="a prompt may have 100 tokens"):
        export(made, tmp_path / "w")
    assert not list(tmp_path.glob("*w*"))


def test_every_change_of_weights_or_terms_is_another_id(exported: Exported, tmp_path: Path) -> None:
    other = export(checkpoints.full(tmp_path / "run" / "grpo" / "round-0003", seed=1), tmp_path / "w").contract
    whole = export(exported.checkpoint, tmp_path / "v", "float32").contract
    assert len({exported.contract.id, other.id, whole.id}) == 3
    assert exported.contract.id == export(exported.checkpoint, tmp_path / "u").contract.id  # and the same gives the same


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("writer_contract.json", lambda text: text.replace('"new_tokens": 40', '"new_tokens": 41'), "terms were changed after"),
        ("writer_contract.json", lambda text: text[:-30], "cannot be read as a contract"),
        ("chat_template.jinja", lambda text: text + " ", "are not the exported ones"),
        ("tokenizer.json", lambda text: text + " ", "are not the exported ones"),
    ],
)
def test_a_changed_folder_is_no_export_any_more(copied: Path, name: str, change: Any, said: str) -> None:
    path = copied / name
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    with pytest.raises(ValueError, match=said):
        contract.read(copied)


def test_the_code_that_exported_fulfils_the_contract_and_other_code_does_not(exported: Exported) -> None:
    terms = exported.contract
    prompt = WriterPrompt("compact", AutoTokenizer.from_pretrained(exported.folder))
    check_code(terms, prompt)
    changed = {
        "prompt text": {"prompt": terms.prompt.model_copy(update={"hash": "0"})},
        "prompt tokens": {"probe": terms.probe.model_copy(update={"prompt_ids": terms.probe.prompt_ids[:-1]})},
        "what becomes of fixed actions": {"probe": terms.probe.model_copy(update={"fates": terms.probe.fates[:-1]})},
        "action schema": {"action_schema": {}},
        "layers": {"layers": terms.layers[:-1]},
        "budget rule": {"budget": "8"},
        "heads an owner": {"limits": terms.limits.model_copy(update={"heads_per_owner": 39})},
    }
    for said, update in changed.items():
        with pytest.raises(ContractMismatch, match=said):
            check_code(terms.model_copy(update=update), prompt)


def test_the_fixed_chat_shows_a_memory_and_stays_as_it_is(exported: Exported) -> None:
    prompt = WriterPrompt("compact", AutoTokenizer.from_pretrained(exported.folder))
    known = Probe.of(prompt, 512)
    text = prompt.tokenizer.decode(known.prompt_ids)
    assert "d4 GROUP/Mara interaction: The group meets on Fridays at six." in text and "d3 " not in text
    assert "王芳/Jon profile: Jon finds 王芳 impatient." in text
    assert known.prompt_ids == exported.contract.probe.prompt_ids


@pytest.mark.parametrize("named", ["run", "run/grpo", "run/grpo/round-0003"])
def test_a_run_a_phase_and_a_checkpoint_name_the_same(tmp_path: Path, named: str) -> None:
    make("tied", tmp_path)
    checkpoints.full(tmp_path / "run" / "grpo" / "round-0002", seed=1)
    checkpoints.full(tmp_path / "run" / "sft" / "epoch-01", seed=2)
    assert export(tmp_path / named, tmp_path / "w").checkpoint == tmp_path / "run" / "grpo" / "round-0003"


def test_the_selected_checkpoint_goes_before_the_last(tmp_path: Path) -> None:
    make("tied", tmp_path)
    best = checkpoints.full(tmp_path / "run" / "grpo" / "round-0002", seed=1)
    write_selection(tmp_path / "run" / "grpo", [{"checkpoint": "round-0002", "accuracy": 0.5}], by="accuracy")
    assert export(tmp_path / "run", tmp_path / "w").checkpoint == best


def test_the_card_holds_what_was_measured_of_these_very_weights(tmp_path: Path) -> None:
    table = [{"checkpoint": "round-0003", "accuracy": 0.625, "questions": 8}]
    made = checkpoints.full(tmp_path / "run" / "grpo" / "round-0003", table=table)
    rows = [
        question_row(writer, network, "q", verdict, writer_id=name)
        for name, writer, verdict in (
            (f"checkpoint:{weights_hash(made)[:16]}", "r1", "correct"),
            ("checkpoint:other", "sft", "incorrect"),
            ("teacher", "teacher", "correct"),
        )
        for network in ("a", "b")
    ]
    folder = tmp_path / "run" / "eval" / "round-0003"
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = export(made, tmp_path / "w")
    text = (done.folder / "README.md").read_text("utf-8")
    assert "| r1 | 1.000 [1.000, 1.000]" in text and "| teacher |" in text and "| sft |" not in text
    assert "accuracy 0.625" in text and "Nothing was measured" not in text
    assert done.contract.id in text and str(tmp_path) not in text
    unmeasured = export(checkpoints.full(tmp_path / "other" / "grpo" / "round-0001", seed=5), tmp_path / "v").folder
    assert "Nothing was measured" in (unmeasured / "README.md").read_text("utf-8")


def test_what_stands_at_the_place_is_kept_unless_it_is_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, to = make("tied", tmp_path), tmp_path / "w"
    to.mkdir()
    (to / "mine.txt").write_text("keep", "utf-8")
    with pytest.raises(ExportError, match="exists and is no export"):
        export(made, to)
    (to / "mine.txt").unlink()
    first = export(made, to, "float32").contract.id  # an empty folder is taken
    monkeypatch.setattr("writer_rl.export.card", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(made, to)
    assert contract.read(to).id == first and not list(tmp_path.glob(".w*"))
    monkeypatch.undo()
    assert export(made, to).contract.id != first and not list(tmp_path.glob(".w*"))


@pytest.mark.parametrize(
    ("source", "more", "said"),
    [
        ("nowhere", [], "there is no such folder"),
        (".", [], "is neither a checkpoint nor a run with one"),
        ("run", ["--dtype", "int8"], "use one of float32, bfloat16, float16"),
        ("run", None, "--to FOLDER"),
        ("plain", [], "which recipe it was trained with"),
    ],
)
def test_a_users_error_is_one_paragraph(tmp_path: Path, source: str, more: list[str] | None, said: str) -> None:
    made = make("tied", tmp_path)
    checkpoint.save(tmp_path / "plain", checkpoint.load(made).policy)
    to = [] if more is None else ["--to", str(tmp_path / "w"), *more]
    done = CliRunner().invoke(app, ["export", str(tmp_path / source), *to])
    assert done.exit_code == 2 and said in done.output and done.output.strip().count("\n") == 0


def test_the_command_prints_how_to_serve_and_use_the_folder(tmp_path: Path) -> None:
    make("tied", tmp_path)
    done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--to", str(tmp_path / "w"), "--dtype", "float32"])
    assert done.exit_code == 0, done.output
    terms = contract.read(tmp_path / "w")
    served = f"--served-model-name {terms.id} --dtype float32 --max-model-len 1540 --host 127.0.0.1 --port 8000"
    assert f"vllm serve {tmp_path / 'w'} {served}" in done.output
    assert f"python -m vllm.entrypoints.openai.api_server --model {tmp_path / 'w'} {served}" in done.output
    assert """--structured-outputs-config '{"backend": "xgrammar", "disable_any_whitespace": true}'""" in done.output
    assert f"--writer server:http://127.0.0.1:8000#{tmp_path / 'w'}" in done.output


def test_check_compares_a_fresh_process_with_the_checkpoint(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_server, "installed", lambda: False)  # with vLLM: test_vllm_serving.py
    done = CliRunner().invoke(app, ["export", str(exported.folder), "--check"])
    assert done.exit_code == 0, done.output
    assert "24 of 24 greedy tokens equal; a real segment: 40 tokens (length), failed JSON" in done.output
    assert "vllm: not installed, not checked" in done.output


def test_check_finds_other_weights_also_where_their_hash_was_mended(
    copied: Path, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = load_file(copied / "model.safetensors")
    weights["model.norm.weight"][3] += 4.0
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ContractMismatch, match="weights are not the exported ones"):
        export_check.check(copied)
    terms = exported.contract
    terms.model_copy(update={"hashes": terms.hashes.model_copy(update={"weights": weights_hash(copied)})}).write(copied)
    found = by_transformers(copied)
    assert "differ by" in found.problems[0]
    monkeypatch.setattr(vllm_server, "installed", lambda: False)
    monkeypatch.setattr(export_check, "_fresh", lambda folder: found)
    with pytest.raises(CheckFailed, match="log-probabilities of a fixed text differ"):
        export_check.check(copied)


def test_greedy_outputs_may_part_only_at_a_near_tie(exported: Exported) -> None:
    known = exported.contract.probe
    assert parting(known, known.greedy_ids) == (24, 0.0)
    assert parting(known, known.greedy_ids[:-1])[1] == float("inf")
    second = (*known.greedy_ids[:5], known.top_ids[5][1], 0)
    assert parting(known, second) == (5, known.top_logprobs[5][0] - known.top_logprobs[5][1])
    strange = next(one for one in range(400) if one not in known.top_ids[5])
    assert parting(known, (*known.greedy_ids[:5], strange)) == (5, float("inf"))


def test_weights_that_are_missing_after_the_merge_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora, "merged_weights", lambda model: iter([("model.norm.weight", torch.ones(32))]))
    with pytest.raises(ExportError, match="has no place in the plain model"):
        plain_model(make_policy(), torch.float32)
