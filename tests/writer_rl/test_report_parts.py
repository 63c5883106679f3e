"""What the report says of a memory, a trajectory and an evaluation, against examples by hand."""

from __future__ import annotations

from typing import Any

from data.memory.records import Layer, Record, UType
from data.memory.state import State
from rewards.matching import Matcher
from rewards.weights import RewardWeights
from writer_rl.report.comparison import compare
from writer_rl.report.diagnosis import diagnose
from writer_rl.report.tables import call_tables, evaluation_tables, selection_table, time_tables


def record(number: int, content: str, owner: str = "Ana", source: str = "Ana", layer: Layer = Layer.CORE) -> Record:
    return Record(f"d{number}", content, owner, source, layer, UType.FACT, "s1", 0, 1, "")


def test_records_without_a_partner_are_told_apart() -> None:
    predicted = State(
        [
            record(1, "Ana's locker is red"),
            record(2, "Bob plays the violin every day", source="Bob"),
            record(3, "Ana's locker is red!"),
            record(4, "the weather was fine"),
        ]
    )
    reference = State(
        [record(1, "Ana's locker is red"), record(2, "Bob plays the violin every day", owner="Bob", source="Bob")]
    )
    found = compare(predicted, reference, Matcher())
    assert [(mine, gold) for mine, gold, _ in found.pairs] == [("d1", "d1")]
    assert (found.misplaced, found.repeated, found.foreign, found.missing) == (("d2",), ("d3",), ("d4",), ("d2",))


def row(t: int, **more: Any) -> dict[str, Any]:
    reward = {"valid": 1.0, "mem": 0.5, "penalty": 0.0, "qa_term": 0.0, "return": 0.425, **more.pop("reward", {})}
    base = {"t": t, "parse": "strict", "parse_error": "", "finish_reason": "stop", "over_budget": False}
    return base | {"actions": [{"fate": "applied"}], "reward": reward} | more


def test_a_diagnosis_names_what_the_trajectory_lost_and_where() -> None:
    bad = [
        row(0, parse="failed", parse_error="no object", finish_reason="length", actions=[])
        | {"reward": {"valid": 0.0, "mem": 0.0, "penalty": -0.35, "qa_term": 0.0, "return": -0.35}},
        row(1, actions=[{"fate": "rejected", "reason": "unknown_owner"}, {"fate": "applied"}], over_budget=True),
    ]
    bad[-1]["questions"] = [{"verdict": "incorrect", "without": "correct"}, {"verdict": "correct", "without": "correct"}]
    said = diagnose(bad, [bad, [row(0), row(1)]], None, RewardWeights())
    assert said == [
        "Mean return 0.04, -0.19 against the mean of its group: penalties -0.09, memory -0.06, validity -0.05.",
        "No strict JSON at position 0 (1 cut off at the length limit): nothing was written there. First error: no object",
        "1 of 2 actions invalid: 1 unknown owner.",
        "More actions than the budget at position 1.",
        "Of 2 terminal questions the memory won 0 and lost 1, against answering without it.",
    ]


def test_a_diagnosis_counts_the_final_memory() -> None:
    predicted = State([record(1, "Ana's locker is red"), record(2, "nothing of the kind")])
    reference = State([record(1, "Ana's locker is red"), record(2, "Bob has a dog", owner="Bob", source="Bob")])
    said = diagnose([row(0)], [[row(0)]], compare(predicted, reference, Matcher()), RewardWeights())
    assert said[1:] == [
        "At the end 1 of 2 records are matched with one of 2 reference records, 1 are like none, 1 reference records are "
        "missing.",
        "Worst owner at the end: Bob (F 0.00).",
    ]


def question(writer: str, number: int, verdict: str, **more: Any) -> dict[str, Any]:
    base = {
        "row": "question",
        "benchmark": "socialmem",
        "network": f"n{number % 10}",
        "seed": 0,
        "type": "Q1",
        "offline": False,
        "ask": False,
        "budgets": [40, 10, 2, 1],
    }
    return base | {"writer": writer, "question": f"q{number}", "verdict": verdict} | more


def test_evaluation_tables_give_intervals_differences_and_types() -> None:
    rows = [question("sft", n, "correct" if n % 2 else "incorrect") for n in range(20)]
    rows += [question("r1", n, "correct") for n in range(20)]
    tables = evaluation_tables({"eval": rows})
    assert [table["title"] for table in tables] == ["Evaluation: socialmem", "Difference to sft", "By question type"]
    assert [line[:2] for line in tables[0]["rows"]] == [["sft", "0.500 [0.200, 0.800]"], ["r1", "1.000 [1.000, 1.000]"]]
    assert tables[1]["rows"][0][1].startswith("+0.500") and tables[1]["rows"][0][-1] == "0.00195 (n=20)"
    assert tables[2]["rows"] == [["Q1", "0.500 [0.299, 0.701] of 20", "1.000 [0.839, 1.000] of 20"]]


def test_unjudged_questions_and_offline_roles_are_shown_as_such() -> None:
    rows = [question("sft", n, "missing" if n == 0 else "correct", offline=True) for n in range(4)]
    table = evaluation_tables({"eval": rows})[0]
    assert "1 questions have no verdict" in table["note"] and "Offline roles" in table["note"]
    assert table["rows"][0][1] == "1.000 [1.000, 1.000]"


def test_differences_are_over_questions_that_both_have_and_seeds_are_no_pairs() -> None:
    def verdicts(writer: str, missing: int) -> list[dict[str, Any]]:
        said = ["missing" if n < missing else "correct" if n < 10 else "incorrect" for n in range(20)]
        return [question(writer, n, one, seed=seed) for n, one in enumerate(said) for seed in (0, 1)]

    (line,) = evaluation_tables({"eval": [*verdicts("sft", 5), *verdicts("r1", 0)]})[1]["rows"]
    assert (line[1], line[-1]) == ("+0.000 [+0.000, +0.000]", "1 (n=15)")


def test_every_evaluation_of_a_run_is_shown_under_its_name() -> None:
    one, other = ([question(writer, n, "correct") for n in range(4)] for writer in ("r1", "llm"))
    tables = evaluation_tables({"eval/round-0020": one, "eval": other})
    assert [table["title"] for table in tables if table["title"].startswith("Evaluation")] == [
        "Evaluation: socialmem (eval/round-0020)",
        "Evaluation: socialmem (eval)",
    ]


def test_the_papers_table_stands_beside_ours() -> None:
    same = [question("r1", n, "correct") for n in range(305)]
    table = evaluation_tables({"eval": same})[-1]
    assert table["title"] == "Quoted" and "Table 3" in table["note"] and table["rows"][1][3] == "68.2"
    assert all(one["title"] != "Quoted" for one in evaluation_tables({"eval": same[:-1]}))


def test_cost_counts_time_tokens_and_calls() -> None:
    metrics = [{"time/rollout": 50.0, "time/update": 10.0, "num_tokens": 1000}, {"time/rollout": 40.0, "num_tokens": 500}]
    calls = [{"role": "answer", "cached": True, "prompt_tokens": 10, "completion_tokens": 2}] * 2
    (times,) = time_tables(metrics)
    assert times["rows"] == [["rollout", "1 min 30 s", "90%"], ["update", "10.0 s", "10%"]]
    assert "1,500 tokens" in times["note"]
    (asked,) = call_tables({"eval": [question("r1", 0, "correct", calls=calls)]})
    assert asked["rows"] == [["r1", "answer", "2", "2", "20", "4"]]
    assert time_tables([]) == [] == call_tables({"eval": [question("r1", 0, "correct")]})


def test_the_selection_table_needs_measured_epochs() -> None:
    assert selection_table({}) == [] == selection_table({"table": [{"epoch": 1}], "checkpoint": "epoch-01", "by": "last"})
    table = selection_table({"table": [{"epoch": 2, "phi": 0.5}], "checkpoint": "epoch-02", "by": "phi"})
    assert table[0]["rows"] == [["2", "0.500"]]
