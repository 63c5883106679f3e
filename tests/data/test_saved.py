"""Networks on disk come back as they were."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data import socialmem
from data.catalog import load_networks
from data.network import DataError, Member, Message, Network, Question, Roster, Session
from data.saved import save_network, save_networks
from tests.data.builders import network
from tests.data.importers.files import SOCIALMEM

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FULL = Network(
    "n",
    Roster((Member("u1", "Ann"), Member("u2", "Ann"), Member("b", "GROUP", bot=True))),
    (
        Session(
            "s/1",
            (
                Message("m1", "u1", "  &amp; \n", "31/12/23, 9:15 PM", datetime(2023, 12, 31, 21, 15, 0, 7, tzinfo=UTC), True),
                Message("m2", "b", "", "", None, False, "gone"),
            ),
            "2023-12-31",
            "x",
        ),
    ),
    (
        Question(
            "q1", "Who?", "Ann", "k", "multiple_choice", (("B", "x"), ("A", "y")), "A", ("m1",), "u2", False, (("f", "Ben"),)
        ),
        Question("q2", "What?", "No", abstain=True, extra=(("f", "1"), ("f", "2"))),
    ),
    benchmark="own",
)


def test_everything_a_network_holds_comes_back(tmp_path: Path) -> None:
    save_network(FULL, tmp_path / "deep" / "n.json")
    assert socialmem.load(tmp_path / "deep") == [FULL]
    assert [one for one, _ in load_networks(tmp_path / "deep")] == [FULL]


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5), TEXT, TEXT)
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str], time: str, answer: str) -> None:
    messages = tuple(Message(f"m{n}", "u1", text, time) for n, text in enumerate(texts))
    made = Network("n", FULL.roster, (Session("s", messages),), (Question("q", answer, answer),))
    path = tmp_path_factory.mktemp("saved") / "n.json"
    save_network(made, path)
    assert socialmem.load(path) == [made]


def test_characters_stay_as_they_are(tmp_path: Path) -> None:
    save_network(network(1), tmp_path / "n.json")
    assert "Cléo" in (tmp_path / "n.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("members", 0, "bot"), "no", ["member 1", "bot"]),
        (("sessions", 0, "turns", 1, "instant"), "noon", ["session 1, turn 2", "instant"]),
        (("sessions", 0, "turns", 1, "instant"), "2023-01-01T00:00:00", ["turn 2", "without a zone"]),
        (("qa_pairs", 0, "extra"), [["a"]], ["question 1", "extra"]),
        (("qa_pairs", 1, "abstain"), 1, ["question 2", "abstain"]),
        (("sessions", 0, "turns", 0, "speaker_id"), "u9", ["u9", "roster"]),
        (("members", 1, "id"), "u1", ["twice"]),
    ],
)
def test_a_misfit_names_place_and_field(tmp_path: Path, path: tuple[str | int, ...], value: object, words: list[str]) -> None:
    file = tmp_path / "n.json"
    save_network(FULL, file)
    raw = json.loads(file.read_text(encoding="utf-8"))
    at = raw
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    file.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        socialmem.load(file)
    assert all(word in str(caught.value) for word in ["n.json", *words])


def test_a_place_that_cannot_be_written_is_a_data_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be written"):
        save_network(FULL, tmp_path / "file" / "n.json")


def test_networks_go_to_a_file_or_a_folder_and_replace_nothing(tmp_path: Path) -> None:
    first, second = network(1, name="../../a b"), network(1, name="c")
    assert save_networks([first], tmp_path / "one.json") == [tmp_path / "one.json"]
    assert save_networks([first, second], tmp_path / "all") == [tmp_path / "all" / "__.._a_b.json", tmp_path / "all" / "c.json"]
    assert {one.id for one in socialmem.load(tmp_path / "all")} == {"../../a b", "c"}
    with pytest.raises(DataError, match="replaced"):
        save_networks([second, first], tmp_path / "all")
    with pytest.raises(DataError, match="twice"):
        save_networks([network(1, name="a b"), network(1, name="a_b")], tmp_path / "new")


@pytest.mark.skipif(not SOCIALMEM.is_dir(), reason=f"the ten real SocialMemBench networks are not at {SOCIALMEM}")
def test_the_ten_real_networks_come_back(tmp_path: Path) -> None:
    real = socialmem.load(SOCIALMEM)
    for one in real:
        save_network(one, tmp_path / f"{one.id}.json")
    assert socialmem.load(tmp_path) == real
