"""The scaling benchmark at its smallest: real rounds, and fits that tell a line from a square."""

from __future__ import annotations

import pytest

from benchmarks.scaling import AT_MOST, PHASES, Size, fit, make_cases, measure, page


def test_a_round_s_work_grows_with_every_axis_and_the_page_shows_it():
    result = measure({"positions": (2, 4), "trajectories": (2, 4), "networks": (1, 2)}, repeats=1)
    assert set(result["r2"]) == set(result["unit_cost_ratio"]) == {"positions", AT_MOST, "trajectories", "networks"}
    text = page(result)
    for axis, one in result["by_axis"].items():
        small, large = one["rows"]
        assert (
            large["size"] == 2 * small["size"] and large["writes"] == 2 * small["writes"] and large["tokens"] > small["tokens"]
        )
        assert all(row[phase] > 0 for row in one["rows"] for phase in PHASES)
        assert small["total"] == pytest.approx(sum(small[phase] for phase in PHASES))
        assert one["fits"]["total"]["unit_cost_ratio"] == pytest.approx(large["total"] / small["total"] / 2, abs=1e-3)
        assert f"## {axis.capitalize()}" in text and f"{large['total']:.3f}" in text


def test_a_line_and_a_square_are_told_apart():
    line = fit([1, 2, 4, 8], [3.5, 5.5, 9.5, 17.5])
    assert line["r2"] == 1 and line["seconds_per_unit"] == pytest.approx(2) and line["fixed_seconds"] == pytest.approx(1.5)
    assert line["unit_cost_ratio"] == pytest.approx(17.5 / 8 / 3.5, abs=1e-3)
    square = fit([1, 2, 4, 8], [1, 4, 16, 64])
    assert square["exponent"] == 2 and square["unit_cost_ratio"] == 8 and square["r2"] < 0.99


def test_networks_have_exactly_the_positions_asked_for():
    cases = make_cases(Size(positions=7, networks=2))
    assert [len(case.segments) for case in cases] == [7, 7] and cases[0].network.id != cases[1].network.id
