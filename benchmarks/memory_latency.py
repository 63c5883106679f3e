"""How the durable memory's cost grows: ingest without a Writer, view and ask with offline roles, at four sizes.

    python benchmarks/memory_latency.py

Writes docs/results/memory_latency.json and .md. The hash embedder (256 dimensions) and exact cosine: what is measured
is the store and the pipeline, not a language model. Ratios against the smallest size mean more than seconds.
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rollout.memory.incoming import Incoming
from writer_rl.memory import Memory

LEVELS = (100, 1_000, 10_000, 120_000)
ADDS, VIEWS, ASKS = 60, 20, 12
PEOPLE = 8
TOPICS = ("lake", "grill", "tickets", "budget", "release", "choir", "garden", "bus", "server", "lunch", "exam", "flat")
RESULTS = Path(__file__).parent.parent / "docs" / "results"


def message(number: int) -> Incoming:
    """Message `number` of one long chat: eight people, sessions of 50 messages, times a minute apart."""
    topic, other = TOPICS[number * 7 % len(TOPICS)], TOPICS[number * 5 % len(TOPICS)]
    day, minute = divmod(number, 1440)
    stamp = f"{2020 + day // 336:04d}-{1 + day // 28 % 12:02d}-{1 + day % 28:02d}T{minute // 60:02d}:{minute % 60:02d}:00+00:00"
    text = f"about the {topic} number {number}: I would rather talk of the {other} with member{number % PEOPLE} first"
    speaker = number * 3 % PEOPLE
    return Incoming(f"u{speaker}", text, f"member{speaker}", session=f"s{number // 50}", id=str(number), time=stamp)


def timed(count: int, work: Callable[[int], object], before: Callable[[int], object] = lambda index: None) -> dict[str, float]:
    """Median and 95th percentile of `count` calls in milliseconds of wall time, and the median of their CPU time. What
    `before` does ahead of each is not counted."""
    wall, cpu = [], []
    for index in range(count):
        before(index)
        start, used = time.perf_counter(), time.process_time()
        work(index)
        wall.append(1e3 * (time.perf_counter() - start))
        cpu.append(1e3 * (time.process_time() - used))
    p50, p95 = np.percentile(wall, [50, 95])
    return {"p50_ms": round(float(p50), 3), "p95_ms": round(float(p95), 3), "cpu_p50_ms": round(float(np.median(cpu)), 3)}


def measure(folder: Path, level: int) -> dict[str, object]:
    path = folder / f"{level}.sqlite"
    start = time.process_time()
    with Memory.open(path, embedder="hash") as memory:
        for first in range(0, level, 1_000):
            memory.add(message(number) for number in range(first, min(first + 1_000, level)))
        memory.flush()
        filled = time.process_time() - start
        start = time.process_time()
        memory.embed_all()
        embedded = time.process_time() - start
    start = time.process_time()
    with Memory.open(path, embedder="hash") as memory:
        memory.embed_all()
        opened = time.process_time() - start
        questions = [f"What does member{i % PEOPLE} say about the {TOPICS[i]}?" for i in range(ASKS)]
        memory.answer("warm up")
        ask = timed(ASKS, lambda i: memory.answer(questions[i]))
        ingest = timed(ADDS, lambda i: memory.add([message(level + i)]))
        seen = timed(VIEWS, lambda i: memory.embed_all(), before=lambda i: memory.add([message(level + ADDS + i)]))
        assert memory.embed_all() == level + ADDS + VIEWS
    return {
        "records": level,
        "bulk_ingest_cpu_ms_per_message": round(1e3 * filled / level, 4),
        "embed_cpu_ms_per_message": round(1e3 * embedded / level, 4),
        "open_cpu_ms": round(1e3 * opened, 1),
        "file_bytes_per_message": round(path.stat().st_size / level),
        "ingest": ingest,
        "view": seen,
        "ask": ask,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), LEVELS[0])  # warm up: imports, compiled queries
        (Path(folder) / f"{LEVELS[0]}.sqlite").unlink()
        levels = [measure(Path(folder), level) for level in LEVELS]
    base = levels[0]
    for row in levels:
        row["cpu_ratio_to_100"] = {
            name: round(row[name]["cpu_p50_ms"] / base[name]["cpu_p50_ms"], 2)  # type: ignore[index]
            for name in ("ingest", "view", "ask")
        }
        row["size_ratio"] = row["records"] // base["records"]  # type: ignore[operator]
    linear = all(row["cpu_ratio_to_100"][name] <= row["size_ratio"] for row in levels for name in row["cpu_ratio_to_100"])  # type: ignore
    result = {
        "embedder": "hash-256",
        "roles": "offline",
        "machine": f"{platform.machine()}, CPU, Python {platform.python_version()}",
        "linear_or_better": linear,
        "levels": levels,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "memory_latency.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (RESULTS / "memory_latency.md").write_text(table(result), encoding="utf-8")
    print(table(result))


def table(result: dict) -> str:  # type: ignore[type-arg]
    """The numbers for people."""
    lines = [
        "# Latency of the durable memory",
        "",
        "Written by `python benchmarks/memory_latency.py`. One store a size, one process, offline roles, hash embedder (256",
        "dimensions), exact cosine over all verbatim records. Milliseconds of wall time, p50 / p95;",
        "in brackets the median CPU time against the one at 100 records (the machine is shared: CPU time is steadier).",
        "ingest: one message added, no Writer. view: the newest content in memory after a message was added. ask: one",
        "question from Project to Answer. open: a new process opens the store and reads everything (CPU,",
        "as bulk ingest and embedding).",
        "",
        "| verbatim records | ingest | view | ask | open | bulk ingest, a message | embed, a message |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["levels"]:
        cells = [
            f"{row[name]['p50_ms']:.2f} / {row[name]['p95_ms']:.2f} ({row['cpu_ratio_to_100'][name]:g}x)"
            for name in ("ingest", "view", "ask")
        ]
        costs = (
            f"{row['open_cpu_ms']:.0f} | {row['bulk_ingest_cpu_ms_per_message']:.3f} | {row['embed_cpu_ms_per_message']:.3f}"
        )
        lines.append(f"| {row['records']:,} | {' | '.join(cells)} | {costs} |")
    lines += [
        "",
        f"Linear in the number of records or better: {'yes' if result['linear_or_better'] else 'no'}.",
        f"Measured on {result['machine']}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
