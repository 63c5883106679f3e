"""Tables from rows alone, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.socialmem import BENCHMARK
from tests.writer_rl.evaluations import question_row
from writer_rl.evaluation.accuracy import accuracy, category_share, category_table, compare, controlled_table
from writer_rl.evaluation.arms import GRID_K, GRID_TOP_K, grid_suffix
from writer_rl.evaluation.asking import NoEvidence
from writer_rl.evaluation.grid import draw_curves, draw_heatmap, grid_cells, grid_table
from writer_rl.evaluation.memories import evidence_recall, intrinsic, owner_table
from writer_rl.evaluation.official import official_scores
from writer_rl.evaluation.page import page, results
from writer_rl.evaluation.quoted import beside
from writer_rl.evaluation.reward_ablations import OVERRIDES, ablation_table, overrides
from writer_rl.evaluation.statistics import mcnemar
from writer_rl.evaluation.usage import usage, usage_table
from writer_rl.recipe import load

RIGHT, WRONG = "correct", "incorrect"


def three_seeds() -> list[dict[str, Any]]:
    """`r1`: 2, 1 and 3 of 4 right; `llm`: all of them, once; two networks."""
    verdicts = ([RIGHT, RIGHT, WRONG, WRONG], [RIGHT, WRONG, WRONG, WRONG], [RIGHT, RIGHT, RIGHT, WRONG])
    rows = [
        question_row("r1", "ab"[index // 2], f"q{index}", verdict, seed)
        for seed, ones in enumerate(verdicts)
        for index, verdict in enumerate(ones)
    ]
    return rows + [question_row("llm", "ab"[index // 2], f"q{index}", RIGHT) for index in range(4)]


def test_table_3_by_hand() -> None:
    rows = three_seeds()
    one = accuracy(rows, "r1")
    assert (one.correct, one.total, one.mean) == ((2, 1, 3), (4, 4, 4), 0.5)
    assert one.std == pytest.approx(0.25)  # sample deviation of .5, .25, .75
    assert accuracy(rows, "llm").std is None
    table = controlled_table(rows, ["r1", "llm"], "llm")
    assert "| r1 | 2/4 | 50.00 ± 25.00 | 3 | 100.00 | -50.00 pp |" in table
    assert "| llm | 4/4 | 100.00 | 1 | 100.00 | – |" in table


def test_a_pair_is_compared_over_the_questions_that_both_have() -> None:
    rows = three_seeds()
    found = compare(rows, "r1", "llm")
    assert found is not None and found.questions == 4
    assert found.difference.mean == pytest.approx(0.5)
    assert found.p == mcnemar([True, True, False, False], [True] * 4)  # q1 is right in two seeds of three
    fewer = compare([row for row in rows if (row["writer"], row["question"]) != ("llm", "q3")], "r1", "llm")
    assert fewer is not None and fewer.questions == 3
    assert fewer.difference.mean == pytest.approx(1 - (3 / 3 + 2 / 3 + 1 / 3) / 3)
    assert compare(rows, "r1", "nobody") is None


def test_categories_carry_n_and_a_wilson_interval() -> None:
    rows = [question_row("a", "n", f"q{i}", RIGHT if i < 8 else WRONG, type="Q1") for i in range(10)]
    assert "| gym | Q1 | 10 | 80.0 [49.0, 94.3] |" in category_table(rows, ["a"])


def test_seeds_of_a_question_are_no_independent_answers() -> None:
    rows = [question_row("a", "n", f"q{i}", RIGHT if i < 8 else WRONG, seed, type="Q1") for i in range(10) for seed in range(3)]
    assert "| gym | Q1 | 10 | 80.0 [49.0, 94.3] |" in category_table(rows, ["a"])
    rows[0]["verdict"] = WRONG  # one seed of three: 7.67 of 10
    share, count = category_share(rows, "a")
    assert (share.mean, count) == (pytest.approx(23 / 30), 10)


def test_a_reference_without_a_verdict_has_no_gaps() -> None:
    rows = [question_row("a", "n", "q1", RIGHT), question_row("b", "n", "q1", "missing")]
    assert "b, n, q1" in page(rows, "b", allow_unjudged=True)
    assert "| a | 1/1 | 100.00 | 1 | 100.00 |  |" in controlled_table(rows[:1], ["a"], "b")


def test_the_papers_tables_stand_beside_ours_only_under_their_protocol() -> None:
    asked = [
        question_row("r1", f"n{n % 10}", f"q{n}", RIGHT, benchmark=BENCHMARK, offline=False, ask=False, score=1.0)
        for n in range(305)
    ]
    table = beside(asked)[0]
    assert (len(beside(asked)), table.number, table.lines[1][3]) == (1, 3, "68.2")
    assert "answer DeepSeek-V4-Flash" in table.remark and "ask off" in table.remark
    assert "| --- |" in page(asked) and "Quoted from Table 3" in page(asked)
    for change in ({"offline": True}, {"benchmark": "gym"}, {"ask": True}, {"budgets": [5, 5, 6, 1]}):
        assert beside([row | change for row in asked]) == []
    assert beside(asked[:-1]) == []
    locomo = [
        question_row("r1", "n", f"q{n}", RIGHT, benchmark="locomo", offline=False, type=str(n % 4 + 1)) for n in range(1540)
    ]
    adversarial = [row | {"type": "5", "question": f"a{n}"} for n, row in enumerate(locomo[:446])]
    assert [one.number for one in beside(locomo)] == [4]
    assert [one.number for one in beside([*locomo, *adversarial])] == [4, 23]


def test_unjudged_questions_are_no_wrong_ones() -> None:
    rows = [*three_seeds(), question_row("llm", "b", "q9", "missing", reason="answer outage")]
    with pytest.raises(ValueError, match=r"1 questions have no verdict \(first: llm, network b, question q9: missing"):
        page(rows)
    assert "- llm, b, q9, seed 0: missing (answer outage)" in page(rows, allow_unjudged=True)
    assert results(rows, "llm", True)["systems"]["llm"]["accuracy"] == 1.0
    assert results(rows, "llm", True)["unjudged"] == 1


def test_a_table_of_questions_without_evidence_is_refused() -> None:
    rows = [question_row("a", "n", f"q{i}", WRONG, without_evidence=i < 2) for i in range(20)]
    with pytest.raises(NoEvidence, match="a: 2 of 20"):
        page(rows)
    assert "| a | 0 |" in page([row | {"variant": "w/o S1"} for row in rows])
    assert page([*rows[1:], question_row("a", "n", "q20", WRONG)])  # one of twenty


def test_meanq_and_meann_average_seeds_first() -> None:
    def scored(network: str, question: str, seed: int, score: float | None) -> dict[str, Any]:
        return question_row("a", network, question, RIGHT, seed, benchmark="socialmem", score=score)

    rows = [scored("n", "q1", 0, 1.0), scored("n", "q1", 1, 0.5), scored("n", "q2", 0, 0.25), scored("m", "q1", 0, 0.0)]
    found = {one.name: one for one in official_scores(rows, "a")}
    assert found["socialmem MeanQ"].value == pytest.approx((0.75 + 0.25 + 0.0) / 3)
    assert found["socialmem MeanN"].value == pytest.approx((0.5 + 0.0) / 2)
    assert (found["socialmem MeanQ"].n, found["socialmem MeanN"].n, found["socialmem MeanN"].interval.low) == (3, 2, 0.0)
    with pytest.raises(ValueError, match="1 answers have no partial score"):
        official_scores([*rows, scored("m", "q2", 0, None)], "a")
    assert len(official_scores([*rows, scored("m", "q2", 0, None)], "a", allow_unscored=True)) == 2


def test_official_scores_stand_beside_the_judged_ones() -> None:
    locomo = [
        question_row("a", "n", "q1", RIGHT, benchmark="locomo", type="4", answer="a red cars", gold_text="the red car"),
        question_row("a", "n", "q2", WRONG, benchmark="locomo", type="5", answer="not mentioned", gold_text="?"),
        question_row("a", "n", "q3", WRONG, benchmark="locomo", type="2", answer="blue", gold_text="red"),
    ]
    found = {one.name: (one.n, one.value, one.judged) for one in official_scores(locomo, "a")}
    assert found["locomo F1, category 4 (single-hop)"] == (1, 1.0, 1.0)
    assert found["locomo F1, category 5 (adversarial)"] == (1, 1.0, 0.0)
    assert found["locomo F1, all"] == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert found["locomo F1, without category 5"] == (2, 0.5, 0.5)
    letters = [
        question_row("a", "n", f"q{i}", RIGHT, benchmark="evermem", type="Const", answer=answer, gold_option=option)
        for i, (answer, option) in enumerate([("B", "B"), ("B) x", "B"), ("C", "B"), ("red", "")])
    ]
    found = {one.name: (one.n, one.value) for one in official_scores(letters, "a")}
    assert found == {"evermem letters": (3, pytest.approx(2 / 3)), "evermem letters Const": (3, pytest.approx(2 / 3))}


def test_evidence_recall_counts_messages_not_questions() -> None:
    rows = [
        question_row("a", "n", "q1", RIGHT, type="Q1", anchors=[3, 3, 2, 1]),
        question_row("a", "n", "q2", RIGHT, type="Q2", anchors=[1, 0, 0, 1]),
        question_row("a", "n", "q3", RIGHT, type="Q1", anchors=[0, 0, 0, 0]),
    ]
    assert evidence_recall(rows, "a") == {"n": 2, "recall_n": 0.75, "top_k": 0.5, "rows": 0.5}
    assert evidence_recall(rows, "a", "Q2") == {"n": 1, "recall_n": 0.0, "top_k": 0.0, "rows": 1.0}
    assert evidence_recall(rows, "b") == {"n": 0}


def test_table_9_is_measured_from_the_rows() -> None:
    def call(role: str, prompt: int, completion: int, cached: bool = False) -> dict[str, Any]:
        counts = {"prompt_tokens": prompt, "completion_tokens": completion, "attempts": 1, "seconds": 0.5}
        return {"role": role, "model": "m", "cached": cached, **counts}

    asked = [call("project", 10, 2, True), call("answer", 100, 20), call("judge", 1000, 200)]
    rows = [question_row("a", "n", f"q{i}", RIGHT, calls=asked) for i in range(2)]
    rows += [question_row("a +ASK", "n", f"q{i}", RIGHT, system="a", calls=[*asked, call("ask", 7, 1)]) for i in range(2)]
    memory = {"row": "memory", "writer": "a", "system": "a", "network": "n", "seed": 0}
    rows.append(memory | {"writer_calls": 3, "prompt_tokens": 900, "tokens": 90})
    rows.append(memory | {"system": "b", "writer": "b", "writer_calls": 5, "prompt_tokens": 1, "tokens": 1})
    one = usage(rows, "a")
    assert (one.asked.prompt, one.asked.completion, one.total) == (220, 44, 900 + 90 + 220 + 44)  # cached tokens count
    assert (one.stages["project"].cached, one.stages["judge"].prompt) == (2, 2000)
    assert "| a | 3 | 900 | 90 | 220 | 44 | 1,254 | 627.00 |" in usage_table(rows)
    assert "| a +ASK | 3 | 900 | 90 | 234 | 46 | 1,270 | 635.00 |" in usage_table(rows)


def test_intrinsic_scores_count_chains_only_where_there_are_updates() -> None:
    base = {"row": "memory", "writer": "a", "seed": 0, "phi": 0.5, "final_phi": 0.6, "qa_gain": 0.25}
    rows = [
        base | {"network": "n", "gold_edges": 2, "final_chain": 0.5, "coverage": {"Ann": 1.0, "Ben": 0.0}},
        base | {"network": "m", "gold_edges": 0, "final_chain": 1.0, "coverage": {"Cléo": 0.5}},
        {"row": "memory", "writer": "a", "seed": 0, "network": "bare", "records": 3},
    ]
    found = intrinsic(rows, "a")
    assert found["final_chain"].mean == 0.5
    assert (found["coverage"].mean, found["least_coverage"].mean) == (0.5, 0.25)
    better = {"row": "memory", "writer": "b", "seed": 0, "network": "n", "coverage": {"Ann": 1.0, "Ben": 0.8}}
    assert owner_table([*rows, rows[0] | {"seed": 1, "coverage": {"Ben": 0.4}}, better]).splitlines() == [
        "| Network | Owner | a | b |",
        "|---|---|---|---|",
        "| m | Cléo | 0.500 |  |",
        "| n | Ben | 0.200 | 0.800 |",
        "| n | Ann | 1.000 | 1.000 |",
    ]
    many = rows[0] | {"coverage": {f"o{i:02}": i / 40 for i in range(40)}}
    assert owner_table([many]).splitlines()[0].startswith("40 owners; the 30 least covered")
    assert "o29" in owner_table([many]) and "o30" not in owner_table([many])


def test_networks_that_were_trained_on_are_labelled() -> None:
    rows = [question_row("r1", "n", "q1", RIGHT, trained_on=True), question_row("x", "n", "q1", RIGHT)]
    assert "| r1 (training networks) |" in page(rows) and "| x |" in page(rows)


def grid_rows() -> list[dict[str, Any]]:
    rows = []
    for x, top_k in enumerate(GRID_TOP_K):
        for y, k in enumerate(GRID_K):
            right = 1 + x + (y == 1)
            rows += [
                question_row(f"oracle {grid_suffix(top_k, k)}", "n", f"q{i}", RIGHT if i < right else WRONG) for i in range(4)
            ]
    return rows


def test_the_grid_is_a_table_and_two_figures(tmp_path: Path) -> None:
    rows = grid_rows()
    assert grid_cells(rows, "oracle")[20, 4] == (100.0, 100.0)
    assert "| 5 | 25.00 / 100.00 | 50.00 / 100.00 | 25.00 / 100.00 |" in grid_table(rows, "oracle")
    draw_curves(rows, "oracle", tmp_path / "curves.png")
    draw_heatmap(rows, "oracle", tmp_path / "map.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("curves.png", "map.png"))


def test_reward_ablations_are_recipe_overrides_and_one_table() -> None:
    weights = {name: load("r1", overrides(name, "r1")).grpo.reward for name in OVERRIDES}
    assert weights["no QA"].w_qa == 0 and weights["no QA"].w_mem == weights["full"].w_mem == 0.45
    assert weights["no SpeakerLevenshtein"].w_phi == 0 and weights["no chain"].w_chain == 0
    assert (weights["validity only"].w_mem, weights["validity only"].w_qa, weights["validity only"].w_valid) == (0, 0, 0.2)
    assert load("r1", overrides("validity only", "r1")).run == "r1-validity-only"
    rows = {"full": three_seeds(), "no QA": [row | {"verdict": WRONG} for row in three_seeds()]}
    table = ablation_table(rows, "r1")
    assert "| full | 50.00 | – | – | 100.00 |" in table
    assert "| no QA | 0.00 | -50.00 [" in table


@settings(max_examples=25, deadline=None)
@given(st.permutations(three_seeds()))
def test_the_order_of_rows_changes_no_number(rows: list[dict[str, Any]]) -> None:
    assert results(rows, "llm")["against"] == results(three_seeds(), "llm")["against"]
    assert accuracy(rows, "r1") == accuracy(three_seeds(), "r1")
