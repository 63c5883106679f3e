"""A fixed chat that every exported Writer is tried on: the same prompt, tokens and log-probabilities, wherever it is served.

The first segment is written by a fixed text, valid and invalid actions mixed, so that the second one's prompt holds a memory:
roster, messages, heads, parser and executor all show in what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from data.memory.executor import Report
from data.network import Member, Message, Network, Roster, Session
from data.segments import Segment, segments
from rollout.engines.base import Completion, Request, RequestKey, SamplingParams
from rollout.engines.hf import HFEngine
from rollout.memory.embedder import HashEmbedder
from rollout.writer.environment import Environment
from rollout.writer.prompt import WriterPrompt
from rollout.writer.trajectory import Write
from writer_rl.policy import Policy

GREEDY = 24  # tokens of the greedy continuation
TOP = 5  # log-probabilities kept at each of them
KEY = RequestKey(-1, "probe", 0, 0, 1)

FIRST = (
    '{"actions": ['
    '{"action": "ADD", "content": "Mara works at the harbour office.", "owner": "Mara", "source": "Mara", '
    '"layer": "per_speaker_core", "utype": "fact"}, '
    '{"action": "ADD", "content": "Jon finds 王芳 impatient.", "owner": "王芳", "source": "jon ", '
    '"layer": "per_speaker_profile", "utype": "observation"}, '
    '{"action": "ADD", "content": "The group meets on Thursdays.", "owner": "GROUP", "source": "Mara", '
    '"layer": "group_interaction", "utype": "decision"}, '
    '{"action": "ADD", "content": "Zoe brings cake.", "owner": "Zoe", "source": "Mara", '
    '"layer": "per_speaker_core", "utype": "fact"}, '
    '{"action": "UPDATE", "entry_id": "d3", "content": "The group meets on Fridays at six."}, '
    '{"action": "UPDATE", "entry_id": "d9", "content": "Nobody knows."}, '
    '{"action": "NOOP"}]}'
)


def network() -> Network:
    """Three people, two sessions, another script than Latin among the names and messages."""
    roster = Roster((Member("u1", "Mara"), Member("u2", "Jon"), Member("u3", "王芳")))
    first = (
        Message("m1", "u1", "The harbour office keeps me until six, so Thursday works.", "2026-03-02T18:00:00"),
        Message("m2", "u2", "王芳 cannot wait again, I suppose.", "2026-03-02T18:01:00"),
        Message("m3", "u3", "不如改到星期五六点?", "2026-03-02T18:03:00"),
    )
    second = (
        Message("m4", "u1", "News: I resigned, my last day is 3 May.", "2026-03-09T09:00:00"),
        Message("m5", "u3", 'Jon said "never again", but he\'ll drive.', "2026-03-09T09:02:00"),
        Message("m6", "u2", "ok", "2026-03-09T09:05:00"),
    )
    return Network("probe", roster, (Session("s1", first, "2026-03-02"), Session("s2", second, "2026-03-09")), ())


@dataclass(frozen=True)
class Probe:
    """The second segment as a Writer meets it. `fates` says what became of each action of the first."""

    environment: Environment
    fates: tuple[str, ...]

    @classmethod
    def of(cls, prompt: WriterPrompt, head_tokens: int) -> Probe:
        """Walk the first segment with the code that is installed."""
        embedder = HashEmbedder()
        environment = Environment(segments(network()), prompt, _cite_first, embedder, head_tokens, salvage=True)
        ids = prompt.target_ids(FIRST)
        write = environment.step(Completion(ids, (0.0,) * len(ids), "stop", 0))
        return cls(environment, _fates(write.report))

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        return self.environment.observe()

    def write(self, completion: Completion) -> Write:
        """Execute a completion at the second segment; the probe stays as it was."""
        return self.environment.clone().step(completion)


@dataclass(frozen=True)
class Measured:
    """A model's greedy continuation of a prompt [K] and its best log-probabilities there [K, TOP]."""

    greedy_ids: tuple[int, ...]
    top_ids: tuple[tuple[int, ...], ...]
    top_logprobs: tuple[tuple[float, ...], ...]


def measure(policy: Policy, prompt_ids: tuple[int, ...]) -> Measured:
    """Greedy tokens by the engine that training uses, and the log-probabilities by one forward pass over them."""
    greedy = generate(policy, prompt_ids, GREEDY).token_ids
    values, ids = logprobs(policy, prompt_ids, greedy).topk(min(TOP, policy.model.config.vocab_size), dim=-1)
    rounded = tuple(tuple(round(value, 6) for value in row) for row in values.tolist())
    return Measured(greedy, tuple(map(tuple, ids.tolist())), rounded)


def generate(policy: Policy, prompt_ids: tuple[int, ...], new_tokens: int) -> Completion:
    """Greedy, by the engine that training uses."""
    request = Request(prompt_ids, 0, SamplingParams(temperature=0.0, top_p=1.0, max_new_tokens=new_tokens), KEY)
    return HFEngine(policy.model, policy.turn_end_id).complete([request])[0]


def logprobs(policy: Policy, prompt_ids: Sequence[int], completion_ids: Sequence[int]) -> torch.Tensor:
    """fp32 log-probabilities [K, V] of every token at each position of the completion."""
    ids = torch.tensor([[*prompt_ids, *completion_ids]], device=policy.device)
    model: Any = policy.model
    with torch.inference_mode():
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=len(completion_ids) + 1).logits
    return logits[0, :-1].float().log_softmax(-1).cpu()


def _cite_first(contents: Sequence[str], segment: Segment) -> list[tuple[str, ...]]:
    return [(segment.verbatim[0].entry_id,)] * len(contents)


def _fates(report: Report) -> tuple[str, ...]:
    return tuple(f"{one.fate.value}:{one.rejection.reason.value if one.rejection else ''}" for one in report.outcomes)
