"""Free running and the prompt's order, computed from the traces of a run: no model is needed."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from rollout.engines.base import Completion, Request
from writer_rl.logbook import read_lines

TRACES = "checkpoints/*/trace/grpo/round-*.jsonl"
BLOCK = 16  # tokens a block of a GPU's prefix cache
Lengths = Sequence[Sequence[int]]  # [G][T], tokens of each completion of one network's group


def barrier_ratio(lengths: Lengths) -> float:
    """Steps with a barrier at each position over steps without: sum of the longest at t / the longest trajectory."""
    with_barrier = sum(max(column) for column in zip(*lengths, strict=True))
    return with_barrier / max(map(sum, lengths))


class Clocked(asyncio.SelectorEventLoop):
    """An event loop whose time is virtual: where it would wait, the clock moves."""

    def __init__(self) -> None:
        selector = selectors.DefaultSelector()
        super().__init__(selector)
        self._now, self._select = 0.0, selector.select
        selector.select = self._skip  # type: ignore[method-assign]

    def time(self) -> float:
        return self._now

    def _skip(self, timeout: float | None = None) -> Any:
        if timeout:
            self._now += timeout
        return self._select(0)


class ClockEngine:
    """Takes a second a token, each trajectory by itself."""

    def __init__(self, lengths: Lengths) -> None:
        self._lengths = lengths

    async def generate(self, request: Request) -> Completion:
        count = self._lengths[request.key.g][request.key.t]
        await asyncio.sleep(count)
        return Completion((5,) * count, (0.0,) * count, "length", 0)

    async def sync(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        return None


def heads_first(prompt: str) -> str:
    """The compact prompt with the memory before the messages: what G trajectories share then ends where they differ."""
    before, _, turn = prompt.partition("<|im_start|>user\n")
    user, _, after = turn.partition("<|im_end|>")
    roster, _, rest = user.partition("\n")
    messages, _, heads = rest.partition("\n=")
    return f"{before}<|im_start|>user\n{roster}{heads}\n=\n{messages}<|im_end|>{after}"


def hit_rate(prompts: Iterable[Sequence[int]], block: int = BLOCK) -> float:
    """Share of prompt tokens that a prefix cache of whole blocks had, asked in this order, nothing being thrown out."""
    seen: set[tuple[int, ...]] = set()
    hits = total = 0
    for ids in prompts:
        total += len(ids)
        blocks = [tuple(ids[: end + block]) for end in range(0, len(ids) - block, block)]  # the last token is always read
        hits += block * next((at for at, one in enumerate(blocks) if one not in seen), len(blocks))
        seen.update(tuple(ids[: end + block]) for end in range(0, len(ids) - block + 1, block))
    return hits / total


def traced() -> tuple[dict[str, Lengths], dict[str, list[str]], str]:
    """Lengths and prompts of every group of the first run that has left traces, and the run's name."""
    files = sorted(Path().glob(TRACES))
    if not files:
        raise SystemExit("no trace of a GRPO run under checkpoints/: run one first (writer-rl run recipes/quickstart.yaml)")
    run = files[0].parts[1]
    lengths: dict[str, Lengths] = {}
    prompts: dict[str, list[str]] = {}
    for file in (one for one in files if one.parts[1] == run):
        rows = read_lines(file)
        for network in dict.fromkeys(row["network"] for row in rows):
            group = [row for row in rows if row["network"] == network]
            size, positions = 1 + max(row["g"] for row in group), 1 + max(row["t"] for row in group)
            at = {(row["g"], row["t"]): row for row in group}
            name = f"{file.stem} {network}"
            lengths[name] = [[at[g, t]["completion_tokens"] for t in range(positions)] for g in range(size)]
            first = [at[0, t]["prompt"] for t in range(positions)]
            prompts[name] = [
                first[t][: at[g, t]["prompt_shared"]] + at[g, t]["prompt"] for t in range(positions) for g in range(size)
            ]
    return lengths, prompts, run
