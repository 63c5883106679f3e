from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from rollout.engines import weights
from rollout.engines.weights import ADAPTER, ADAPTER_CONFIG, WEIGHTS, WeightFolder, weight_sum
from tests.tiny import make_model


def test_a_version_is_written_in_the_engines_dtype_and_only_the_last_is_kept(tmp_path) -> None:
    folder, model = WeightFolder(tmp_path, torch.bfloat16), make_model()
    first = folder.write(model.named_parameters(), 1)
    second = folder.write(model.named_parameters(), 2)
    assert first.is_dir()
    folder.keep_only(2)
    assert [path.name for path in tmp_path.iterdir()] == [second.name]
    held = load_file(second / WEIGHTS)
    assert held.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(held[name], own.detach().bfloat16()) for name, own in model.named_parameters())


def test_a_version_is_whole_or_absent(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = WeightFolder(tmp_path, torch.float32)
    with monkeypatch.context() as patched:
        patched.setattr(weights, "save_file", lambda *args, **kwargs: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            folder.write([("a", torch.ones(2))], 7)
    assert not list(tmp_path.glob("v*"))
    made = folder.write([("a", torch.ones(2))], 7)
    again = folder.write([("a", torch.zeros(2))], 7)  # a run that goes on sends its version once more
    assert again == made and load_file(again / WEIGHTS)["a"].tolist() == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == [made.name]


def test_an_adapter_goes_with_its_configuration(tmp_path) -> None:
    made = WeightFolder(tmp_path, torch.float32).write([("q.lora_A.weight", torch.ones(2, 3))], 1, {"r": 2})
    assert json.loads((made / ADAPTER_CONFIG).read_text("utf-8")) == {"r": 2}
    assert load_file(made / ADAPTER).keys() == {"q.lora_A.weight"}


def test_sums_agree_over_fused_weights_and_differ_after_the_smallest_step() -> None:
    parts = [torch.randn(60, 50), torch.randn(20, 50)]
    fused, apart = weight_sum(("q", "k"), [torch.cat(parts)]), weight_sum(("q", "k"), parts)
    assert fused.agrees(apart)
    parts[1][3, 4] += 1e-5
    assert not fused.agrees(weight_sum(("q", "k"), parts))
    assert weight_sum(("q",), [parts[0].bfloat16()]).agrees(weight_sum(("q",), parts[:1], torch.bfloat16))
    assert not weight_sum(("q",), [parts[0]]).agrees(weight_sum(("q",), [-parts[0]]))
