"""How the cost of reading data grows: benchmarks and chat exports of 12,000 and 120,000 messages, made up on the spot.

    python -m benchmarks.data_speed [PATH OF locomo10.json]

Writes docs/results/data_speed.json and .md. Each reading runs in a process of its own; memory is the growth of that
process's peak resident size while it reads. Per message, a ratio of about 1 between the sizes means linear cost. Times
are CPU seconds: on a busy machine the clock says far more for the same work.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.results import write_result
from data.importers import import_chat

SMALL, LARGE = 12_000, 120_000
PEOPLE, CHANNELS = 40, 30
WORDS = ("budget", "harbour", "release", "Friday", "map", "server", "garden", "choir", "ticket", "lunch", "exam", "lake")


def said(number: int) -> str:
    """A message of about 150 characters that no other one equals."""
    return " ".join(WORDS[number * (3 + step) % len(WORDS)] for step in range(24)) + f" {number}"


def when(number: int) -> str:
    minutes = number * 3
    day, minute = divmod(minutes, 1440)
    return f"{2024 + day // 336}-{1 + day // 28 % 12:02d}-{1 + day % 28:02d}T{minute // 60:02d}:{minute % 60:02d}:00"


def groupmem(folder: Path, count: int) -> Path:
    """One domain in the published schema."""
    channels: dict[str, list[dict[str, Any]]] = {f"channel-{number}": [] for number in range(CHANNELS)}
    for number in range(count):
        message = {
            "msg_node": f"Msg_{number}",
            "content": said(number),
            "author": f"User_{number * 7 % PEOPLE}",
            "role": "Analyst",
            "timestamp": when(number),
            "reply_to": None,
            "phase_name": "planning",
            "topic": "a topic",
            "is_noise": False,
            "is_decision_point": False,
            "decision_type": None,
            "decision_label": None,
            "decision_change_metadata": {},
            "phase_order": 1,
        }
        channels[f"channel-{number % CHANNELS}"].append(message)
    file = folder / "data" / "final" / "Finance" / "synthetic_domain_channels_rolevariants_Finance.json"
    questions = folder / "questions" / "Finance" / "temporal.jsonl"
    for path, text in (
        (file, json.dumps(channels)),
        (questions, json.dumps({"id": "1", "question": "When?", "answer": "2024", "asking_user_id": "User_0"})),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def evermem(folder: Path, count: int) -> Path:
    days: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for number in range(count):
        time_ = when(number).replace("T", " ")
        group = days.setdefault(time_[:10], {}).setdefault(f"Group {number % 5}", [])
        group.append(
            {"speaker": f"Person {number * 7 % PEOPLE}", "time": time_, "dialogue": said(number), "message_index": number}
        )
    (folder / "01").mkdir(parents=True)
    (folder / "01" / "dialogue.json").write_text(json.dumps({"dialogues": days}), encoding="utf-8")
    (folder / "01" / "qa_01.json").write_text('{"qars": []}', encoding="utf-8")
    return folder


def plain(folder: Path, count: int) -> Path:
    path = folder / "chat.jsonl"
    rows = (
        {"speaker": f"u{n * 7 % PEOPLE}", "label": f"Person {n * 7 % PEOPLE}", "text": said(n), "time": when(n)}
        for n in range(count)
    )
    return written(path, (json.dumps(row) for row in rows))


def whatsapp(folder: Path, count: int) -> Path:
    def lines() -> Iterator[str]:
        for number in range(count):
            year, month, day = when(number)[:10].split("-")
            yield f"{day}.{month}.{year}, {when(number)[11:16]} - Person {number * 7 % PEOPLE}: {said(number)}"

    return written(folder / "chat.txt", lines())


def discord(folder: Path, count: int) -> Path:
    head = '{"guild": {"id": "1", "name": "g"}, "channel": {"id": "2", "name": "c"}, "messages": ['

    def lines() -> Iterator[str]:
        yield head
        for number in range(count):
            author = {"id": str(number * 7 % PEOPLE), "name": f"Person {number * 7 % PEOPLE}", "isBot": False}
            message = {
                "id": str(number),
                "type": "Default",
                "timestamp": when(number) + "+00:00",
                "content": said(number),
                "author": author,
            }
            yield json.dumps(message) + ("," if number + 1 < count else "")
        yield f'], "messageCount": {count}}}'

    return written(folder / "channel.json", lines())


def slack(folder: Path, count: int) -> Path:
    users = [{"id": f"U{number}", "name": f"person{number}"} for number in range(PEOPLE)]
    (folder / "general").mkdir(parents=True)
    (folder / "users.json").write_text(json.dumps(users), encoding="utf-8")
    days: dict[str, list[dict[str, str]]] = {}
    for number in range(count):
        ts = f"{1_704_067_200 + number * 180}.{number:06d}"
        row = {"type": "message", "user": f"U{number * 7 % PEOPLE}", "text": f"<@U1> {said(number)}", "ts": ts}
        days.setdefault(f"{number // 480:05d}", []).append(row)
    for day, rows in days.items():
        (folder / "general" / f"{day}.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


MAKERS: dict[str, Callable[[Path, int], Path]] = {
    "groupmem": groupmem,
    "evermem": evermem,
    "plain": plain,
    "whatsapp": whatsapp,
    "discord": discord,
    "slack": slack,
}


def written(path: Path, lines: Iterator[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as handle:
        handle.writelines(f"{line}\n" for line in lines)
    return path


def peak() -> int:
    """Peak resident size of this process in bytes. Not getrusage's: that one is inherited from the parent."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))


def read(name: str, path: Path, answer: Connection) -> None:
    before, wall, cpu = peak(), time.perf_counter(), time.process_time()
    made = import_chat(name, path)
    spent = {"seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall, "bytes": peak() - before}
    answer.send({**spent, "messages": made.messages})


def measured(name: str, path: Path) -> dict[str, float]:
    """One reading in a fresh process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    worker = context.Process(target=read, args=(name, path, there))
    worker.start()
    there.close()
    found: dict[str, float] = here.recv()
    worker.join()
    return found


def growth(name: str) -> dict[str, Any]:
    """Cost per message at both sizes, and their ratio."""
    sizes = {}
    for count in (SMALL, LARGE):
        with tempfile.TemporaryDirectory() as folder:
            found = measured(name, MAKERS[name](Path(folder) / "chat", count))
        assert found["messages"] == count, (name, found)
        sizes[count] = found
    per = {key: {count: one[key] / count for count, one in sizes.items()} for key in ("seconds", "bytes")}
    return {
        "cpu_seconds_120k": round(sizes[LARGE]["seconds"], 2),
        "cpu_microseconds_a_message": {str(count): round(1e6 * cost, 1) for count, cost in per["seconds"].items()},
        "bytes_a_message": {str(count): round(cost) for count, cost in per["bytes"].items()},
        "time_ratio": round(per["seconds"][LARGE] / per["seconds"][SMALL], 2),
        "memory_ratio": round(per["bytes"][LARGE] / per["bytes"][SMALL], 2),
    }


def main() -> None:
    formats = {name: growth(name) for name in MAKERS}
    result: dict[str, Any] = {"messages": [SMALL, LARGE], "formats": formats}
    lines = [
        "One run a size. A ratio of about 1 is linear cost. Times are of the CPU; memory is what",
        "reading adds to the process's peak, the finished network included.",
        "",
        "| format | CPU seconds for 120,000 | bytes a message, 12k / 120k | time ratio | memory ratio |",
        "|---|---|---|---|---|",
    ]
    for name, one in formats.items():
        small, large = one["bytes_a_message"].values()
        lines.append(
            f"| {name} | {one['cpu_seconds_120k']} | {small} / {large} | {one['time_ratio']} | {one['memory_ratio']} |"
        )
    if len(sys.argv) > 1:
        runs = [measured("locomo", Path(sys.argv[1])) for _ in range(5)]
        walls = sorted(one["wall_seconds"] for one in runs)
        result["locomo"] = {
            "messages": runs[0]["messages"],
            "cpu_seconds": [round(one["seconds"], 3) for one in runs],
            "wall_seconds": [round(one["wall_seconds"], 3) for one in runs],
        }
        cpu = sorted(one["seconds"] for one in runs)[2]
        lines += [
            "",
            f"LoCoMo, the whole file ({runs[0]['messages']} messages), five runs: {cpu:.2f} s of CPU (median); on the clock "
            f"{walls[2]:.2f} s (median), {walls[-1]:.2f} s at worst.",
        ]
    title = "Reading data: cost per message at 12,000 and 120,000 messages"
    write_result("data_speed", title, result, "\n".join(lines), "python -m benchmarks.data_speed [PATH OF locomo10.json]")


if __name__ == "__main__":
    main()
