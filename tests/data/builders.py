"""Small networks, actions and files for the tests of data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.network import Member, Message, Network, Roster, Session
from data.segments import Segment, segments

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
SOCIALMEM = SHARED / "socialmem"
NO_SOCIALMEM = f"the ten real SocialMemBench networks are not at {SOCIALMEM}"
ROSTER = Roster((Member("u1", "Ann"), Member("u2", "Ben"), Member("u3", "Cléo"), Member("u4", "Helper", bot=True)))


def session(name: str, count: int, text: str = "hello {}") -> Session:
    ids = [member.id for member in ROSTER.members]
    made = [Message(f"{name}m{i}", ids[i % len(ids)], text.format(i), f"2025-01-01T10:0{i % 10}:00") for i in range(count)]
    return Session(name, tuple(made))


def network(*counts: int, name: str = "net") -> Network:
    return Network(name, ROSTER, tuple(session(f"s{i}", count) for i, count in enumerate(counts, 1)))


def segment(count: int = 3) -> Segment:
    return segments(network(count))[0]


def support(contents: Sequence[str], at: Segment) -> list[tuple[str, ...]]:
    """Provenance for tests: the first verbatim record supports everything."""
    return [(at.verbatim[0].entry_id,)] * len(contents)


def add(
    content: str, owner: str = "Ann", source: str = "Ann", layer: str = "per_speaker_core", utype: str = "fact"
) -> dict[str, str]:
    return {"action": "ADD", "content": content, "owner": owner, "source": source, "layer": layer, "utype": utype}


def update(entry_id: str, content: str) -> dict[str, str]:
    return {"action": "UPDATE", "entry_id": entry_id, "content": content}


def nested() -> dict[str, Any]:
    """A network in the nested form: two sessions, three turns, two questions."""

    def turn(name: str, speaker: str, content: str, ts: str, reply_to: str = "") -> dict[str, str]:
        speaker_id = {"Ann": "p1", "Ben": "p2"}[speaker]
        return {"turn": name, "speaker": speaker, "speaker_id": speaker_id, "content": content, "ts": ts, "reply_to": reply_to}

    first = [
        turn("s01_t000", "Ben", "  Tea &amp; cake\u200d?\nfor &lt;all&gt; ", "2025-02-03T23:53:00"),
        turn("s01_t001", "Ann", "Yes", "2025-02-03T20:44:00+01:00", "s01_t000"),
    ]
    second = [turn("s02_t000", "Ben", "No", "2025-02-04T08:00:00Z")]
    common = {"category": "Q1", "question": "Who?", "answer": "Ben", "temporal_anchors": []}
    return {
        "speakers": ["Ann", "Ben", "Cy"],
        "sessions": [
            {"session_id": "s01", "session_index": 1, "topic": "SECRET", "ts": "2025-02-03", "turns": first},
            {"session_id": "s02", "session_index": 2, "topic": "SECRET", "ts": "2025-02-04", "turns": second},
        ],
        "qa_pairs": [
            common
            | {"id": "q1", "answer_format": "multiple_choice", "options": {"A": "Ann", "B": "Ben"}, "correct_option": "B"}
            | {"evidence_anchors": [{"turn_id": "s01_t000", "relevance": "SECRET"}, {"turn_id": "s01_t000", "turn_index": 0}]},
            common
            | {
                "id": "q2",
                "answer_format": "short_answer",
                "options": [],
                "correct_option": "Ben, who is",
                "evidence_anchors": [],
            },
        ],
        "meta": {"network_id": "grp_x"},
    }


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path
