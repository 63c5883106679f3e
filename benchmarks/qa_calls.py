"""How many model calls the terminal QA of one group costs: plain, shared, and with equal work done once.

    python benchmarks/qa_calls.py

A group of 8 trajectories of one synthetic network, four questions, every role played through the real client and prompts by
a deterministic stand-in for a model (its reply is a function of the request). Writes docs/results/qa_calls.json and .md.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from data.gym.config import GymConfig
from data.gym.generator import generate
from data.memory.state import State
from data.segments import segments
from data.teacher import replay
from rollout.llm.cache import Reply
from rollout.llm.client import Client, ClientConfig
from rollout.llm.offline import offline_roles
from rollout.llm.provider import Answered, ChatCall
from rollout.llm.roles import build_roles
from rollout.memory.embedder import load_embedder
from rollout.query.config import PipelineConfig, RoleNames
from rollout.query.pipeline import Pipeline
from rollout.query.qa import qa_gains, selected_questions
from rollout.query.view import MemoryView

G, Q = 8, 4
RECALL = 40
MODEL = "litellm:stand-in/deterministic"
RESULTS = Path(__file__).parent.parent / "docs" / "results"
Verdicts = list[list[bool]]  # [questions][1 + G], the baseline arm first


async def stand_in(call: ChatCall, deadline: float) -> Answered:
    """Replies like a model at temperature 0: by the request alone."""
    user = call.messages[-1][1]
    number = int(hashlib.sha256(f"{call.stage}\0{user}".encode()).hexdigest()[:8], 16)
    ids = re.findall(r"^\[(v\d+)", user, re.MULTILINE)
    replies: dict[str, object] = {
        "project": {"issue": user.splitlines()[-1].strip('"'), "rows": ["ALL", "GROUP"], "tense": ["head", "full"][number % 2]},
        "select": {"order": ids[::-1], "anchors": ids[:1] if len(ids) <= RECALL else []},  # one round of Expand
        "answer": f"answer {number % 5}",
        "judge": {"reason": "", "verdict": ["correct", "incorrect"][number % 2]},
    }
    reply = replies[call.stage]
    return Answered(Reply(reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)), "stop", cost_usd=0.0)


async def counted(schedule: Callable[[Pipeline], Awaitable[Verdicts]]) -> tuple[dict[str, int], Verdicts]:
    """Calls by role that a schedule asks of the client (whose cache is not counted in its favour), and its verdicts."""
    client = Client(ClientConfig(), stand_in)
    names = RoleNames(project=MODEL, select=MODEL, answer=MODEL, judge=MODEL)
    pipeline = Pipeline(PipelineConfig(roles=names), load_embedder("hash"), build_roles(names, offline_roles(), client))
    verdicts = await schedule(pipeline)
    return {row["stage"]: row["calls"] for row in client.accounting.table()}, verdicts


def group() -> tuple[MemoryView, list, list[State]]:  # type: ignore[type-arg]
    """One network and the final states of 8 trajectories: what the teacher knows after 5 to 12 positions, two of them
    twice, as happens when a policy repeats itself."""
    config = GymConfig(segments=(12, 12), messages=(8, 8), questions=(6, 8))
    network, teacher = generate(config, "test", 0, 0)
    states = replay(teacher, segments(network))
    return MemoryView.of(network), selected_questions(network.questions), [states[t] for t in (5, 6, 7, 8, 9, 11, 11, 7)]


async def main() -> None:
    view, questions, states = group()
    assert len(questions) == Q and len(states) == G

    async def plain(pipeline: Pipeline) -> Verdicts:
        """Every trajectory asks every question in both arms from the start."""
        result: Verdicts = []
        for question in questions:
            arms = []
            for state in states:
                for arm in (State(), state):
                    asked = await pipeline.finish(await pipeline.share(view, question), arm)
                    arms.append(asked.verdict.correct)
            assert len(set(arms[::2])) == 1  # the baseline arm knows no trajectory
            result.append([arms[0], *arms[1::2]])
        return result

    async def shared(pipeline: Pipeline) -> Verdicts:
        """Project and Select once a question; the baseline and each trajectory answered and judged."""
        result: Verdicts = []
        for question in questions:
            common = await pipeline.share(view, question)
            result.append([(await pipeline.finish(common, state)).verdict.correct for state in (State(), *states)])
        return result

    async def deduplicated(pipeline: Pipeline) -> Verdicts:
        """What training runs."""
        found = await qa_gains(pipeline, view, questions, states)
        return [[found.baseline[q].verdict.correct, *(arm[q].verdict.correct for arm in found.arms)] for q in range(Q)]

    plain_calls, plain_verdicts = await counted(plain)
    shared_calls, shared_verdicts = await counted(shared)
    dedup_calls, dedup_verdicts = await counted(deduplicated)
    selects = shared_calls["select"] // Q
    bound = Q * (1 + selects) + 2 * Q + 2 * G * Q
    result = {
        "group": G,
        "questions": Q,
        "selects_a_question": selects,
        "formula": f"q*(project+selects) + 2q + 2Gq = {Q}*(1+{selects}) + 2*{Q} + 2*{G}*{Q} = {bound}",
        "bound": bound,
        "calls": sum(shared_calls.values()),
        "calls_after_dedup": sum(dedup_calls.values()),
        "calls_plain": sum(plain_calls.values()),
        "verdicts_equal": plain_verdicts == shared_verdicts == dedup_verdicts,
        "by_role": {"plain": plain_calls, "shared": shared_calls, "deduplicated": dedup_calls},
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "qa_calls.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (RESULTS / "qa_calls.md").write_text(page(result), encoding="utf-8")
    print(page(result))


def page(result: dict) -> str:  # type: ignore[type-arg]
    """The numbers for people."""
    roles = ("project", "select", "answer", "judge")
    lines = [
        "# Model calls of one group's terminal QA",
        "",
        "Written by `python benchmarks/qa_calls.py`: 8 trajectories, 4 questions, one round of Expand, a",
        "deterministic stand-in for the model behind the real client and prompts. The client's cache is not counted: these",
        "are calls asked for.",
        "",
        "| schedule | project | select | answer | judge | calls |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    totals = {"plain": "calls_plain", "shared": "calls", "deduplicated": "calls_after_dedup"}
    for name, total in totals.items():
        cells = " | ".join(str(result["by_role"][name].get(role, 0)) for role in roles)
        lines.append(f"| {name} | {cells} | {result[total]} |")
    equal = "all equal" if result["verdicts_equal"] else "NOT equal"
    lines += ["", f"Bound: {result['formula']}. Verdicts of the three schedules: {equal}.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    asyncio.run(main())
