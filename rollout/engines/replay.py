"""An engine that says given texts: the teacher oracle, the empty Writer, tests, and rounds read back from a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from data.network import DataError
from rollout.engines.base import Completion, Request, RequestKey

if TYPE_CHECKING:
    from torch import Tensor


class TargetEncoder(Protocol):
    """Text -> token ids of an assistant turn, turn-end token included; `WriterPrompt` is one."""

    def target_ids(self, text: str) -> tuple[int, ...]: ...


class ReplayEngine:
    """Answers each request with `texts(key)` (or `texts[key]`), as token ids; log-probabilities are zeros.

    A text longer than max_new_tokens is cut off there, with finish reason `length`, as a model would be.
    """

    def __init__(self, texts: Callable[[RequestKey], str] | Mapping[RequestKey, str], prompt: TargetEncoder) -> None:
        self._texts = texts
        self._prompt = prompt
        self._version = 0

    async def generate(self, request: Request) -> Completion:
        ids = self._prompt.target_ids(self._text(request.key))
        limit = request.params.max_new_tokens
        return Completion(ids[:limit], (0.0,) * len(ids[:limit]), "stop" if len(ids) <= limit else "length", self._version)

    async def sync(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Nothing to load: only the version moves."""
        self._version = version

    def _text(self, key: RequestKey) -> str:
        if callable(self._texts):
            return self._texts(key)
        if key not in self._texts:
            raise DataError(f"replay has no text for {key}; record one, or ask another engine")
        return self._texts[key]
