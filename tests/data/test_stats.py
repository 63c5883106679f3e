"""Numbers about networks, and their picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.network import DataError
from data.stats import draw, stats
from tests.data.builders import network


def test_numbers_count_what_is_there() -> None:
    numbers = stats([network(5, 2), network(3, name="other")])
    assert (numbers.networks, numbers.members, numbers.bots) == (2, 8, 2)
    assert numbers.session_lengths == (5, 2, 3) and len(numbers.message_lengths) == 10
    assert numbers.by_member["net / Ann"] == 3 and sum(numbers.by_member.values()) == 10
    assert ("messages a session", "mean 3.3, median 3, most 5") in numbers.rows()


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    draw(stats([network(5, 2)]), tmp_path / "stats.png")
    assert (tmp_path / "stats.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_at_all_is_drawn_too(tmp_path: Path) -> None:
    draw(stats([]), tmp_path / "stats.png")
    assert (tmp_path / "stats.png").stat().st_size > 0


def test_a_place_that_cannot_be_written_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        draw(stats([]), tmp_path / "none" / "stats.png")
