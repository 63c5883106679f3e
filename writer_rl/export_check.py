"""Proof that an exported folder is what the checkpoint was: loaded in fresh processes, compared, and tried on a real segment.

python -m writer_rl.export_check FOLDER      # what the parent runs for transformers; prints one JSON line
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from data.network import DataError
from rollout.engines.base import Completion, SamplingParams
from rollout.llm.client import run
from rollout.llm.errors import MissingReply
from rollout.writer.prompt import WriterPrompt
from rollout.writer.trajectory import Write
from writer_rl import contract, probe, vllm_server
from writer_rl.contract import Contract, ContractMismatch, ProbeTerms
from writer_rl.hashes import weights_hash
from writer_rl.parity import BOUNDS
from writer_rl.policy import load_policy
from writer_rl.served import Served
from writer_rl.serving import reading_of

NEW_TOKENS = 512  # of the real segment: enough for any, and a bound on a model that does not stop


class CheckFailed(DataError):
    """An export that does not say what its checkpoint said."""


@dataclass(frozen=True)
class Found:
    """What one engine gave. `largest` and `mean` are differences of log-probabilities over the fixed chat (vLLM: the largest
    alone), `bound` what is allowed. `greedy` of `of` tokens are the checkpoint's; `gap` is by how much the checkpoint itself
    prefers its own token where they part. `segment` says what a whole output became."""

    engine: str
    bound: float
    largest: float
    mean: float | None
    greedy: int
    of: int
    gap: float
    segment: str
    problems: tuple[str, ...] = field(default=())

    def line(self) -> str:
        mean = "" if self.mean is None else f", mean {self.mean:.6f}"
        return (
            f"{self.engine}: log-probabilities differ by {self.largest:.6f} at most (allowed {self.bound}){mean}; "
            f"{self.greedy} of {self.of} greedy tokens equal; a real segment: {self.segment}"
        )


def check(folder: Path) -> list[Found]:
    """Transformers, and vLLM where it is installed, by the command that export prints. Raises CheckFailed with everything
    that is wrong; ContractMismatch where files were changed."""
    terms = contract.read(folder)
    if weights_hash(folder) != terms.hashes.weights:
        raise ContractMismatch(f"{folder}: the weights are not the exported ones; export again")
    found = [_fresh(folder)]
    if vllm_server.installed():
        found.append(_vllm(folder, terms))
    problems = [f"{one.engine}: {problem}" for one in found for problem in one.problems]
    if problems:
        raise CheckFailed(f"{folder}: {'; '.join(problems)}. Export again; if it stays so, the checkpoint cannot be served")
    return found


def _fresh(folder: Path) -> Found:
    """Transformers in a process that knows nothing of this one."""
    command = [sys.executable, "-m", "writer_rl.export_check", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 our own arguments, no shell
    if done.returncode:
        raise CheckFailed(f"{folder}: transformers cannot use it: {' '.join(done.stderr.split())[-800:]}")
    values = json.loads(done.stdout.splitlines()[-1])
    return Found(**values | {"problems": tuple(values["problems"])})


def by_transformers(folder: Path) -> Found:
    """Compare the folder, loaded in fp32, with what the checkpoint gave."""
    terms = contract.read(folder)
    policy = load_policy(folder)
    prompt = reading_of(folder, terms).prompt
    known = terms.probe
    values = probe.logprobs(policy, known.prompt_ids, known.greedy_ids)
    differences = (values.gather(-1, torch.tensor(known.top_ids)) - torch.tensor(known.top_logprobs)).abs()
    greedy = probe.generate(policy, known.prompt_ids, probe.GREEDY).token_ids
    whole = probe.generate(policy, known.prompt_ids, min(terms.limits.new_tokens, NEW_TOKENS))
    tied = policy.model.get_output_embeddings().weight is policy.model.get_input_embeddings().weight
    problems = [] if tied == policy.model.config.tie_word_embeddings else ["the head is not tied as its config says"]
    mean = float(differences.mean())
    return _found("transformers", terms, prompt, greedy, whole, float(differences.max()), mean, problems)


def _vllm(folder: Path, terms: Contract) -> Found:
    """Start the server by its own command; connecting proves its log-probabilities."""
    with tempfile.TemporaryDirectory() as made, vllm_server.serving(folder, terms, log := Path(made, "server.log")) as url:
        served = Served(url, folder)
        try:
            return run(by_vllm(served, folder, terms))
        except MissingReply as missing:
            raise CheckFailed(f"{folder}: vLLM does not answer: {missing}; {vllm_server.end_of(log)}") from missing
        finally:
            served.close()


async def by_vllm(served: Served, folder: Path, terms: Contract) -> Found:
    """The same of a running server."""
    largest = await served.difference(terms)

    async def continued(tokens: int) -> Completion:
        params = SamplingParams(temperature=0.0, top_p=1.0, max_new_tokens=tokens)
        return await served.complete(terms.probe.prompt_ids, params, 0)

    greedy = (await continued(probe.GREEDY)).token_ids
    whole = await continued(min(terms.limits.new_tokens, NEW_TOKENS))
    return _found("vllm", terms, reading_of(folder, terms).prompt, greedy, whole, largest, None, [])


def _found(
    engine: str,
    terms: Contract,
    prompt: WriterPrompt,
    greedy: Sequence[int],
    whole: Completion,
    largest: float,
    mean: float | None,
    problems: list[str],
) -> Found:
    bound = BOUNDS[getattr(torch, terms.dtype)]
    same, gap = parting(terms.probe, greedy)
    if not largest <= bound:
        problems.append(f"log-probabilities of a fixed text differ by {largest:.4f} from the checkpoint's (allowed {bound})")
    if not gap <= 2 * bound:
        problems.append(f"the greedy output parts from the checkpoint's at token {same}, where that was sure by {gap:.4f}")
    write = probe.Probe.of(prompt, terms.limits.head_tokens).write(whole)
    of = len(terms.probe.greedy_ids)
    return Found(engine, bound, largest, mean, same, of, gap, became(write), tuple(problems))


def parting(known: ProbeTerms, greedy: Sequence[int]) -> tuple[int, float]:
    """How many tokens are the checkpoint's, and by how much it preferred its own at the first that is not: two values that are
    nearly equal may change places by rounding. Infinite where the token is none of its best."""
    for place, (own, here) in enumerate(zip(known.greedy_ids, greedy, strict=False)):
        if own != here:
            values = dict(zip(known.top_ids[place], known.top_logprobs[place], strict=True))
            return place, values[own] - values[here] if here in values else float("inf")
    return min(len(known.greedy_ids), len(greedy)), 0.0 if len(known.greedy_ids) == len(greedy) else float("inf")


def became(write: Write) -> str:
    """What a whole output of the Writer became, in a few words."""
    tried = len(write.report.outcomes)
    length = f"{len(write.completion.token_ids)} tokens ({write.completion.finish_reason})"
    return f"{length}, {write.parsed.status.value} JSON, {write.report.valid} of {tried} actions valid"


if __name__ == "__main__":
    print(json.dumps(asdict(by_transformers(Path(sys.argv[1])))))
