"""The action schema and its grammar: what a bound decoder may write is what training targets look like."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from data.memory.actions import ADD_KEYS, NOOP_KEYS, UPDATE_KEYS, Add, Noop, Update, render
from data.memory.records import Layer, UType
from rollout.writer.parser import parse
from rollout.writer.trajectory import ParseStatus
from tests.tiny import make_tokenizer
from writer_rl.action_schema import CONTENT, action_grammar, action_schema

BUDGET = 9


@pytest.fixture(scope="module")
def accepts() -> Any:
    """Whether a text is a whole output under the grammar."""
    if importlib.util.find_spec("xgrammar") is None:
        pytest.skip("xgrammar is not installed: it comes with vLLM")
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(make_tokenizer(), vocab_size=400)
    grammar = xgrammar.GrammarCompiler(info).compile_grammar(action_grammar(BUDGET))

    def whole(text: str) -> bool:
        matcher = xgrammar.GrammarMatcher(grammar)
        return bool(matcher.accept_string(text) and matcher.is_completed())

    return whole


def add(content: str, owner: str = "王芳") -> Add:
    return Add(content, owner, "Jon", Layer.CORE, UType.FACT)


@pytest.mark.parametrize(
    "actions",
    [
        [Noop()],
        [add('Ana said "never",\nthen \\ left 北京 👍'), Update("d3", "x")],
        [Update("d12", "y")] * BUDGET,
        [add("x" * CONTENT)],
    ],
)
def test_the_grammar_takes_training_targets_to_the_byte(accepts: Any, actions: list[Any]) -> None:
    assert accepts(render(actions))
    assert parse(render(actions)).status is ParseStatus.STRICT


@pytest.mark.parametrize(
    "text",
    [
        render([Noop(), Noop()]),
        render([add("x"), Noop()]),
        render([Update("d1", "y")] * (BUDGET + 1)),
        render([add("x" * (CONTENT + 1))]),
        render([add("")]),
        render([]),
        json.dumps(json.loads(render([add("x")])), indent=1, ensure_ascii=False),
        render([add("x")]) + " ",
        '{"actions": [{"action": "ADD", "owner": "Ana"}]}',
        render([add("x")]).replace("per_speaker_core", "per_speaker_episodic"),
        render([add("x")])[:-2],
        render([add("tab")]).replace("tab", "\t"),
    ],
)
def test_the_grammar_takes_nothing_else(accepts: Any, text: str) -> None:
    assert not accepts(text)


def test_the_schema_names_exactly_the_actions_keys_in_the_order_of_training() -> None:
    actions, alone = action_schema()["properties"]["actions"]["anyOf"]
    kinds = [*actions["items"]["anyOf"], alone["items"]]
    assert [tuple(kind["properties"]) for kind in kinds] == [ADD_KEYS, UPDATE_KEYS, NOOP_KEYS]
    assert all(kind["required"] == list(kind["properties"]) and not kind["additionalProperties"] for kind in kinds)
    assert alone["maxItems"] == 1 and "maxItems" not in actions
