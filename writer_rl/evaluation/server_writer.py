"""A served export in an evaluation (`server:URL`): its own prompt and tokenizer, sampled as the recipe says."""

from __future__ import annotations

from data.network import DataError
from rollout.engines.base import Completion, Request
from rollout.llm.client import run
from rollout.llm.errors import MissingReply
from rollout.writer.prompt import WriterPrompt
from writer_rl.contract import Contract, ContractMismatch
from writer_rl.recipe import Recipe
from writer_rl.served import Served
from writer_rl.serving import open_address, reading_of


class ServedEngine:
    """Asks the server for each write; an outage stops the evaluation, which can go on later."""

    def __init__(self, served: Served, terms: Contract) -> None:
        self._served = served
        self._terms = terms

    async def generate(self, request: Request) -> Completion:
        where = f"writer {self._terms.id}, network {request.key.network}, position {request.key.t}"
        if len(request.prompt_ids) > self._terms.limits.prompt_tokens:
            raise DataError(
                f"{where}: the prompt has {len(request.prompt_ids)} tokens, the server takes "
                f"{self._terms.limits.prompt_tokens}; use a smaller data.window"
            )
        try:
            return await self._served.complete(request.prompt_ids, request.params, request.seed)
        except MissingReply as missing:
            raise DataError(f"{where}: no reply ({missing}); run again when the server is back") from None

    async def sync(self, named_tensors: object, version: int) -> None:
        raise DataError("a served export keeps its weights: export another one")


def open_server(address: str, recipe: Recipe) -> tuple[ServedEngine, WriterPrompt, Contract]:
    """The engine and prompt of a served export. Errors: ContractMismatch, also where the recipe would show it another memory
    than it was trained with; DataError on an outage."""
    served = open_address(address)
    try:
        folder, terms = run(served.open())
    except MissingReply as missing:
        raise DataError(f"server:{address}: {missing}; is it running? The export printed the command that starts it") from None
    pairs = {
        "writer.head_tokens": (terms.limits.head_tokens, recipe.writer.head_tokens),
        "pipeline.embedder": (terms.embedder, recipe.pipeline.embedder),
    }
    for key, (trained, here) in pairs.items():
        if trained != here:
            raise ContractMismatch(
                f"server:{address}: was trained with {key}={trained}, the recipe has {here}; add {key}={trained}"
            )
    return ServedEngine(served, terms), reading_of(folder, terms).prompt, terms
