"""Times of messages: the source's own string stays, beside it the instant in UTC. No wall clock, no local time zone."""

from __future__ import annotations

from datetime import UTC, datetime

from data.network import DataError


def read_instant(text: str, where: str) -> tuple[datetime | None, bool]:
    """(instant in UTC, zone_assumed) of an ISO 8601 time; a time without a zone is taken as UTC; (None, True) for "".

    Errors: not an ISO time, or out of range.
    """
    if not text:
        return None, True
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            return time.replace(tzinfo=UTC), True
        return time.astimezone(UTC), False
    except (ValueError, OverflowError) as error:
        raise DataError(f"{where}: {text!r} is not an ISO 8601 time such as 2025-02-03T14:11:00+01:00") from error
