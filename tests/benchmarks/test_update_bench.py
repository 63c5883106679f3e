"""The update's benchmark on a tiny model: three arms that do the same work, and numbers that follow from their clocks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks import update_bench, update_trace
from benchmarks.update_arms import Done, bare_arm, own_arm
from benchmarks.update_bench import Case, difference, interleaved, make_tiny, measure_memory, measure_speed, page, times_slower

VOCABULARY, LENGTHS = 300, [(9, 5), (3, 11), (20, 2), (4, 7)]


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Case:
    folder = make_tiny(tmp_path_factory.mktemp("update") / "tiny", VOCABULARY, width=32, layers=2)
    return Case("tiny", folder, "made up", update_trace.make_samples(LENGTHS, VOCABULARY))


def test_all_three_arms_compute_the_same_update_and_the_ratios_are_of_their_clocks(case):
    pytest.importorskip("trl", reason="TRL is a development tool")
    found = measure_speed(case, repeats=2, candidates=(1, 4))
    assert found["tokens"] == sum(map(sum, LENGTHS)) and found["samples"] == 4
    assert 0 < found["grad_norm_difference"] < 1e-3
    assert set(found["trl_tried_cpu_seconds"]) == {"1", "4"} and found["trl_samples_a_forward"] in (1, 4)
    for other in ("bare", "trl"):
        assert found[f"tokens_ratio_vs_{other}"] > 0 and found[f"wall_ratio_vs_{other}"] > 0
        assert found["tokens_per_cpu_second"][other] == pytest.approx(found["tokens"] / found["cpu_seconds"][other], rel=0.05)


def test_own_and_bare_passes_agree_in_both_epochs(case):
    own, bare = own_arm(case.folder, case.samples)(), bare_arm(case.folder, case.samples)()
    assert len(own.grad_norms) == 2 and difference([own, bare]) < 1e-4
    assert own.cpu > 0 and own.wall > 0


def test_an_arm_that_does_other_work_is_found_out(case):
    samples = [replace(case.samples[0], ret=0.5), *case.samples[1:]]
    assert difference([own_arm(case.folder, case.samples)(), bare_arm(case.folder, samples)()]) > 0.02
    with pytest.raises(AssertionError, match="different numbers of steps"):
        difference([Done(1, 1, (1.0,)), Done(1, 1, (1.0, 1.0))])


def test_a_ratio_is_the_median_of_the_repeats_ratios_and_arms_alternate():
    slow, fast = [Done(cpu, 2 * cpu, ()) for cpu in (2, 9, 4)], [Done(cpu, cpu, ()) for cpu in (1, 1, 1)]
    assert times_slower(slow, fast, "cpu") == 4 and times_slower(slow, fast, "wall") == 8
    turns: list[str] = []
    interleaved({name: lambda name=name: turns.append(name) or Done(1, 1, ()) for name in "ab"}, 2)
    assert turns == ["a", "b", "a", "b"]


def test_memory_is_measured_in_fresh_processes_and_grows_with_the_vocabulary(case, tmp_path):
    """Only the two arms without TRL: its import alone would take longer than everything else here."""
    wide = make_tiny(tmp_path / "wide", 20_000, width=32, layers=2)
    small = update_bench.memory_of("own", case.folder, LENGTHS[:2], VOCABULARY)
    large = update_bench.memory_of("bare", wide, LENGTHS[:2], 20_000)
    assert large > small + 3 * 4 * 32 * (20_000 - VOCABULARY)  # gradients and two moments alone


def test_the_memory_s_ratio_is_of_the_three_peaks(monkeypatch, tmp_path):
    peaks = {"own": 100 << 20, "bare": 400 << 20, "trl": 200 << 20}
    monkeypatch.setattr(update_bench, "memory_of", lambda arm, *rest: peaks[arm])
    found = measure_memory(tmp_path, [(1, 1)], 9)
    assert found["peak_memory_ratio_vs_trl"] == 0.5 and found["peak_memory_ratio_vs_bare"] == 0.25
    assert found["peak_mb"] == {"own": 100, "bare": 400, "trl": 200}


def test_the_page_says_what_the_json_says():
    one = dict.fromkeys(("tokens_ratio_vs_bare", "tokens_ratio_vs_trl", "wall_ratio_vs_bare", "wall_ratio_vs_trl"), 1.25)
    one |= {
        "tokens": 77,
        "grad_norm_difference": 1e-6,
        "trl_samples_a_forward": 4,
        "trl_tried_cpu_seconds": {"1": 2.0, "4": 1.0},
    }
    memory = {"peak_mb": {"own": 10, "bare": 40, "trl": 20}, "peak_memory_ratio_vs_trl": 0.5}
    text = page({"by_model": {"tiny": one}, **memory})
    assert "| tiny | 77 | 1.25 | 1.25 | 1.25 | 1.25 | 1e-06 |" in text and "(4, of 1 and 4 tried" in text and "**0.5**" in text


def test_the_committed_lengths_are_those_of_a_round_and_of_the_gym():
    for name in ("social_round", "gym"):
        lengths = update_trace.read_lengths(name)
        assert len(lengths) >= 36 and all(prompt > 0 < completion for prompt, completion in lengths)
    spread = update_trace.spread([(i, 1) for i in range(40)], 4)
    assert [prompt for prompt, _ in spread] == [0, 11, 22, 33]


def test_a_round_s_lengths_come_from_its_trace_in_order(tmp_path):
    rows = [
        {"g": 1, "t": 0, "prompt_tokens": 5, "completion_tokens": 6},
        {"g": 0, "t": 1, "prompt_tokens": 3, "completion_tokens": 4},
    ]
    (tmp_path / "round.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert update_trace.round_lengths(tmp_path / "round.jsonl") == [(3, 4), (5, 6)]
