"""The one place that talks to litellm: a call in, a reply out, and every failure typed."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from dataclasses import dataclass, field
from typing import Any

from rollout.llm.cache import Reply
from rollout.llm.errors import MissingKind, MissingReply, SetupError

LOCAL_KEY = "WRITER_RL_API_KEY"  # the key for a server of one's own (api_base); provider keys are never sent there
DETAIL = 300  # characters of a provider's error text that are kept


@dataclass(frozen=True, slots=True)
class ChatCall:
    """One request. `model` is litellm's name (`provider/model`); `schema` a JSON schema the reply must follow, as
    canonical JSON ("" for free text); `api_base` the URL of an OpenAI-compatible server of one's own."""

    stage: str
    model: str
    messages: tuple[tuple[str, str], ...]  # (role, text)
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    schema: str = ""
    api_base: str | None = None

    def content(self) -> dict[str, Any]:
        """What the cache key covers: everything that reaches the provider. The stage does not."""
        return {
            "provider": self.api_base or self.model.split("/", 1)[0],
            "model": self.model,
            "params": {"max_tokens": self.max_tokens, "temperature": self.temperature},
            "messages": [list(message) for message in self.messages],
            "schema": self.schema,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Answered:
    """What a provider sent: a reply, why it ended, and the cost in USD (None where no price is known)."""

    reply: Reply
    finish_reason: str
    refusal: bool = False
    cost_usd: float | None = None


@dataclass(eq=False)
class Transient(Exception):
    """A failure worth another attempt. `retry_after` is what the server asked for, in seconds."""

    detail: str
    retry_after: float | None = field(default=None)

    def __str__(self) -> str:
        return self.detail


def redact(text: str) -> str:
    """Error text without keys: values of *_KEY and *_TOKEN variables, and anything of the form sk-..., are blanked."""
    for name, value in os.environ.items():
        if name.endswith(("_KEY", "_TOKEN")) and len(value) >= 6:
            text = text.replace(value, "[key]")
    return re.sub(r"\b(sk|key)-[\w*-]{4,}", "[key]", text)[:DETAIL]


def load_litellm() -> Any:
    """Import litellm on first use (it takes seconds): local price table, no chatter on stderr."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    logger = logging.getLogger("LiteLLM")
    if logger.level in (logging.NOTSET, logging.WARNING):  # it warns of every new event loop
        logger.setLevel(logging.ERROR)
    return litellm


def priced(model: str) -> bool:
    """Whether litellm's price table knows the model."""
    litellm = load_litellm()
    try:
        litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception subclass for "not in the table"
        return False
    return True


async def send(call: ChatCall, deadline: float) -> Answered:
    """One attempt through litellm within `deadline` seconds.

    Errors: Transient (worth a retry), MissingReply (refusal or a rejected request), SetupError (can never work).
    """
    litellm = load_litellm()
    own_server = {"api_base": call.api_base, "api_key": os.environ.get(LOCAL_KEY, "none")} if call.api_base else {}
    form = {"name": call.stage, "schema": json.loads(call.schema), "strict": True} if call.schema else None
    try:
        async with asyncio.timeout(deadline):
            response = await litellm.acompletion(
                model=call.model,
                messages=[{"role": role, "content": text} for role, text in call.messages],
                temperature=call.temperature,
                max_tokens=call.max_tokens,
                seed=call.seed,
                timeout=deadline,
                max_retries=0,
                num_retries=0,
                drop_params=True,
                **own_server,
                **({"response_format": {"type": "json_schema", "json_schema": form}} if form else {}),
            )
    except TimeoutError:
        raise Transient(f"no reply within {deadline:g} s") from None
    except asyncio.CancelledError:
        raise
    except Exception as error:  # the boundary: litellm raises many types, some of them its own parsing errors
        raise _typed(litellm, call, error) from None
    return _answered(litellm, call, response)


def _typed(litellm: Any, call: ChatCall, error: Exception) -> Exception:
    detail = redact(f"{type(error).__name__}: {error}")
    errors = litellm.exceptions
    if isinstance(error, (errors.AuthenticationError, errors.PermissionDeniedError, errors.NotFoundError)):
        where = call.api_base or "its provider"
        return SetupError(
            f"{call.stage}: model {call.model!r} at {where} cannot be used: {detail}. Mend the model name or the address, "
            f"or set the provider's key in the environment ({LOCAL_KEY} for a server of your own)"
        )
    if isinstance(error, errors.ContentPolicyViolationError):
        return MissingReply(MissingKind.REFUSAL, call.stage, detail)
    if isinstance(error, (errors.ContextWindowExceededError, errors.BadRequestError, errors.UnprocessableEntityError)):
        if "LLM Provider NOT provided" in str(error):
            return SetupError(f"{call.stage}: {call.model!r} names no provider; write provider/model, e.g. openai/{call.model}")
        return MissingReply(MissingKind.REJECTED, call.stage, detail)
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    return Transient(detail, _seconds(headers.get("retry-after")))


def _seconds(value: str | None) -> float | None:
    """Retry-After as seconds; the HTTP-date form is left to the backoff (no wall clock is read)."""
    try:
        return max(0.0, float(value)) if value is not None else None
    except ValueError:
        return None


def _answered(litellm: Any, call: ChatCall, response: Any) -> Answered:
    choices = getattr(response, "choices", None)
    if not choices:
        raise Transient("the server's reply holds no choices")
    message, usage = choices[0].message, getattr(response, "usage", None)
    text = message.content
    if text is not None and not isinstance(text, str):
        raise Transient(f"the server's reply holds {type(text).__name__} content, not text")
    try:
        cost: float | None = float(litellm.completion_cost(response, model=call.model)) if not call.api_base else 0.0
    except Exception:  # no price known: counted as unpriced by the accounting
        cost = None
    return Answered(
        Reply(
            text or "",
            int(getattr(usage, "prompt_tokens", 0) or 0),
            int(getattr(usage, "completion_tokens", 0) or 0),
            str(getattr(response, "model", "") or ""),
        ),
        str(choices[0].finish_reason or ""),
        refusal=bool(getattr(message, "refusal", None)) or choices[0].finish_reason == "content_filter",
        cost_usd=cost,
    )
