"""Writers for use: a segment and the memory before it in, the output text out."""

from __future__ import annotations

from pathlib import Path

from data.memory.state import State
from data.network import DataError
from data.segments import Segment
from rollout.engines.base import Request, RequestKey, SamplingParams
from rollout.engines.hf import HFEngine
from rollout.llm.client import Client, ClientConfig
from rollout.llm.provider import ChatCall
from rollout.memory.embedder import Embedder, load_embedder
from rollout.memory.ingest import EmptyWriter, TextWriter
from rollout.writer.prompt import WriterPrompt
from rollout.writer.sampler import PromptTooLong
from rollout.writer.view import build_view
from writer_rl import checkpoint
from writer_rl.base.tokenizer import build
from writer_rl.recipe import Recipe, check

WRITE_TOKENS = 4096  # of one answer of a large model
GRAMMAR = "checkpoint:DIR, litellm:MODEL or empty"


class CheckpointWriter:
    """A trained Writer in this process, with the prompt and limits that it was trained with. Greedy: the same memory and
    segment always give the same output. Errors: CheckpointError, PromptTooLong."""

    def __init__(self, folder: Path) -> None:
        loaded = checkpoint.load(folder)
        self.name = f"checkpoint:{folder}"
        self._recipe: Recipe = check(loaded.state["recipe"], f"{folder}: its recipe")
        self._prompt = WriterPrompt(self._recipe.writer.prompt, loaded.policy.tokenizer)
        self._engine = HFEngine(loaded.policy.model, loaded.policy.turn_end_id)
        self._embedder: Embedder = load_embedder(self._recipe.pipeline.embedder)

    async def write(self, segment: Segment, state: State) -> str:
        limits = self._recipe.writer
        view = build_view(segment, state, self._embedder, self._prompt, head_token_budget=limits.head_tokens)
        ids = self._prompt.prompt_ids(view)
        if len(ids) > limits.max_prompt_tokens:
            raise PromptTooLong(
                f"segment {segment.session!r} of {segment.network!r}: the prompt has {len(ids)} tokens, the Writer was trained "
                f"for {limits.max_prompt_tokens}; use a smaller window"
            )
        params = SamplingParams(temperature=0.0, top_p=1.0, max_new_tokens=self._recipe.grpo.max_new_tokens)
        completion = await self._engine.generate(Request(ids, 0, params, RequestKey(0, segment.network, 0, 0, segment.t)))
        return self._prompt.decode(completion.token_ids)


class ModelWriter:
    """A large model behind litellm, asked with the full contract at temperature 0. Errors: MissingReply on an outage."""

    def __init__(self, model: str, client: Client) -> None:
        self.name = f"litellm:{model}"
        self._model = model
        self._client = client
        self._prompt = WriterPrompt("full", build([]))  # any tokenizer: it only counts the budget of heads
        self._embedder: Embedder = load_embedder("minilm")

    async def write(self, segment: Segment, state: State) -> str:
        view = build_view(segment, state, self._embedder, self._prompt)
        messages = tuple((one["role"], one["content"]) for one in self._prompt.chat(view))
        return await self._client.ask(ChatCall("write", self._model, messages, max_tokens=WRITE_TOKENS), str)


def named_writer(name: str) -> TextWriter:
    """A Writer by its name in the grammar. Errors: a name that is not known, a folder that is no checkpoint."""
    kind, _, rest = name.partition(":")
    if kind == "litellm" and rest:
        return ModelWriter(rest, Client(ClientConfig()))
    if name == "empty":
        return EmptyWriter()
    if kind == "checkpoint" and rest:
        return CheckpointWriter(Path(rest))
    raise DataError(f"writer {name!r} is not known; use {GRAMMAR}")
