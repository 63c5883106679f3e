"""What the report says of a memory, a trajectory and an evaluation, against examples by hand."""

from __future__ import annotations

from typing import Any

from data.memory.records import Layer, Record, UType
from data.memory.state import State
from rewards.matching import Matcher
from rewards.weights import RewardWeights
from writer_rl.report.comparison import compare
from writer_rl.report.diagnosis import diagnose
from writer_rl.report.tables import cost_tables, evaluation_tables, selection_table


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
        "benchmark": "SocialMemBench",
        "network": f"n{number % 10}",
        "seed": 0,
        "type": "Q1",
        "offline": False,
    }
    return base | {"offline": False, "writer": writer, "question": f"q{number}", "verdict": verdict} | more


def test_evaluation_tables_give_intervals_differences_and_types() -> None:
    rows = [question("sft", n, "correct" if n % 2 else "incorrect") for n in range(20)]
    rows += [question("r1", n, "correct") for n in range(20)]
    tables = evaluation_tables(rows)
    assert [table["title"] for table in tables] == ["Evaluation: SocialMemBench", "Difference to sft", "By question type"]
    assert [line[:2] for line in tables[0]["rows"]] == [["sft", "0.500 [0.200, 0.800]"], ["r1", "1.000 [1.000, 1.000]"]]
    assert tables[1]["rows"][0][1].startswith("+0.500") and tables[1]["rows"][0][-1] == "0.00195 (n=20)"
    assert tables[2]["rows"] == [["Q1", "10/20: 0.500 [0.299, 0.701]", "20/20: 1.000 [0.839, 1.000]"]]


def test_unjudged_questions_and_offline_roles_are_shown_as_such() -> None:
    rows = [question("sft", n, "missing" if n == 0 else "correct", offline=True) for n in range(4)]
    table = evaluation_tables(rows)[0]
    assert "1 questions have no verdict" in table["note"] and "Offline roles" in table["note"]
    assert table["rows"][0][1] == "1.000 [1.000, 1.000]"


def test_the_papers_table_stands_beside_ours_only_under_its_own_protocol() -> None:
    same = [question("r1", n, "correct") for n in range(305)]
    assert "Table 3" in evaluation_tables(same)[-1]["note"]
    assert evaluation_tables(same)[-1]["rows"][1][3] == "68.2"
    for other in (same[:-1], [one | {"offline": True} for one in same], [one | {"benchmark": "gym"} for one in same]):
        assert all("Quoted" not in table["title"] for table in evaluation_tables(other))


def test_cost_counts_time_tokens_and_calls() -> None:
    metrics = [{"time/rollout": 50.0, "time/update": 10.0, "num_tokens": 1000}, {"time/rollout": 40.0, "num_tokens": 500}]
    calls = [{"role": "answer", "cached": True, "prompt_tokens": 10, "completion_tokens": 2}] * 2
    tables = cost_tables(metrics, [question("r1", 0, "correct", calls=calls)])
    assert tables[0]["rows"] == [["rollout", "1 min 30 s", "90%"], ["update", "10.0 s", "10%"]]
    assert "1,500 tokens" in tables[0]["note"]
    assert tables[1]["rows"] == [["r1", "answer", "2", "2", "20", "4"]]
    assert cost_tables([], []) == []


def test_the_selection_table_needs_measured_epochs() -> None:
    assert selection_table({}) == [] == selection_table({"table": [{"epoch": 1}], "checkpoint": "epoch-01", "by": "last"})
    table = selection_table({"table": [{"epoch": 2, "phi": 0.5}], "checkpoint": "epoch-02", "by": "phi"})
    assert table[0]["rows"] == [["2", "0.500"]]
