"""Weight sync with proof: after it, engine and trainer must give a fixed text the same log-probabilities (design section 7)."""

from __future__ import annotations

import asyncio

import torch

from data.network import DataError
from rollout.engines.base import Engine, Request, RequestKey, SamplingParams
from rollout.writer.prompt import WriterPrompt
from writer_rl.batches import TokenPair, batch_of
from writer_rl.logprobs import completion_logprobs
from writer_rl.policy import Policy

PROBE = "The quick brown fox jumps over the lazy dog, said Ana to Bob."
TOKENS = 12
BOUNDS = {torch.float32: 1e-3, torch.bfloat16: 0.35}  # largest difference of a token's log-probability


class StaleWeights(DataError):
    """The engine does not generate with the trainer's weights."""


def sync(engine: Engine, policy: Policy, prompt: WriterPrompt, version: int) -> float:
    """Bring the policy's weights to the engine and prove it; returns the largest difference found. Raises StaleWeights.

    An engine on the live model gets an empty iterable: there is nothing to copy, and the proof still holds it to account.
    """
    asyncio.run(engine.sync((), version))
    return check(engine, policy, prompt, version)


def check(engine: Engine, policy: Policy, prompt: WriterPrompt, version: int) -> float:
    """Largest difference between the engine's log-probabilities of its own greedy continuation and the trainer's."""
    ids = prompt.encode(PROBE)
    params = SamplingParams(temperature=0.0, top_p=1.0, max_new_tokens=TOKENS)
    completion = asyncio.run(engine.generate(Request(ids, 0, params, RequestKey(-1, "probe", 0, 0, version))))
    batch = batch_of([TokenPair(ids, completion.token_ids)], [0]).to(policy.device)
    with torch.no_grad():
        own = completion_logprobs(policy.model, batch)[0].cpu()
    worst = float((own - torch.tensor(completion.logprobs)).abs().max())
    dtype = torch.float32 if policy.device.type == "cpu" else torch.bfloat16
    if completion.weights_version != version or not worst <= BOUNDS[dtype]:
        raise StaleWeights(
            f"engine and trainer disagree by {worst:.4f} on a fixed text (allowed {BOUNDS[dtype]}; engine weights "
            f"{completion.weights_version}, trainer {version}): the engine's weights look stale, so the run stops before it "
            "samples from them"
        )
    return worst
