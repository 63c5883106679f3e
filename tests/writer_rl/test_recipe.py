"""Recipes: files, overrides, and errors that name file, key and the nearest match."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from writer_rl.recipe import Recipe, RecipeError, check, keys, load

BUNDLED = sorted(item.name for item in files("recipes").iterdir() if item.name.endswith(".yaml"))
PAPER = {
    "group_size": 8,
    "rounds": 30,
    "temperature": 0.8,
    "top_p": 0.95,
    "max_new_tokens": 2048,
    "lr": 1e-6,
    "epochs": 2,
    "clip": 0.2,
    "beta": 0.1,
    "kl_gate": 0.02,
    "max_grad_norm": 1.0,
}


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_recipe_loads_and_names_its_launch_command(name: str) -> None:
    assert isinstance(load(name), Recipe)
    text = (files("recipes") / name).read_text("utf-8")
    assert "accelerate launch train_" in text.split("\nrun:")[0]


def test_r1_has_the_papers_values() -> None:
    section = load("r1").grpo
    assert {key: getattr(section, key) for key in PAPER} == PAPER
    reward = section.reward
    assert (reward.w_valid, reward.w_mem, reward.w_qa, reward.gamma) == (0.20, 0.45, 0.35, 0.95)
    assert load("sft").sft.epochs == 10


def test_an_override_changes_one_key_and_keeps_its_type() -> None:
    recipe = load("tiny", ["grpo.rounds=3", "sft.lr=1e-4", "data.gym.seed=7"])
    assert (recipe.grpo.rounds, recipe.sft.lr, recipe.data.gym and recipe.data.gym.seed) == (3, 1e-4, 7)
    assert recipe.grpo.group_size == load("tiny").grpo.group_size


def test_an_unknown_key_is_an_error_with_the_nearest_match() -> None:
    with pytest.raises(RecipeError, match=r"tiny\.yaml: unknown key `grpo\.round` \(did you mean `grpo\.rounds`\?\)"):
        load("tiny", ["grpo.round=3"])


def test_a_wrong_type_names_the_key_and_the_value() -> None:
    with pytest.raises(RecipeError, match=r"`grpo\.rounds`: .*valid integer, got 'many'"):
        load("tiny", ["grpo.rounds=many"])


def test_an_override_without_a_value_says_how_to_write_one() -> None:
    with pytest.raises(RecipeError, match=r"override '--rounds': write key=value"):
        load("tiny", ["--rounds"])


def test_broken_yaml_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("run: [a\nseed: 1\n")
    with pytest.raises(RecipeError, match=r"broken\.yaml: not valid YAML: .*line 2"):
        load(str(path))


def test_a_list_is_not_a_recipe(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("- run\n")
    with pytest.raises(RecipeError, match="a recipe is a mapping"):
        load(str(path))


def test_a_missing_file_lists_the_bundled_recipes() -> None:
    with pytest.raises(RecipeError, match=r"no recipe 'nowhere\.yaml'.*tiny\.yaml"):
        load("nowhere.yaml")


def test_a_wrong_folder_does_not_fall_back_to_a_bundled_recipe() -> None:
    with pytest.raises(RecipeError, match="no recipe"):
        load("/no/such/folder/tiny.yaml")


def test_sources_without_a_split_are_an_error() -> None:
    with pytest.raises(RecipeError, match="`sources` needs `split`"):
        check({"run": "x", "model": {"path": "y"}, "data": {"sources": ["own"]}}, "here")


def test_a_run_name_cannot_leave_the_checkpoint_folder() -> None:
    with pytest.raises(RecipeError, match="`run`"):
        load("tiny", ["run=../elsewhere"])


def test_the_resolved_yaml_gives_the_same_recipe_back(tmp_path: Path) -> None:
    recipe = load("tiny", ["grpo.rounds=3"])
    path = tmp_path / "resolved.yaml"
    path.write_text(recipe.to_yaml())
    assert load(str(path)) == recipe != load("tiny")


def test_every_key_is_listed_once() -> None:
    listed = list(keys())
    assert len(listed) == len(set(listed))
    assert {"run", "grpo.reward.w_mem", "data.gym.train"} <= set(listed)
