"""Writers for use: a segment and the memory before it in, the output text out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer

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
from writer_rl import checkpoint, lora
from writer_rl.action_schema import action_grammar
from writer_rl.base.tokenizer import build
from writer_rl.contract import Contract, check_code
from writer_rl.recipe import Recipe, check
from writer_rl.served import Served, ServedConfig

WRITE_TOKENS = 4096  # of one answer of a large model
GRAMMAR = "checkpoint:DIR, server:URL, litellm:MODEL or empty"


@dataclass(frozen=True)
class Reading:
    """How a trained Writer is shown a segment: prompt, embedder, and the limits of its training in tokens."""

    prompt: WriterPrompt
    embedder: Embedder
    head_tokens: int
    prompt_tokens: int

    def ids(self, segment: Segment, state: State) -> tuple[int, ...]:
        """Prompt token ids. Errors: PromptTooLong."""
        view = build_view(segment, state, self.embedder, self.prompt, head_token_budget=self.head_tokens)
        ids = self.prompt.prompt_ids(view)
        if len(ids) > self.prompt_tokens:
            raise PromptTooLong(
                f"segment {segment.session!r} of {segment.network!r}: the prompt has {len(ids)} tokens, the Writer was trained "
                f"for {self.prompt_tokens}; use a smaller window"
            )
        return ids


class CheckpointWriter:
    """A trained Writer in this process, with the prompt and limits that it was trained with. Greedy: the same memory and
    segment always give the same output. Errors: CheckpointError, PromptTooLong."""

    def __init__(self, folder: Path) -> None:
        loaded = checkpoint.load(folder)
        policy = lora.merged(loaded.policy)
        self.name = f"checkpoint:{folder}"
        self._recipe: Recipe = check(loaded.state["recipe"], f"{folder}: its recipe")
        limits = self._recipe.writer
        self._reading = Reading(
            WriterPrompt(limits.prompt, policy.tokenizer),
            load_embedder(self._recipe.pipeline.embedder),
            limits.head_tokens,
            limits.max_prompt_tokens,
        )
        self._engine = HFEngine(policy.model, policy.turn_end_id)

    async def write(self, segment: Segment, state: State) -> str:
        params = SamplingParams(temperature=0.0, top_p=1.0, max_new_tokens=self._recipe.grpo.max_new_tokens)
        request = Request(self._reading.ids(segment, state), 0, params, RequestKey(0, segment.network, 0, 0, segment.t))
        return self._reading.prompt.decode((await self._engine.generate(request)).token_ids)


class ServerWriter:
    """An exported Writer behind a server, with the prompt and limits of its contract. Greedy.

    One of these may write any number of memories at once: at most `config.concurrency` segments are with the server, and who
    comes beyond that waits, so nothing piles up. What order there must be is kept by whoever asks: a memory asks for a segment
    when the one before is written. `structured` binds outputs to the action grammar.
    Errors: MissingReply where the server cannot answer now; ContractMismatch, SetupError, PromptTooLong.
    """

    def __init__(self, address: str, structured: bool = False, config: ServedConfig = ServedConfig()) -> None:
        """`address`: URL, or URL#FOLDER where the export lies in FOLDER on this machine."""
        self.name = f"server:{address}"
        self.served = open_address(address, config)
        self._structured = structured
        self._opened: tuple[Contract, Reading] | None = None

    async def write(self, segment: Segment, state: State) -> str:
        folder, terms = await self.served.open()
        if self._opened is None:
            self._opened = (terms, reading_of(folder, terms))
        reading = self._opened[1]
        params = SamplingParams(temperature=0.0, top_p=1.0, max_new_tokens=terms.limits.new_tokens)
        grammar = action_grammar(segment.budget) if self._structured else ""
        completion = await self.served.complete(reading.ids(segment, state), params, 0, grammar)
        return reading.prompt.decode(completion.token_ids)


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


def named_writer(name: str, structured: bool = False) -> TextWriter:
    """A Writer by its name in the grammar; `structured` is for `server:URL` alone. Errors: a name that is not known, a folder
    that is no checkpoint."""
    kind, _, rest = name.partition(":")
    if structured and kind != "server":
        raise DataError(f"structured output is an option of server:URL, not of writer {name!r}; leave it out")
    if kind == "litellm" and rest:
        return ModelWriter(rest, Client(ClientConfig()))
    if name == "empty":
        return EmptyWriter()
    if kind == "checkpoint" and rest:
        return CheckpointWriter(Path(rest))
    if kind == "server" and rest:
        return ServerWriter(rest, structured)
    raise DataError(f"writer {name!r} is not known; use {GRAMMAR}")


def open_address(address: str, config: ServedConfig = ServedConfig()) -> Served:
    """The server behind `URL` or `URL#FOLDER`. Nothing is asked of it yet."""
    url, _, folder = address.partition("#")
    return Served(url, Path(folder) if folder else None, config)


def reading_of(folder: Path, terms: Contract) -> Reading:
    """The prompt and limits of an export. Errors: ContractMismatch where the installed code would show or judge otherwise."""
    prompt = WriterPrompt(terms.prompt.style, AutoTokenizer.from_pretrained(folder))
    check_code(terms, prompt)
    return Reading(prompt, load_embedder(terms.embedder), terms.limits.head_tokens, terms.limits.prompt_tokens)
