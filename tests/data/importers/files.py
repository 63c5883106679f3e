"""Files in the schemas that the benchmarks and chat tools publish, small and written by hand: no published data."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data.network import Network

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
LOCOMO = SHARED / "locomo"
SOCIALMEM = SHARED / "socialmem" / "networks"


def put(path: Path, value: object) -> Path:
    """JSON (a list of rows for .jsonl), bytes or text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, bytes):
        path.write_bytes(value)
    elif isinstance(value, str):
        path.write_text(value, encoding="utf-8")
    elif path.suffix == ".jsonl":
        assert isinstance(value, list)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in value), encoding="utf-8")
    else:
        path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def zipped(path: Path, files: Mapping[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def texts(network: Network) -> list[str]:
    return [message.text for message in network.messages()]


def locomo_sample(**changed: Any) -> dict[str, Any]:
    turns = [
        {
            "speaker": "John",
            "dia_id": "D1:1",
            "text": "Look &amp; see!",
            "img_url": ["u"],
            "blip_caption": "a dog",
            "query": "dog",
        },
        {"speaker": "Maria", "dia_id": "D1:2", "text": "Cute."},
    ]
    conversation = {
        "speaker_a": "John",
        "speaker_b": "Maria",
        "session_10": [{"speaker": "Maria", "dia_id": "D10:1", "text": "Last."}],
        "session_10_date_time": "12:05 am on 2 January, 2024",
        "session_2": [{"speaker": "John", "dia_id": "D2:1", "text": "Again."}],
        "session_2_date_time": "12:09 pm on 30 May, 2023",
        "session_1": turns,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_11_date_time": "9:00 am on 3 January, 2024",
    }
    qa = [
        {"question": "How many dogs?", "answer": 2, "evidence": ["D1:1"], "category": 1},
        {"question": "When?", "answer": "8 May", "evidence": ["D1:1; D1:2", "D"], "category": 2},
        {"question": "Which cat?", "evidence": ["D1:1"], "category": 5, "adversarial_answer": "Tom"},
        {"question": "A cat?", "answer": "No", "evidence": [], "category": 5, "adversarial_answer": "Yes"},
    ]
    return {"sample_id": "conv-1", "conversation": conversation, "qa": qa} | changed


def group_message(number: int, author: str = "User_1", **changed: Any) -> dict[str, Any]:
    base = {
        "msg_node": f"Msg_{number}",
        "content": f"content {number}",
        "author": author,
        "role": "Analyst",
        "timestamp": f"2025-03-01T09:{number % 60:02d}:00",
        "reply_to": None,
        "phase_name": "SECRET phase",
        "topic": "SECRET topic",
        "is_noise": False,
        "is_decision_point": False,
        "decision_type": None,
        "decision_label": None,
        "decision_change_metadata": {"from": "SECRET"} if number % 2 else "SECRET",
        "phase_order": 1,
        "tone": "formal",
    }
    return base | changed


def groupmem(
    root: Path, channels: Mapping[str, Sequence[Any]], questions: Mapping[str, Sequence[Any]], domain: str = "Finance"
) -> Path:
    put(root / "data" / "final" / domain / f"synthetic_domain_channels_rolevariants_{domain}.json", dict(channels))
    for kind, rows in questions.items():
        put(root / "questions" / domain / f"{kind}.jsonl", list(rows))
    return root


def group_question(number: str = "1", asker: str = "User_1", **changed: Any) -> dict[str, Any]:
    return {"id": number, "question": "What am I working on?", "answer": "true", "asking_user_id": asker} | changed


def ever_message(index: int, speaker: str = "Weihua Zhang", day: str = "2025-01-09") -> dict[str, Any]:
    return {"speaker": speaker, "time": f"{day} 09:{index:02d}:15", "dialogue": f"say {day} {index}", "message_index": index}


def evermem(root: Path, dialogues: object, qars: Sequence[Any], topic: str = "01") -> Path:
    put(root / topic / "dialogue.json", {"dialogues": dialogues} if not isinstance(dialogues, str) else dialogues)
    put(root / topic / f"qa_{topic}.json", {"qars": list(qars)})
    return root


def table_rows() -> dict[str, list[dict[str, Any]]]:
    """The four tables for one network of two sessions; rows out of order."""
    turn = {
        "network_id": "grp_1",
        "session_topic": "SECRET",
        "session_date_label": "day one",
        "session_date": "2025-02-03",
        "session_gap_days": 0,
        "active_participants_json": '["p1", "p2"]',
        "corpus_start_date": "2025-02-03",
        "timestamp_label": "morning",
    }

    def row(session: int, index: int, speaker: str, text: str, reply: str | None = None) -> dict[str, Any]:
        return turn | {
            "session_id": f"grp_1_s{session:02d}",
            "session_index": session,
            "turn_id": f"grp_1_s{session:02d}_t{index:03d}",
            "speaker_persona_id": {"Ann": "p1", "Ben": "p2"}[speaker],
            "speaker_display_name": speaker,
            "timestamp": f"2025-02-0{session + 2}T1{index}:00:00",
            "message": text,
            "message_index": index,
            "reply_to_turn_id": reply,
        }

    question = {
        "qa_id": "Q4_1",
        "network_id": "grp_1",
        "query_type": "Q4",
        "difficulty": "easy",
        "question": "Who drinks tea?",
        "answer": "Ann",
        "answer_format": "multiple_choice",
        "options_json": '{"A": "Ann", "B": "Ben"}',
        "correct_option": "A",
        "evidence_anchors_json": '[{"turn_id": "grp_1_s01_t000"}, {"turn_id": "grp_9_s01_t000"}]',
        "contamination_foil": "Ben",
        "temporal_anchors_json": None,
        "qc_status": "pass",
        "source_challenge_id": "c1",
        "generation_seed": 1,
        "metadata_json": "{}",
    }
    return {
        "conversations": [
            row(2, 0, "Ben", "Coffee again"),
            row(1, 1, "Ben", "Not me &lt;3", "grp_1_s01_t000"),
            row(1, 0, "Ann", "Tea?"),
        ],
        "qa": [question],
        "networks": [{"network_id": "grp_1", "group_name": "Tea", "n_personas": 3, "edges_json": "[]", "metadata_json": "{}"}],
        "personas": [{"network_id": "grp_1", "persona_id": "p3", "display_name": "Cy"}],
    }


def slack_message(ts: str, text: str = "hello", user: str = "U1", **changed: Any) -> dict[str, Any]:
    return {"type": "message", "ts": ts, "user": user, "text": text} | changed


SLACK_USERS = [
    {"id": "U1", "name": "ann", "profile": {"display_name": "Ann", "real_name": "Ann A"}, "is_bot": False},
    {"id": "U2", "name": "ben", "profile": {"display_name": "", "real_name": "Ben B"}},
    {"id": "U3", "name": "helper", "profile": {}, "is_bot": True},
    {"id": "U4", "name": "cy", "profile": {"display_name": "Ann"}},
]


def slack_files(days: Mapping[str, Any]) -> dict[str, str]:
    """Name to JSON text of a workspace export; `days` maps `channel/date.json` to its messages."""
    files = {
        "users.json": SLACK_USERS,
        "channels.json": [{"id": "C1", "name": "general"}, {"id": "C2", "name": "random"}],
        **days,
    }
    return {name: json.dumps(value) for name, value in files.items()}


def discord_message(number: int, content: str = "hello", author: str = "1", **changed: Any) -> dict[str, Any]:
    return {
        "id": str(1000 + number),
        "type": "Default",
        "timestamp": f"2024-05-01T10:{number % 60:02d}:00.123+02:00",
        "timestampEdited": None,
        "callEndedTimestamp": None,
        "isPinned": False,
        "content": content,
        "author": {
            "id": author,
            "name": f"user{author}",
            "discriminator": "0000",
            "nickname": f"Nick {author}",
            "isBot": author == "9",
        },
        "attachments": [],
        "embeds": [],
        "stickers": [],
        "reactions": [],
        "mentions": [],
    } | changed


def discord_export(messages: Sequence[Any], guild: str = "77", channel: str = "5", name: str = "general") -> dict[str, Any]:
    return {
        "guild": {"id": guild, "name": "Our server", "iconUrl": "https://example.org/i.png"},
        "channel": {"id": channel, "type": "GuildTextChat", "categoryId": None, "category": None, "name": name, "topic": None},
        "dateRange": {"after": None, "before": None},
        "exportedAt": "2024-06-01T00:00:00+00:00",
        "messages": list(messages),
        "messageCount": len(messages),
    }
