"""The embedded base: its tokenizer, its first heads, its training command, and the weights that come with the project."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, Qwen2ForCausalLM

from data import gym
from data.gym import GymConfig
from data.gym.vocabulary import coin
from rollout.writer.prompt import WriterPrompt
from writer_rl.base import train
from writer_rl.base.tokenizer import build
from writer_rl.runtime import EMBEDDED


@pytest.fixture(scope="module")
def embedded():
    return Qwen2ForCausalLM.from_pretrained(EMBEDDED).eval(), AutoTokenizer.from_pretrained(EMBEDDED)


def test_a_saved_tokenizer_is_read_back_the_same_by_whoever_rebuilds_a_qwen2_one(tmp_path: Path) -> None:
    made = build(train.texts(GymConfig(), 0, 60))
    made.save_pretrained(tmp_path)
    train.make_model(len(made), 1, 128, 0, 2).save_pretrained(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    for text in train.texts(GymConfig(), 1, 4):
        ids = made.encode(text)
        assert read.encode(text) == ids
        assert read.decode(ids) == text
    assert " group" in made.tokenize("the group decision")


def test_a_made_up_word_is_spelled_the_same_wherever_it_stands(embedded) -> None:
    _, tokenizer = embedded
    rng, taken = random.Random(0), set[str]()
    for _ in range(300):
        word = coin(rng, "dev", taken)
        alone = tokenizer.tokenize(word)
        assert len(alone) <= 3
        for text in (f"the band is {word} now", f'"{word}"', f"/{word}", f"\n{word}: hi"):
            pieces = tokenizer.tokenize(text)
            assert any(pieces[at : at + len(alone)] == alone for at in range(len(pieces))), (word, pieces)


def test_each_head_of_a_new_model_s_first_block_looks_back_one_token_further() -> None:
    model = train.make_model(50, 2, 256, 0, 2).eval()
    model.set_attn_implementation("eager")
    ids = torch.randint(3, 50, (1, 40), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        weights = model(input_ids=ids, output_attentions=True).attentions[0][0]  # [heads, 40, 40]
    for head in range(4):
        by_distance = torch.stack([weights[head, 10:, :].diagonal(10 - back).mean() for back in range(10)])
        assert by_distance.argmax() == head + 1


def test_the_weights_are_small_and_write_what_the_teacher_writes_of_names_never_seen(embedded) -> None:
    model, tokenizer = embedded
    assert sum(file.stat().st_size for file in EMBEDDED.iterdir()) < 20e6
    prompt = WriterPrompt("compact", tokenizer)
    held = [one for pair in gym.networks(GymConfig(), "dev", 7, 6) for one in train.positions(pair, prompt)]
    exact, loss = train.copied(model, held)
    assert loss < 0.2  # nats a token
    assert exact > 0.1  # whole completions


def test_the_training_command_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    small = {"steps": 2, "tokens": 512, "layers": 1, "width": 128, "threads": torch.get_num_threads()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "MOST_COPYING", 2)
        train.main(tmp_path / "first", **small)
    train.main(tmp_path / "second", **small, seed=1, init=tmp_path / "first")
    first, second = (json.loads((tmp_path / name / "curve.json").read_text("utf-8")) for name in ("first", "second"))
    assert (first[-1]["copying"], first[-1]["gym"]) == (2, 2)
    assert second[: len(first)] == first
    assert (second[-1]["copying"], second[-1]["gym"]) == (2, 4)
    assert second[-1]["minutes"] >= first[-1]["minutes"]
