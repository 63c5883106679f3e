"""Reading a JSON object in pieces gives what reading it whole gives."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.importers import jsonstream
from data.importers.jsonstream import BrokenJson, JsonStream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


def members(text: str) -> list[tuple[str, Any]]:
    return list(JsonStream(io.BytesIO(text.encode())).members("messages"))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), st.lists(VALUES, max_size=5), st.booleans(), st.integers(1, 9))
def test_pieces_of_any_size_give_the_whole(head: dict[str, Any], array: list[Any], indent: bool, chunk: int) -> None:
    head.pop("messages", None)
    text = json.dumps({**head, "messages": array, "messageCount": 1}, ensure_ascii=False, indent=2 if indent else None)
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonstream, "CHUNK", chunk)
        found = members(text)
    expected = [*head.items(), *(("messages", one) for one in array)]
    last = [("messageCount", 1)]
    assert found == [pair for pair in expected if pair[0] != "messageCount"] + last or found == expected + last


@pytest.mark.parametrize("text", ["", "[]", "{,}", '{"a" 1}', '{"a": }', '{"messages": [1, 2', '{"messages": [1 2]}', "{1: 2}"])
def test_what_is_no_object_is_broken_json(text: str) -> None:
    with pytest.raises(BrokenJson):
        members(text)


def test_depth_and_endless_numbers_are_broken_json() -> None:
    with pytest.raises(BrokenJson):
        members('{"messages": [' + "[" * 100_000)
    with pytest.raises(BrokenJson):
        members('{"messages": [' + "9" * 5000 + "]}")


def test_elements_come_before_the_file_is_read_to_its_end() -> None:
    handle = io.BytesIO(b'{"messages": [' + b'"x",' * 2_000_000)
    stream = JsonStream(handle).members("messages")
    assert next(stream) == ("messages", "x") and handle.tell() < 3 * jsonstream.CHUNK
