"""Splits at network level: which networks train, which are held out, and the check that nothing leaks between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.jsonfile import read_json, texts
from data.network import DataError, Network, fold

MANIFESTS = Path(__file__).parent / "manifests"
LONG = 20  # characters from which on an equal message is no accident ("ok", "thanks!" are)
LEAK_SHARE = 0.5  # of the smaller network's long messages


@dataclass(frozen=True)
class Split:
    """Network ids by side. Errors: an id on two sides, or twice on one."""

    train: tuple[str, ...]
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for side in ("train", "dev", "test"):
            for one in getattr(self, side):
                if one in seen:
                    raise DataError(f"split: network {one!r} is in {seen[one]} and again in {side}; a network has one place")
                seen[one] = side


def load_split(name_or_path: str | Path) -> Split:
    """A bundled manifest by name (`socialmem_paper`, `socialmem_cpu`, `r1_train`) or a JSON file {train, dev, test}.

    Errors (DataError with file and field): neither of both, a missing side, an id on two sides.
    """
    path = MANIFESTS / f"{name_or_path}.json"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        bundled = ", ".join(sorted(file.stem for file in MANIFESTS.glob("*.json")))
        raise DataError(f"split {str(name_or_path)!r}: neither a bundled manifest ({bundled}) nor a file; name one of them")
    raw = read_json(path)
    try:
        return Split(*(texts(raw, side, str(path)) for side in ("train", "dev", "test")))
    except DataError as error:
        raise DataError(str(error) if str(path) in str(error) else f"{path}: {error}") from error


def check_leaks(train: Sequence[Network], heldout: Sequence[Network]) -> None:
    """Raise DataError where a held-out network is a training network, by id or by its messages.

    The same messages under another id: equal sequences of folded texts, or LEAK_SHARE and more of the smaller one's
    distinct messages of LONG and more characters.
    """
    trained = {network.id: _texts(network) for network in train}
    for network in heldout:
        if network.id in trained:
            raise DataError(f"leak: network {network.id!r} is both for training and held out; take it out of one side")
        held = _texts(network)
        for other, messages in trained.items():
            if messages == held:
                raise DataError(f"leak: held-out network {network.id!r} has the same messages as training network {other!r}")
            ours, theirs = _long(messages), _long(held)
            equal, smaller = len(ours & theirs), min(len(ours), len(theirs))
            if smaller and equal >= LEAK_SHARE * smaller:
                raise DataError(
                    f"leak: {equal} of {smaller} longer messages are the same in held-out network {network.id!r} and training "
                    f"network {other!r}; keep both on one side"
                )


def _texts(network: Network) -> tuple[str, ...]:
    return tuple(fold(message.text) for message in network.messages())


def _long(messages: tuple[str, ...]) -> frozenset[str]:
    return frozenset(text for text in messages if len(text) >= LONG)
