"""Weight sync with proof: after it the engine must hold the trainer's weights, and give a fixed text the same
log-probabilities (design section 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import torch
from accelerate import PartialState
from torch import Tensor

from data.network import DataError
from rollout.engines.base import Completion, Engine, Inspectable, Request, RequestKey, SamplingParams
from rollout.engines.hf import HFEngine
from rollout.engines.weights import WeightSum, weight_sum
from rollout.writer.prompt import WriterPrompt
from writer_rl import lora
from writer_rl.batches import TokenPair, batch_of
from writer_rl.logprobs import completion_logprobs
from writer_rl.policy import Policy

LINE = "Ana told Bob that locker {n} is red now; Bob said that Chen, who has {m} keys, moved to Lisbon on Friday."
PROBE = "\n".join(LINE.format(n=n, m=n * n % 17) for n in range(40))
PROMPT = 384  # tokens of the probe that are read: longer than two blocks of any prefix cache, so that a stale one shows
# Sampled as in training rather than greedily: a sure token tells little of the weights, and log-probabilities that an
# engine has tempered or cut to the nucleus differ from raw ones only where those are in use.
SAMPLED = SamplingParams(temperature=0.8, top_p=0.95, max_new_tokens=12)
BOUNDS = {torch.float32: 1e-3, torch.bfloat16: 0.35, torch.float16: 0.05}  # largest difference of a token's log-probability
SHOWN = 3  # names of stale weights in an error


class StaleWeights(DataError):
    """The engine does not generate with the trainer's weights."""


def sync(engine: Engine, policy: Policy, prompt: WriterPrompt, version: int) -> float:
    """Bring the policy's weights to the engine and prove it; returns the largest difference found. Raises StaleWeights."""
    asyncio.run(engine.sync(weights_for(engine, policy), version))
    PartialState().wait_for_everyone()  # servers that ranks share are loaded when the first rank says so
    return check(engine, policy, prompt, version)


def weights_for(engine: Engine, policy: Policy) -> Iterable[tuple[str, Tensor]]:
    """What a sync sends: the adapter of a LoRA policy, else every weight. An engine on the live model gets nothing, since
    there is nothing to copy, and the proof still holds it to account."""
    if isinstance(engine, HFEngine):
        return ()
    return lora.adapter_tensors(policy.model).items() if policy.base else lora.merged_weights(policy.model)


def check(engine: Engine, policy: Policy, prompt: WriterPrompt, version: int) -> float:
    """Largest difference between the log-probabilities of a completion as the engine and as the trainer have them, over all
    replicas of the engine. Raises StaleWeights, which names the weights where the engine can be asked for their sums."""
    return asyncio.run(_check(engine, policy, prompt, version))


async def _check(engine: Engine, policy: Policy, prompt: WriterPrompt, version: int) -> float:
    known = engine if isinstance(engine, Inspectable) else None
    dtype = (known.dtype if known else None) or torch.float32
    differing = stale(await known.weight_sums(), policy, dtype) if known else []
    ids = prompt.encode(PROBE)[:PROMPT]
    asked = [Request(ids, 0, SAMPLED, RequestKey(-1, "", 0, g, 0)) for g in range(known.replicas if known else 1)]
    completions = await asyncio.gather(*(engine.generate(one) for one in asked))
    apart = [difference(policy, ids, one) for one in completions]
    worst = torch.tensor(apart, dtype=torch.float64).max().item()  # NaN, if one is
    versions = {one.weights_version for one in completions}
    if differing or versions != {version} or not worst <= BOUNDS[dtype]:
        raise StaleWeights(
            f"engine and trainer disagree by {worst:.4f} on a fixed text (allowed {BOUNDS[dtype]} in "
            f"{str(dtype).removeprefix('torch.')}; engine weights {sorted(versions)}, trainer {version}): "
            f"{_named(differing, policy)}, so the run stops before it samples from them"
        )
    return worst


def difference(policy: Policy, prompt_ids: tuple[int, ...], completion: Completion) -> float:
    """Largest difference of a completion's log-probabilities from the policy's."""
    batch = batch_of([TokenPair(prompt_ids, completion.token_ids)], [0]).to(policy.device)
    with torch.no_grad():
        own = completion_logprobs(policy.model, batch)[0].cpu()
    return float((own - torch.tensor(completion.logprobs)).abs().max())


def stale(sums: Sequence[WeightSum], policy: Policy, dtype: torch.dtype) -> list[str]:
    """Names of the weights whose sums in the engine are not the trainer's, rounded to the engine's dtype."""
    own = dict(policy.model.named_parameters())
    return [
        name
        for one in sums
        if all(name in own for name in one.names)
        and not one.agrees(weight_sum(one.names, [own[name] for name in one.names], dtype))
        for name in one.names
    ]


def _named(differing: Sequence[str], policy: Policy) -> str:
    if differing:
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        return f"the engine's {', '.join(differing[:SHOWN])}{more} look stale"
    if policy.base is not None:
        return "the engine's LoRA adapter looks stale (an adapter served under an id of before, or a cached prefix)"
    return "no weight's sum differs, so what the engine made of its weights looks stale (packed copies, a cached prefix)"
