"""Tokens and calls by stage, measured: the shape of Table 9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from writer_rl.evaluation.accuracy import questions_of, systems
from writer_rl.evaluation.rows import Row

JUDGING = ("judge", "score")  # what an evaluation costs, not what a system costs


@dataclass
class Stage:
    """Calls of one stage with their tokens and seconds; `cached` of them were served without asking a model again. Tokens
    are what the calls hold, whoever paid."""

    calls: int = 0
    cached: int = 0
    prompt: int = 0
    completion: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Usage:
    """What one system used, seeds and all. `ingest` is the Writer's, `stages` those of the questions."""

    questions: int
    ingest: Stage
    stages: dict[str, Stage] = field(default_factory=dict)

    @property
    def asked(self) -> Stage:
        """All query stages but those that judge."""
        made = Stage()
        for name, one in self.stages.items():
            if name not in JUDGING:
                made.calls += one.calls
                made.prompt += one.prompt
                made.completion += one.completion
        return made

    @property
    def total(self) -> int:
        asked = self.asked
        return self.ingest.prompt + self.ingest.completion + asked.prompt + asked.completion


def usage(rows: Sequence[Row], label: str) -> Usage:
    """From rows alone. An arm (ASK, an ablation) has the ingest of the Writer whose memories it shares."""
    asked = questions_of(rows, label)
    system = asked[0]["system"] if asked else label
    ingest = Stage()
    for row in rows:
        if row["row"] == "memory" and row["system"] == system and row["writer_calls"]:
            ingest.calls += row["writer_calls"]
            ingest.prompt += row["prompt_tokens"]
            ingest.completion += row["tokens"]
    stages: dict[str, Stage] = {}
    for row in asked:
        for call in row["calls"]:
            one = stages.setdefault(call["role"], Stage())
            one.calls += 1
            one.cached += call["cached"]
            one.prompt += call["prompt_tokens"]
            one.completion += call["completion_tokens"]
            one.seconds += call["seconds"]
    return Usage(len(asked), ingest, stages)


def usage_table(rows: Sequence[Row]) -> str:
    """One line a system, as in Table 9: writing, asking (without judging), and tokens a question."""
    lines = [
        "| System | Writer calls | Ingest in | Ingest out | QA input | Answer out | Total | Avg./question |",
        "|---" * 8 + "|",
    ]
    for label in systems(rows):
        one = usage(rows, label)
        ingest, asked = one.ingest, one.asked
        numbers = [ingest.calls, ingest.prompt, ingest.completion, asked.prompt, asked.completion, one.total]
        average = one.total / one.questions if one.questions else 0.0
        lines.append(f"| {label} | " + " | ".join(f"{number:,}" for number in numbers) + f" | {average:,.2f} |")
    return "\n".join(lines)


def stage_table(rows: Sequence[Row]) -> str:
    """Every stage of every system: calls, those served from the cache, tokens, seconds waited in the mean."""
    lines = ["| System | Stage | Calls | Cached | Tokens in | Tokens out | Seconds a call |", "|---" * 7 + "|"]
    for label in systems(rows):
        for name, one in sorted(usage(rows, label).stages.items()):
            numbers = [one.calls, one.cached, one.prompt, one.completion]
            mean = one.seconds / (one.calls - one.cached) if one.calls > one.cached else 0.0
            lines.append(f"| {label} | {name} | " + " | ".join(f"{number:,}" for number in numbers) + f" | {mean:.3f} |")
    return "\n".join(lines)
