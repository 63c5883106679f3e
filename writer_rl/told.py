"""How commands tell a user what is wrong: one paragraph and exit code 2, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from data.network import DataError
from rollout.llm.errors import BudgetExceeded


@contextmanager
def told() -> Iterator[None]:
    """Errors meant for people (bad input, a full disk, a spent budget) end the command; anything else is a bug and shows."""
    try:
        yield
    except (DataError, BudgetExceeded, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        raise typer.Exit(2) from None
