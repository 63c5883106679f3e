"""What the benchmarks are published to hold, to be asserted against what was loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from data.network import Network


@dataclass(frozen=True)
class Counts:
    """Networks, sessions, messages (None: not published exactly) and questions by kind."""

    networks: int
    sessions: int | None
    messages: int | None
    kinds: Mapping[str, int]


PUBLISHED = {
    "socialmem": Counts(
        43, 348, 7355, {"Q1": 249, "Q2": 81, "Q3": 22, "Q4": 80, "Q5": 92, "Q6": 54, "Q7": 181, "Q8": 262, "Q9": 10}
    ),
    "locomo": Counts(10, 272, 5882, {"1": 282, "2": 321, "3": 96, "4": 841, "5": 446}),
    "groupmem": Counts(
        4,
        None,
        None,
        {
            "multi_hop": 182,
            "knowledge_update": 107,
            "temporal": 162,
            "user_implicit": 49,
            "term_ambiguity": 106,
            "abstention": 139,
        },
    ),
    "evermem": Counts(
        5,
        None,
        51023,
        {
            "Single": 213,
            "Multi": 249,
            "Temp": 300,
            "Const": 402,
            "Proact": 427,
            "Update": 268,
            "Style": 176,
            "Skill": 169,
            "Role": 196,
        },
    ),
}


def count(networks: Sequence[Network]) -> Counts:
    """The counts of what is there, kinds in the order of their names."""
    kinds = Counter(question.kind for network in networks for question in network.questions)
    sessions = [session for network in networks for session in network.sessions]
    return Counts(len(networks), len(sessions), sum(len(one.messages) for one in sessions), dict(sorted(kinds.items())))


def differences(networks: Sequence[Network], benchmark: str) -> list[str]:
    """A sentence for each count that is not the published one; empty where all agree."""
    published, found = PUBLISHED[benchmark], count(networks)
    pairs: list[tuple[str, int | None, int | None]] = [
        ("networks", published.networks, found.networks),
        ("sessions", published.sessions, found.sessions),
        ("messages", published.messages, found.messages),
    ]
    kinds = sorted(set(published.kinds) | set(found.kinds))
    pairs += [(f"questions {kind}", published.kinds.get(kind, 0), found.kinds.get(kind, 0)) for kind in kinds]
    return [f"{what}: {there} of {wanted}" for what, wanted, there in pairs if wanted not in (None, there)]
