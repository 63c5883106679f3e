from __future__ import annotations

from pathlib import Path

import pytest

from data.catalog import load_networks
from data.network import DataError, Message, Network, Session
from data.splits import MANIFESTS, Split, check_leaks, load_split
from tests.data.builders import ROSTER, write


def made(name: str, *texts: str) -> Network:
    messages = tuple(Message(f"{name}{i}", "u1", text) for i, text in enumerate(texts))
    return Network(name, ROSTER, (Session(f"{name}s", messages),))


def long(*words: str) -> list[str]:
    return [f"The longer message about {word}" for word in words]


def test_the_papers_split_has_ten_networks_a_side() -> None:
    split = load_split("socialmem_paper")
    assert (len(split.train), len(split.dev), len(split.test)) == (10, 0, 10)
    assert split.train[0] == "grp_0d1e2f3a" and split.test[0] == "grp_c1d2e3f7" and split.test[-1] == "grp_d2e3f4a5"


def test_the_cpu_split_holds_out_two_of_the_papers_ten() -> None:
    split = load_split("socialmem_cpu")
    assert split.test == ("grp_2b3c4d5e", "grp_3c4d5e6f")
    assert {*split.train, *split.test} == {*load_split("socialmem_paper").train}


def test_the_main_run_trains_on_the_papers_ten_and_our_five() -> None:
    split = load_split("r1_train")
    own = {network.id for network, _ in load_networks("own")}
    assert len(split.train) == 15 and {*split.train} == own | {*load_split("socialmem_paper").train}


@pytest.mark.parametrize("file", sorted(MANIFESTS.glob("*.json")), ids=lambda file: file.stem)
def test_every_bundled_manifest_loads_by_name_and_by_path(file: Path) -> None:
    assert load_split(file.stem) == load_split(file)


def test_a_network_has_one_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'b' is in train and again in test"):
        Split(("a", "b"), (), ("b",))
    with pytest.raises(DataError, match="'a' is in train and again in train"):
        Split(("a", "a"))
    path = write(tmp_path / "s.json", {"train": ["a"], "dev": ["a"], "test": []})
    with pytest.raises(DataError, match=r"s\.json: split: network 'a'"):
        load_split(path)


def test_a_manifest_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'nope': neither a bundled manifest \(r1_train, socialmem_cpu, socialmem_paper\)"):
        load_split("nope")
    with pytest.raises(DataError, match=r"s\.json: field 'dev' is missing"):
        load_split(write(tmp_path / "s.json", {"train": []}))


def test_different_networks_do_not_leak() -> None:
    check_leaks([made("a", *long("tea", "milk"))], [made("b", *long("ink", "paper"))])
    check_leaks([], [made("b", "x")])


def test_a_network_on_both_sides_is_a_leak() -> None:
    with pytest.raises(DataError, match="network 'a' is both for training and held out"):
        check_leaks([made("z", "q"), made("a", "x")], [made("b", "y"), made("a", "other")])


def test_the_same_messages_under_another_id_are_a_leak_even_when_short() -> None:
    with pytest.raises(DataError, match="held-out network 'b' has the same messages as training network 'a'"):
        check_leaks([made("a", "Hi", "yo ")], [made("b", "hi", " YO")])


def test_half_of_the_longer_messages_is_a_leak_and_less_is_none() -> None:
    trained = made("a", *long("tea", "milk", "salt", "rice", "corn"))
    with pytest.raises(DataError, match="2 of 4 longer messages are the same in held-out network 'b' and training network 'a'"):
        check_leaks([trained], [made("b", *long("TEA", "milk", "ink", "paper"))])
    check_leaks([trained], [made("b", *long("tea", "ink", "paper"))])


def test_a_network_inside_a_bigger_one_is_a_leak_whichever_is_held_out() -> None:
    big, small = made("a", *long(*"abcdefgh")), made("b", *long(*"ab"))
    for train, held in ((big, small), (small, big)):
        with pytest.raises(DataError, match="2 of 2 longer messages"):
            check_leaks([train], [held])


def test_short_messages_that_everybody_writes_are_no_leak() -> None:
    check_leaks(
        [made("a", "ok", "thanks!", "see you there then", *long("tea"))], [made("b", "ok", "thanks!", "see you there then")]
    )


def test_our_own_networks_do_not_leak_into_each_other() -> None:
    networks = [network for network, _ in load_networks("own")]
    for held in networks:
        check_leaks([network for network in networks if network is not held], [held])
