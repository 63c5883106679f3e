"""What can go wrong with a model call: typed, so that a missing reply is never mistaken for a wrong one."""

from __future__ import annotations

from enum import StrEnum

from data.network import DataError


class MissingKind(StrEnum):
    """Why a call has no usable reply."""

    OUTAGE = "outage"  # no answer within the retries: connection, 5xx, 429, deadline
    REJECTED = "rejected"  # the provider refuses the request itself: too long, bad parameter
    REFUSAL = "refusal"  # the model or a content filter declines
    EMPTY = "empty"
    CUT_OFF = "cut_off"  # the reply hit the token limit
    UNPARSABLE = "unparsable"


class MissingReply(Exception):
    """A call that gave no usable reply. Never cached, never scored: what depends on it is *missing*. `tokens` (prompt,
    completion) are those of the last reply, where one came."""

    def __init__(self, kind: MissingKind, stage: str, detail: str, tokens: tuple[int, int] = (0, 0)) -> None:
        super().__init__(f"{stage}: {kind.value}: {detail}")
        self.kind = kind
        self.stage = stage
        self.detail = detail
        self.tokens = tokens


class Unparsable(ValueError):
    """A reader's verdict on a reply's text: not in the form asked for."""


class BudgetExceeded(RuntimeError):
    """The cap on tokens or cost is reached. Finished replies are in the cache: a later run goes on from there."""


class SetupError(DataError):
    """A call can never work as configured: no key, unknown model, a price that is needed and not known."""
