from __future__ import annotations

import json

import pytest

from data.memory.actions import JsonObject
from data.memory.executor import execute
from data.memory.state import State
from data.segments import segments
from rollout.writer.parser import MAX_DEPTH, parse
from rollout.writer.trajectory import ParseStatus
from tests.rollout.writer.hostile import Writers
from tests.rollout.writer.stubs import first_message
from tests.tiny import make_network

GOOD = '{"actions": [{"action": "NOOP"}]}'


def test_strict_json_is_read_with_white_space_around_it():
    parsed = parse(f"\n  {GOOD}\n")
    assert (parsed.status, parsed.attempts, parsed.error) == (ParseStatus.STRICT, ({"action": "NOOP"},), "")


def test_an_empty_list_is_strict():
    assert parse('{"actions": []}').status is ParseStatus.STRICT


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (f"```json\n{GOOD}\n```", ParseStatus.FENCED),
        (f"```\n{GOOD}", ParseStatus.FENCED),
        (f"Here it is: {GOOD} Good luck!", ParseStatus.SCANNED),
        (f"{GOOD} trailing", ParseStatus.SCANNED),
        (f'<think>maybe {{"actions": [1, 2]}}</think>{GOOD}', ParseStatus.SCANNED),
        (f'reasoned {{"actions": [1]}} before</think>\n{GOOD}', ParseStatus.SCANNED),
        (f'{{"actions": [3]}} no, rather: {GOOD}', ParseStatus.SCANNED),
        (f'{{ broken "x {GOOD}', ParseStatus.SCANNED),
        (GOOD.replace("}]}", '}], "note": 1}'), ParseStatus.SCANNED),
    ],
)
def test_outside_strict_json_the_actions_are_found_but_count_only_when_salvaging(text, status):
    assert (parse(text).status, parse(text).attempts) == (status, ())
    assert parse(text).error
    assert (parse(text, salvage=True).status, parse(text, salvage=True).attempts) == (status, ({"action": "NOOP"},))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no memory needed",
        "[]",
        "null",
        '[{"action": "NOOP"}]',
        '{"action": "NOOP"}',
        '{"actions": {"action": "NOOP"}}',
        '{"actions": [{"action": "ADD", "content": "cut o',
        f"<think>the draft is {GOOD}",
        "{'actions': []}",
        '{"actions": [NaN]}',
        '{"actions": [-Infinity]}',
        '{"actions": [1e999]}',
        '{"actions": [], "actions": []}',
        '{"actions": ["\\ud83d"]}',
        '{"actions": [' + "9" * 5000 + "]}",
        '{"actions": ' + "[" * 200000 + "]" * 200000 + "}",
        '{"actions": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}",
        '{"actions":' * 20000,
        "__import__('os').abort()",
    ],
)
def test_what_holds_no_readable_actions_fails_with_a_reason(text):
    for salvage in (False, True):
        parsed = parse(text, salvage=salvage)
        assert (parsed.status, parsed.attempts) == (ParseStatus.FAILED, ())
        assert parsed.error


def test_code_with_braces_quotes_and_fences_in_content_stays_whole():
    content = 'run `x = {"a": "}"}` then ```py\nprint("{")\n``` </think> done'
    text = json.dumps({"actions": [{"action": "UPDATE", "entry_id": "d1", "content": content}]})
    assert parse(text).attempts[0]["content"] == content
    fenced = parse(f"```json\n{json.dumps({'actions': [{'content': '}]} ``` {'}]})}\n```", salvage=True)
    assert (fenced.status, fenced.attempts) == (ParseStatus.FENCED, ({"content": "}]} ``` {"},))


def test_a_repeated_key_inside_an_action_is_remembered():
    attempt = parse('{"actions": [{"action": "NOOP", "action": "ADD"}]}').attempts[0]
    assert isinstance(attempt, JsonObject)
    assert attempt.repeated == ("action",)


def test_ten_thousand_generated_outputs_neither_crash_nor_break_the_memory():
    parts = segments(make_network())
    writers = Writers(7)
    statuses: dict[ParseStatus, int] = dict.fromkeys(ParseStatus, 0)
    applied = 0
    state = State()
    for number in range(10_000):
        if number % 40 == 0:
            state = State()
        segment = parts[number % 2]
        before = list(state)
        text = writers.output(segment.roster.names, [head.entry_id for head in state.heads()][-6:])
        parsed = parse(text, salvage=number % 3 == 0)
        statuses[parsed.status] += 1
        assert parsed.attempts == () or parsed.status is ParseStatus.STRICT or number % 3 == 0
        assert len(execute(state, parsed.attempts, segment, first_message).outcomes) == len(parsed.attempts)
        json.dumps(parsed.attempts).encode()

        after = list(state)
        assert [(one.entry_id, one.content, one.links, one.from_ids) for one in after[: len(before)]] == [
            (one.entry_id, one.content, one.links, one.from_ids) for one in before
        ]
        inside = {one.entry_id for one in segment.verbatim}
        assert all(one.from_ids and set(one.from_ids) <= inside for one in after[len(before) :])
        superseded = [older for one in after for older in one.links]
        assert len(superseded) == len(set(superseded))
        assert {one.entry_id for one in after if not one.head} == set(superseded)
        for one in after:
            one.content.encode()
        applied += len(after) - len(before)
    assert min(statuses.values()) > 300  # every outcome is exercised
    assert applied > 3000
