from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.network import AmbiguousMember, DataError, Member, Message, Network, Question, Roster, Session, UnknownMember, fold
from tests.data.builders import ROSTER, network, session


@pytest.mark.parametrize("written", ["Ben", "ben ", "BEN\n", " b\u0045n", "u2"])
def test_one_person_however_the_name_is_written(written: str) -> None:
    assert ROSTER.canonical(written) == "Ben"


@pytest.mark.parametrize("written", ["Cléo", "Cle\u0301o", "CLÉO"])
def test_composed_and_decomposed_accents_are_the_same_name(written: str) -> None:
    assert ROSTER.canonical(written) == "Cléo"


@pytest.mark.parametrize("written", ["", " ", "Cleo", "Be n", "U2", "GROUP", "Benn"])
def test_a_stranger_is_an_error_that_names_the_stranger_and_the_roster(written: str) -> None:
    with pytest.raises(UnknownMember) as error:
        ROSTER.canonical(written)
    assert repr(written) in str(error.value)
    assert "Ann, Ben, Cléo, Helper" in str(error.value)


def test_two_members_with_one_label_are_ambiguous_and_never_guessed() -> None:
    roster = Roster((Member("1", "Ben"), Member("2", " bEN "), Member("3", "Ann")))
    assert roster.names == ("Ben (1)", "bEN (2)", "Ann")
    with pytest.raises(AmbiguousMember, match=r"2 members: Ben \(1\), bEN \(2\)"):
        roster.canonical("Ben")
    assert [roster.canonical(text) for text in ("1", "ben (2)", "ANN")] == ["Ben (1)", "bEN (2)", "Ann"]


def test_an_exact_id_comes_before_every_label() -> None:
    roster = Roster((Member("Ben", "Ann"), Member("p2", "Ben")))
    assert roster.canonical("Ben") == "Ann"
    assert roster.names == ("Ann", "Ben (p2)")  # a label that is another's id is told apart
    assert roster.canonical("Ben (p2)") == "Ben (p2)"


def test_a_bot_is_a_member_like_any_other() -> None:
    assert ROSTER.canonical("helper") == ROSTER.name("u4") == "Helper"


@pytest.mark.parametrize("label", ["GROUP", "group ", "All"])
def test_a_member_called_like_a_reserved_word_does_not_take_its_place(label: str) -> None:
    roster = Roster((Member("7", label), Member("8", "Ann")))
    assert roster.names[0].endswith("(7)")
    assert fold(roster.names[0]) not in {"group", "all"}


def test_a_name_holds_no_line_break_whatever_label_and_id_hold() -> None:
    roster = Roster((Member("1\n[Ann]", "Ben\n  [Ann]"), Member("2", "ben [ann]")))
    assert roster.names == ("Ben [Ann] (1 [Ann])", "ben [ann] (2)")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("1", "Ann"), ("1", "Ben")], "'1' appears twice"),
        ([("", "Ann")], "empty id or label"),
        ([("1", " \n")], "empty id or label"),
        ([("1", "Ben"), ("2", "Ben"), ("3", "Ben (1)")], "both be called"),
    ],
)
def test_a_roster_that_cannot_tell_its_members_apart_is_an_error(members: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Roster(tuple(Member(*pair) for pair in members))


LABELS = st.text("aAbB é\u0301(1)\n", min_size=1, max_size=5).filter(str.strip)


@given(st.dictionaries(LABELS, LABELS, min_size=1, max_size=5))
def test_every_name_of_a_roster_leads_back_to_its_member_only(labels: dict[str, str]) -> None:
    try:
        roster = Roster(tuple(Member(*pair) for pair in labels.items()))
    except DataError:
        return  # names that stay alike are refused
    assert len({fold(name) for name in roster.names}) == len(labels)
    for member_id, name in zip(labels, roster.names, strict=True):
        assert roster.canonical(member_id) == name
        if name not in labels:
            assert roster.canonical(f" {name}\n") == name
        assert name == " ".join(name.split())


@given(st.text())
def test_fold_is_stable_and_ignores_outer_and_repeated_white_space(text: str) -> None:
    assert fold(fold(text)) == fold(text) == fold(f"\n {text} \t")


def test_speakers_stay_with_their_messages() -> None:
    made = network(5)
    assert [made.roster.name(message.speaker) for message in made.messages()] == ["Ann", "Ben", "Cléo", "Helper", "Ann"]


def test_order_is_the_source_order_not_the_time() -> None:
    late, early = Message("a", "u1", "x", "2025-01-02"), Message("b", "u1", "y", "2025-01-01")
    made = Network("n", ROSTER, (Session("s2", (late,)), Session("s1", (early,))))
    assert [message.id for message in made.messages()] == ["a", "b"]


def test_an_empty_session_is_an_error_that_names_it() -> None:
    with pytest.raises(DataError, match=r"f\.json \[n\], session 's1': no messages"):
        Network("n", ROSTER, (Session("s1", ()),), source="f.json")


def test_an_unknown_speaker_is_an_error_that_names_session_and_message() -> None:
    with pytest.raises(DataError, match=r"session 's1', message 'm': speaker 'Ben' is not on the roster"):
        Network("n", ROSTER, (Session("s1", (Message("m", "Ben", "x"),)),))


@pytest.mark.parametrize("unit", ["session", "message", "question"])
def test_an_id_used_twice_is_an_error(unit: str) -> None:
    one = session("s1", 1)
    sessions = {"session": (one, Session("s1", session("s2", 1).messages)), "message": (one, Session("s2", one.messages))}
    questions = (Question("q", "?", "!"),) * (2 if unit == "question" else 1)
    with pytest.raises(DataError, match=f"{unit} id .* appears more than once"):
        Network("n", ROSTER, sessions.get(unit, (one,)), questions)
