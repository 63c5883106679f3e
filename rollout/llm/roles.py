"""The pipeline's roles played by an LLM: Project, Select, Ask, Answer, Judge, and the SocialMem partial score."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

from rollout.llm.client import Client
from rollout.llm.errors import MissingKind, MissingReply, SetupError, Unparsable
from rollout.llm.provider import ChatCall
from rollout.llm.reply import field, final_text, json_object, names, verdict
from rollout.query.config import RoleNames
from rollout.query.evidence import Evidence, Tense, one_line, quoted
from rollout.query.roles import (
    Call,
    Candidate,
    Gold,
    Missing,
    Projected,
    Query,
    Reply,
    Roles,
    Selected,
    Sufficiency,
    Verdict,
    VerdictKind,
)

T = TypeVar("T")
MAX_ANCHORS = 2
REASONS = {MissingKind.UNPARSABLE: "unreadable"}  # the pipeline's word; the others are called the same


def _object(properties: dict[str, Any]) -> str:
    """A closed JSON schema with every property required, as canonical JSON."""
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return json.dumps(schema, sort_keys=True, ensure_ascii=False)


TEXT, TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
SCHEMAS = {
    "project": _object(
        {"issue": TEXT, "rows": TEXTS, "tense": {"enum": ["head", "full"]}, "source": {"type": ["string", "null"]}}
    ),
    "select": _object({"order": TEXTS, "anchors": TEXTS}),
    "ask": _object({"enough": {"type": "boolean"}, "term": TEXT}),
    "answer": "",
    "judge": _object({"reason": TEXT, "verdict": {"enum": ["correct", "incorrect"]}}),
    "score": _object({"reason": TEXT, "score": {"type": "number"}}),
}
MAX_TOKENS = {"project": 512, "select": 1024, "ask": 256, "answer": 1024, "judge": 512, "score": 512}


def prompt_text(role: str) -> str:
    """The role's instruction as it stands in its file."""
    return files("rollout.query.prompts").joinpath(f"{role}.txt").read_text(encoding="utf-8")


@dataclass(frozen=True)
class LLM:
    """One model behind one client. `api_base` is the URL of an OpenAI-compatible server of one's own."""

    client: Client
    model: str
    api_base: str | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        return f"litellm:{self.model}"

    def fingerprint(self, role: str) -> str:
        """Hash of everything that shapes the role's replies beside the model's name."""
        sources = [files("rollout.llm").joinpath(name).read_text(encoding="utf-8") for name in ("roles.py", "reply.py")]
        parts = [prompt_text(role), SCHEMAS[role], str(MAX_TOKENS[role]), str(self.seed), self.api_base or "", *sources]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    async def reply(self, role: str, user: str, read: Callable[[str], T]) -> Reply[T]:
        """Ask the role's question about `user`; a missing reply is a value."""
        call = ChatCall(
            stage=role,
            model=self.model,
            messages=(("system", prompt_text(role)), ("user", user)),
            max_tokens=MAX_TOKENS[role],
            seed=self.seed,
            schema=SCHEMAS[role],
            api_base=self.api_base,
        )
        begun = time.perf_counter()
        try:
            got = await self.client.exchange(call, read)
        except MissingReply as missing:
            reason = REASONS.get(missing.kind, missing.kind.value)
            return Reply(Missing(reason, missing.detail), Call(role, self.name, seconds=time.perf_counter() - begun))
        seconds = time.perf_counter() - begun
        used = Call(role, self.name, got.cached, got.prompt_tokens, got.completion_tokens, got.attempts, seconds)
        return Reply(got.value, used)


@dataclass(frozen=True)
class _LLMRole:
    llm: LLM
    role = ""

    @property
    def name(self) -> str:
        return self.llm.name

    @property
    def fingerprint(self) -> str:
        return self.llm.fingerprint(self.role)


class LLMProject(_LLMRole):
    role = "project"

    async def project(self, query: Query, names: Sequence[str]) -> Reply[Projected]:
        members = "\n".join(f"- {quoted(name)}" for name in names)
        return await self.llm.reply(self.role, f"MEMBERS\n{members}\n\n{question_text(query)}", _read_projected)


class LLMSelect(_LLMRole):
    role = "select"

    async def select(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Selected]:
        user = f"{question_text(query)}\n\nCANDIDATES\n{_messages(candidates)}"
        return await self.llm.reply(self.role, user, _read_selected)


class LLMAsk(_LLMRole):
    role = "ask"

    async def ask(self, query: Query, candidates: Sequence[Candidate]) -> Reply[Sufficiency]:
        user = f"{question_text(query)}\n\nMESSAGES\n{_messages(candidates) or '(none)'}"
        return await self.llm.reply(self.role, user, _read_sufficiency)


class LLMAnswer(_LLMRole):
    role = "answer"

    async def answer(self, query: Query, evidence: Evidence) -> Reply[str]:
        return await self.llm.reply(self.role, f"{evidence.text}\n\n{question_text(query)}", _read_text)


class LLMJudge(_LLMRole):
    """Binary judging. A reply without a readable verdict is `unparsed`; no reply at all is Missing. Neither is scored."""

    role = "judge"

    async def judge(self, query: Query, gold: Gold, answer: str) -> Reply[Verdict]:
        reply = await self.llm.reply(self.role, f"{question_text(query)}\n\n{_compared(gold, answer)}", _read_verdict)
        if isinstance(reply.value, Missing) and reply.value.reason == "unreadable":
            return Reply(Verdict(VerdictKind.UNPARSED, reply.value.detail), reply.call)
        return reply


class LLMScore(_LLMRole):
    """SocialMem's partial score for MeanQ and MeanN: 0 to 1 by the rubric of the question's kind (Q1 to Q9).

    `foil` is the wrong speaker that a Q4 question sets a trap with. Multiple choice is scored by its letter elsewhere.
    """

    role = "score"

    async def score(self, query: Query, gold: Gold, answer: str, kind: str, foil: str = "") -> Reply[float]:
        trap = f"\nFOIL\n{quoted(foil)}" if foil else ""
        user = f"KIND {one_line(kind)}\n{question_text(query)}\n\n{_compared(gold, answer)}{trap}"
        return await self.llm.reply(self.role, user, _read_score)


def build_roles(chosen: RoleNames, offline: Roles, client: Client | None = None, api_base: str | None = None) -> Roles:
    """The roles as a recipe names them: `offline` or `litellm:MODEL` each. Errors: another name, or no client."""

    def llm(role: str, name: str) -> LLM | None:
        kind, _, model = name.partition(":")
        if name == "offline":
            return None
        if kind != "litellm" or not model:
            raise SetupError(f"role {role} is {name!r}; use offline or litellm:MODEL, e.g. litellm:openai/gpt-4o-mini")
        if client is None:
            raise SetupError(f"role {role} is {name!r}, which needs a client for model calls, and none was given")
        return LLM(client, model, api_base)

    project, select, ask = llm("project", chosen.project), llm("select", chosen.select), llm("ask", chosen.ask)
    answer, judge = llm("answer", chosen.answer), llm("judge", chosen.judge)
    return Roles(
        project=offline.project if project is None else LLMProject(project),
        select=offline.select if select is None else LLMSelect(select),
        ask=offline.ask if ask is None else LLMAsk(ask),
        answer=offline.answer if answer is None else LLMAnswer(answer),
        judge=offline.judge if judge is None else LLMJudge(judge),
    )


def question_text(query: Query) -> str:
    """The question as every role is shown it: text from outside stays inside its quotes."""
    asker = f"\nASKED BY {quoted(query.asker)}" if query.asker else ""
    options = "".join(f"\n{one_line(letter)}: {quoted(text)}" for letter, text in query.options)
    return f"QUESTION\n{quoted(query.text)}{asker}" + (f"\nOPTIONS{options}" if options else "")


def _compared(gold: Gold, answer: str) -> str:
    """Judge and Score see the final answer only: reasoning must not persuade (pitfall 37)."""
    reference = f"{gold.option}: {gold.answer}" if gold.option else gold.answer
    note = " (the conversation does not hold the answer)" if gold.abstain else ""
    return f"REFERENCE ANSWER{note}\n{quoted(reference)}\n\nANSWER\n{quoted(final_text(answer))}"


def _messages(candidates: Sequence[Candidate]) -> str:
    lines = []
    for record in (candidate.record for candidate in candidates):
        time = f" {one_line(record.ts)}" if record.ts else ""
        lines.append(f"[{record.entry_id}{time}] {one_line(record.owner)}: {quoted(record.content)}")
    return "\n".join(lines)


def _read_projected(text: str) -> Projected:
    reply = json_object(text)
    tense = field(reply, "tense", str)
    if tense not in set(Tense):
        raise Unparsable(f"tense is {tense!r}, not head or full")
    source = reply.get("source")
    if source is not None and not isinstance(source, str):
        raise Unparsable("'source' must be a name or null")
    return Projected(field(reply, "issue", str), names(reply, "rows"), Tense(tense), (source or "").strip() or None)


def _read_selected(text: str) -> Selected:
    reply = json_object(text)
    anchors = names(reply, "anchors") if "anchors" in reply else ()
    return Selected(names(reply, "order"), anchors[:MAX_ANCHORS])


def _read_sufficiency(text: str) -> Sufficiency:
    reply = json_object(text)
    enough = field(reply, "enough", bool)
    return Sufficiency(enough, "" if enough else one_line(field(reply, "term", str)))


def _read_text(text: str) -> str:
    answer = final_text(text)
    if not answer:
        raise Unparsable("nothing but reasoning in the reply")
    return answer


def _read_verdict(text: str) -> Verdict:
    kind = VerdictKind.CORRECT if verdict(text) else VerdictKind.INCORRECT
    try:
        reason = json_object(text).get("reason")
    except Unparsable:
        reason = ""
    return Verdict(kind, reason if isinstance(reason, str) else "")


def _read_score(text: str) -> float:
    score = float(field(json_object(text), "score", (int, float)))
    if not 0.0 <= score <= 1.0:
        raise Unparsable(f"score is {score}, not between 0 and 1")
    return score
