"""Evaluation through its real code on small gym networks: resuming, outages, arms, baselines, an LLM Writer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from data.memory.state import State
from data.network import DataError
from rollout.engines.base import Request, RequestKey, SamplingParams
from rollout.llm.cache import Reply as ModelReply
from rollout.llm.client import Client, ClientConfig
from rollout.llm.provider import Answered, ChatCall, Transient
from rollout.memory.embedder import HashEmbedder
from rollout.query.view import MemoryView
from rollout.writer.view import build_view
from tests.writer_rl.evaluations import AskingMore, FlakyAnswer, plain_prompt, share_of, small_cases, small_recipe, with_roles
from writer_rl.cases import Case
from writer_rl.evaluation.accuracy import UnjudgedQuestions, final_rows
from writer_rl.evaluation.arms import Arm, ablation_arms, ask_arms, grid_arms
from writer_rl.evaluation.asking import NoEvidence, check_evidence, state_hash
from writer_rl.evaluation.baseline_rows import evaluate_baseline
from writer_rl.evaluation.baselines import Baseline, Kind, open_baseline
from writer_rl.evaluation.evaluate import evaluate
from writer_rl.evaluation.heldout import check_heldout
from writer_rl.evaluation.journal import Journal
from writer_rl.evaluation.llm_writer import ChatPrompt, LLMWriterEngine, bare
from writer_rl.evaluation.page import page
from writer_rl.evaluation.rows import Row, RowFile, key, latest_rows, read_rows
from writer_rl.evaluation.writers import Writer, empty_writer, teacher_writer
from writer_rl.runtime import Runtime

KIND = 0  # place in a row's key


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return Runtime.of(small_recipe(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def cases(runtime: Runtime) -> list[Case]:
    return small_cases(runtime.recipe)


def oracle(cases: list[Case]) -> Writer:
    return teacher_writer(cases, plain_prompt(), "oracle")


def plain(rows: list[Row]) -> dict[object, Row]:
    """Rows by key, without what an arm happened to find in a cache."""
    return {key(row): {**row, "calls": [{**one, "cached": False} for one in row.get("calls", [])]} for row in rows}


def test_outages_change_nothing_judged_and_are_asked_again(runtime: Runtime, cases: list[Case], tmp_path: Path) -> None:
    stable = evaluate(runtime, oracle(cases), cases, 1)
    texts = sorted({row["text"] for row in stable if row["row"] == "question"})
    down = {text for text in texts if share_of(text, 0.05)} or {texts[0]}
    broken = with_roles(runtime, answer=FlakyAnswer(down.__contains__))
    assert broken.pipeline.id == runtime.pipeline.id
    file = RowFile(tmp_path / "rows.jsonl")
    rows = evaluate(broken, oracle(cases), cases, 1, rows=file)
    missing = [row for row in rows if row["row"] == "question" and row["verdict"] == "missing"]
    assert {row["text"] for row in missing} == down
    assert all(row["reason"] == "answer outage: HTTP 503" for row in missing)
    kept, wanted = plain(rows), plain(stable)
    assert all(kept[one] == wanted[one] for one in kept if one[KIND] == "question" and kept[one]["verdict"] != "missing")
    with pytest.raises(UnjudgedQuestions, match=f"{len(missing)} questions have no verdict"):
        page(rows)
    assert "without a verdict are left out" in page(rows, allow_unjudged=True)
    answers = FlakyAnswer(lambda text: False)
    mended = evaluate(with_roles(runtime, answer=answers), oracle(cases), cases, 1, rows=RowFile(tmp_path / "rows.jsonl"))
    assert set(answers.asked) == down
    assert plain(mended) == wanted
    assert page(mended) == page(stable)
    assert plain(latest_rows(tmp_path / "rows.jsonl")) == wanted  # readers do not see what was asked again
    assert len(read_rows(tmp_path / "rows.jsonl")) > len(wanted)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.77])
def test_a_killed_evaluation_goes_on_to_the_same_tables(
    runtime: Runtime, cases: list[Case], tmp_path: Path, keep: float
) -> None:
    arms = [Arm(runtime.pipeline), *ablation_arms(runtime.pipeline, ["no-s2"])]
    path = tmp_path / "rows.jsonl"
    whole = evaluate(runtime, oracle(cases), cases, 1, arms, RowFile(path), Journal(tmp_path / "writes.jsonl"))
    text = path.read_bytes()
    path.write_bytes(text[: int(len(text) * keep)])  # in the middle of a line, too
    again = evaluate(runtime, oracle(cases), cases, 1, arms, RowFile(path), Journal(tmp_path / "writes.jsonl"))
    assert page(again) == page(whole)
    assert page(RowFile(path).rows) == page(again)  # from the file alone
    before = path.read_bytes()
    evaluate(runtime, oracle(cases), cases, 1, arms, RowFile(path), Journal(tmp_path / "writes.jsonl"))
    assert path.read_bytes() == before  # done: nothing is added


def test_asking_both_and_then_on_in_one_file_measures_what_its_gain_needs(runtime: Runtime, cases: list[Case]) -> None:
    """+ASK is a later arm under `both`, and under `on` the first one, whose rows carry the verdict without records."""
    asking, file = with_roles(runtime, ask=AskingMore()), RowFile(None)
    evaluate(asking, oracle(cases), cases[:1], 1, ask_arms(asking, "both"), file)
    rows = evaluate(asking, oracle(cases), cases[:1], 1, ask_arms(asking, "on"), file)
    assert all("baseline" in row for row in rows if row["row"] == "question")


def test_what_arms_share_is_paid_for_once_and_by_a_row(runtime: Runtime, cases: list[Case]) -> None:
    arms = [Arm(runtime.pipeline), *ablation_arms(runtime.pipeline, ["no-s1"])]
    asked = [row for row in evaluate(runtime, oracle(cases), cases[:1], 1, arms) if row["row"] == "question"]
    for role in ("project", "select"):
        whole, ablated = (
            [one["cached"] for row in asked if row["writer"] == label for one in row["calls"] if one["role"] == role]
            for label in ("oracle", "oracle w/o S1")
        )
        assert len(whole) == len(ablated) > 0 and not any(whole) and all(ablated)


def test_rows_of_another_memory_are_not_kept(runtime: Runtime, cases: list[Case], tmp_path: Path) -> None:
    file = RowFile(tmp_path / "rows.jsonl")
    evaluate(runtime, replace(empty_writer(plain_prompt(), "oracle"), id="teacher"), cases, 1, rows=file)
    rows = evaluate(runtime, oracle(cases), cases, 1, rows=file)
    assert plain(rows) == plain(evaluate(runtime, oracle(cases), cases, 1))


def test_rows_of_another_writer_or_pipeline_under_one_name_are_refused(runtime: Runtime, cases: list[Case]) -> None:
    file = RowFile(None)
    evaluate(runtime, oracle(cases), cases[:1], 1, rows=file)
    with pytest.raises(DataError, match="another Writer or through another pipeline"):
        evaluate(runtime, empty_writer(plain_prompt(), "oracle"), cases[:1], 1, rows=file)
    other = with_roles(runtime, ask=AskingMore())
    with pytest.raises(DataError, match="another Writer or through another pipeline"):
        evaluate(other, oracle(cases), cases[:1], 1, rows=file)


def test_a_row_says_everything_that_a_table_needs(runtime: Runtime, cases: list[Case]) -> None:
    rows = evaluate(runtime, oracle(cases), cases, 1)
    row = next(row for row in rows if row["row"] == "question" and row["rows"])
    wanted = "writer_id network_hash state_hash pipeline_id budgets projection evidence evidence_hash raw_answer answer verdict"
    assert set(wanted.split()) <= row.keys()
    assert {call["role"] for call in row["calls"]} == {"project", "select", "answer", "judge"}
    assert {"prompt_tokens", "completion_tokens", "seconds", "cached"} <= row["calls"][0].keys()
    assert json.loads(json.dumps(rows)) == rows
    memory = next(row for row in rows if row["row"] == "memory")
    assert set(memory["coverage"].values()) == {1.0} and memory["writer_calls"] == 0


def test_without_a_track_nothing_of_it_is_in_the_evidence(runtime: Runtime, cases: list[Case]) -> None:
    names = ["no-s1", "no-s2", "no-group", "no-person"]
    rows = evaluate(runtime, oracle(cases), cases, 1, [Arm(runtime.pipeline), *ablation_arms(runtime.pipeline, names)])
    by_arm = {row["writer"]: [] for row in rows}
    for row in rows:
        if row["row"] == "question":
            by_arm[row["writer"]].append(row)
    assert {len(ones) for ones in by_arm.values()} == {sum(len(case.network.questions) for case in cases)}
    for row in by_arm["oracle w/o S1"]:
        assert row["system1"] == [] and all(one["fallback"] is None for one in row["rows"])
        assert "v1 " not in row["evidence"].split("MEMORY")[0]
    assert all(row["rows"] == [] and row["system1"] for row in by_arm["oracle w/o S2"])
    owners = {case.network.id: {record.entry_id: record.owner for record in case.references[-1]} for case in cases}
    shown = {label: set() for label in by_arm}
    for label, ones in by_arm.items():
        for row in ones:
            chains = [chain for part in row["rows"] for chain in part["chains"]]
            shown[label] |= {owners[row["network"]][one] for chain in chains for one in chain}
    assert "GROUP" not in shown["oracle w/o S2-group"] and shown["oracle w/o S2-group"]
    assert shown["oracle w/o S2-person"] <= {"GROUP"}
    assert [row["writer"] for row in rows if row["row"] == "memory"] == ["oracle"] * len(cases)


def test_ask_is_reported_off_and_on_unless_offline(runtime: Runtime, cases: list[Case]) -> None:
    assert [arm.suffix for arm in ask_arms(runtime, "both")] == [""]
    asking = with_roles(runtime, ask=AskingMore())
    arms = ask_arms(asking, "both")
    assert [(arm.suffix, arm.pipeline.config.ask) for arm in arms] == [("", False), ("+ASK", True)]
    rows = evaluate(asking, oracle(cases), cases[:1], 1, arms)
    asked = {row["writer"]: [call["role"] for call in row["calls"]] for row in rows if row["row"] == "question"}
    assert "ask" not in asked["oracle"] and "ask" in asked["oracle +ASK"]


def test_the_grid_recalls_what_it_cuts(runtime: Runtime, cases: list[Case]) -> None:
    arms = grid_arms(runtime.pipeline)
    assert [arm.pipeline.config.budgets.top_k for arm in arms] == [5, 5, 5, 10, 10, 10, 20, 20, 20]
    rows = evaluate(runtime, oracle(cases), cases[:1], 1, [Arm(runtime.pipeline), *arms])
    for row in rows:
        if row["row"] == "question" and "top-k" in row["writer"]:
            assert row["budgets"][0] == row["budgets"][1] >= len(row["system1"])


def test_baselines_go_through_the_same_answer_and_judge(runtime: Runtime, cases: list[Case]) -> None:
    rows = {kind: evaluate_baseline(runtime, Baseline(kind.value, kind), cases, len) for kind in Kind}
    for case in cases:
        view = MemoryView.of(case.network).prepared(runtime.embedder)
        for question in case.network.questions:
            recalled = asyncio.run(runtime.pipeline.share(view, question)).verbatim.recalled
            (row,) = (one for one in rows[Kind.DENSE] if (one["network"], one["question"]) == (case.network.id, question.id))
            assert row["system1"] == list(recalled[:10])
    messages = {case.network.id: sum(1 for _ in case.network.messages()) for case in cases}
    assert all(len(row["system1"]) == messages[row["network"]] and row["evidence"] is None for row in rows[Kind.FULL])
    assert all(row["answer"] == "not mentioned" and not row["without_evidence"] for row in rows[Kind.ABSTAIN])
    assert all(row["rows"] == [] and len(row["system1"]) <= 10 for row in rows[Kind.BM25])
    assert {row["pipeline_id"] for ones in rows.values() for row in ones} == {runtime.pipeline.id}


def test_a_full_context_beyond_its_window_is_refused_and_never_cut(runtime: Runtime, cases: list[Case]) -> None:
    small = open_baseline("full:40", "full")
    assert small is not None and small.window == 40
    with pytest.raises(DataError, match=r"full context of network gym_test_.*: [\d,]+ tokens, and the window is 40"):
        evaluate_baseline(runtime, small, cases, lambda text: len(text.split()))
    with pytest.raises(DataError, match="number of tokens"):
        open_baseline("full:many", "full")
    assert open_baseline("bm25:3", "x") is None and open_baseline("teacher", "x") is None


def test_more_than_one_in_twenty_without_evidence_stops() -> None:
    check_evidence("oracle", 5, 100)
    with pytest.raises(NoEvidence, match="6 of 100 questions found no evidence"):
        check_evidence("oracle", 6, 100)


def test_a_system_that_finds_nothing_stops_the_evaluation(runtime: Runtime, cases: list[Case]) -> None:
    silent = replace(ablation_arms(runtime.pipeline, ["no-s1"])[0].variant, may_lack_evidence=False)
    with pytest.raises(NoEvidence, match="questions found no evidence"):
        evaluate(runtime, empty_writer(plain_prompt()), cases, 1, [Arm(runtime.pipeline, "silent", silent)])


def test_training_networks_need_their_names(cases: list[Case]) -> None:
    ids = [case.network.id for case in cases]
    check_heldout("r1", frozenset(), cases, ())
    check_heldout("r1", frozenset(ids), cases, ids)
    with pytest.raises(DataError, match=f"was trained on 1 of these networks \\({ids[0]}"):
        check_heldout("r1", frozenset(ids), cases, ids[1:])


def test_an_unjudged_question_is_left_out_of_the_gain_for_the_whole_group(runtime: Runtime, cases: list[Case]) -> None:
    broken = with_roles(runtime, answer=FlakyAnswer(lambda text: True))
    rows = evaluate(broken, oracle(cases), cases[:1], 1)
    (memory,) = (row for row in rows if row["row"] == "memory")
    assert "qa_gain" not in memory
    assert final_rows(rows, True)[1] == [row for row in rows if row["row"] == "question"]


def scripted(text: str, finish: str = "stop") -> Client:
    async def send(call: ChatCall, deadline: float) -> Answered:
        if text == "down":
            raise Transient("HTTP 503")
        return Answered(ModelReply(text, 9, 4), finish)

    return Client(ClientConfig(retries=0, backoff=0.0), send)


def write(client: Client, case: Case) -> tuple[str, str, tuple[int, int] | None]:
    """What an LLM Writer says at the first position, how it ended, and the tokens that its interface counted."""
    prompt = ChatPrompt.like(plain_prompt())
    view = build_view(case.segments[0], State(), HashEmbedder(), prompt)
    ids = prompt.prompt_ids(view)
    assert ids == plain_prompt().prompt_ids(view)
    assert prompt.messages(ids)[-1][0] == "user"
    request = Request(ids, 7, SamplingParams(), RequestKey(-1, case.network.id, 0, 0, 0))
    completion = asyncio.run(LLMWriterEngine(client, "test/model", prompt).generate(request))
    return prompt.decode(completion.token_ids), completion.finish_reason, completion.usage


def test_an_llm_writer_is_read_through_fences_and_stops_at_an_outage(cases: list[Case]) -> None:
    said = '{"actions": [{"action": "NOOP"}]}'
    assert write(scripted(f"Here it is:\n```json\n{said}\n```"), cases[0]) == (said, "stop", (9, 4))
    assert write(scripted("I would rather not"), cases[0]) == ("I would rather not", "stop", (9, 4))
    assert write(scripted(said[:20], "length"), cases[0]) == ("", "length", (9, 4))
    with pytest.raises(DataError, match="no reply"):
        write(scripted("down"), cases[0])
    assert bare('<think>{"a": 1}</think>{"b": "é"}') == '{"b": "é"}'


def test_an_llm_writer_s_tokens_are_those_of_its_interface_also_when_its_writes_are_read_again(
    runtime: Runtime, cases: list[Case], tmp_path: Path
) -> None:
    prompt = ChatPrompt.like(plain_prompt())
    engine = LLMWriterEngine(scripted('{"actions": [{"action": "NOOP"}]}'), "test/model", prompt)
    for _ in range(2):
        journal = Journal(tmp_path / "writes.jsonl")
        rows = evaluate(runtime, Writer("llm", engine, prompt), cases[:1], 1, journal=journal)
        (memory,) = (row for row in rows if row["row"] == "memory")
        positions = len(cases[0].segments)
        assert (memory["prompt_tokens"], memory["tokens"]) == (9 * positions, 4 * positions)
        engine = LLMWriterEngine(scripted("down"), "test/model", prompt)  # nothing is asked again


def test_a_torn_line_is_passed_over_and_a_broken_one_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"row": "memory", "writer": "a", "network": "n", "seed": 0}
    path.write_text(json.dumps(row) + '\n{"row": "mem')
    file = RowFile(path)
    file.append([row | {"network": "m"}])
    assert [one["network"] for one in read_rows(path)] == ["n", "m"]
    path.write_text("nonsense\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError, match="line 1: not JSON"):
        RowFile(path)
    path.write_text('{"step": 1}\n')
    with pytest.raises(DataError, match="no evaluation row"):
        RowFile(path)


def test_states_have_one_hash_each(cases: list[Case]) -> None:
    hashes = [state_hash(state) for case in cases for state in case.references]
    states = [list(state) for case in cases for state in case.references]
    assert all((a == b) == (x == y) for a, x in zip(hashes, states, strict=True) for b, y in zip(hashes, states, strict=True))
