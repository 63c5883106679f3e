"""A Writer behind an interface (`litellm:MODEL`): the reference that local Writers are compared with."""

from __future__ import annotations

import json

from data.network import DataError
from rollout.engines.base import Completion, Request
from rollout.llm.client import Client
from rollout.llm.errors import MissingKind, MissingReply, Unparsable
from rollout.llm.provider import ChatCall
from rollout.llm.reply import final_text, json_object
from rollout.writer.prompt import WriterPrompt
from rollout.writer.view import WriterView

SAID_NOTHING = frozenset({MissingKind.CUT_OFF, MissingKind.EMPTY, MissingKind.REFUSAL})  # the Writer's own doing


class ChatPrompt(WriterPrompt):
    """The same prompt under the same token budgets, which remembers its messages: an interface takes text, not ids."""

    def prompt_ids(self, view: WriterView) -> tuple[int, ...]:
        ids = super().prompt_ids(view)
        self._chats[ids] = tuple((one["role"], one["content"]) for one in self.chat(view))
        return ids

    def messages(self, prompt_ids: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
        """The (role, text) messages behind prompt ids that this prompt gave out."""
        return self._chats[prompt_ids]

    @classmethod
    def like(cls, prompt: WriterPrompt) -> ChatPrompt:
        made = cls(prompt.style, prompt.tokenizer)
        made._chats = {}
        return made

    _chats: dict[tuple[int, ...], tuple[tuple[str, str], ...]]


class LLMWriterEngine:
    """Asks a model for each write. A reply in a code fence or in prose is taken for the object in it: nobody trained this
    model to the bare form. A reply that was cut off, empty or refused is an empty write; an outage stops the evaluation."""

    def __init__(self, client: Client, model: str, prompt: ChatPrompt, api_base: str | None = None) -> None:
        self._client = client
        self._model = model
        self._prompt = prompt
        self._api_base = api_base

    async def generate(self, request: Request) -> Completion:
        params = request.params
        call = ChatCall(
            stage="write",
            model=self._model,
            messages=self._prompt.messages(request.prompt_ids),
            max_tokens=params.max_new_tokens,
            temperature=params.temperature,
            seed=request.seed & 0x7FFFFFFF,
            api_base=self._api_base,
        )
        try:
            outcome = await self._client.exchange(call, bare)
        except MissingReply as missing:
            if missing.kind not in SAID_NOTHING:
                raise DataError(
                    f"writer litellm:{self._model}, network {request.key.network}, position {request.key.t}: no reply "
                    f"({missing.kind.value}: {missing.detail}); run again, replies so far are kept"
                ) from None
            cut = missing.kind is MissingKind.CUT_OFF
            return Completion((), (), "length" if cut else "stop", 0, missing.tokens)
        ids = self._prompt.target_ids(outcome.value)
        usage = (outcome.prompt_tokens, outcome.completion_tokens)
        return Completion(ids, (0.0,) * len(ids), "stop", 0, usage)

    async def sync(self, named_tensors: object, version: int) -> None:
        raise DataError("a Writer behind an interface cannot be given weights")


def bare(text: str) -> str:
    """The JSON object in a reply as the strict parser wants it; a reply without one as it is."""
    try:
        return json.dumps(json_object(text), ensure_ascii=False)
    except Unparsable:
        return final_text(text)
