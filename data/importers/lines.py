"""Lines of a byte stream, decoded one by one, so that one bad line is one bad line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO


def decoded_lines(handle: IO[bytes]) -> Iterator[tuple[int, str | None]]:
    """(1-based number, text without its line end) for each line; None where a line is not UTF-8.

    Only a line feed ends a line: U+2028 or a form feed inside a message does not. A byte order mark is dropped.
    """
    for number, raw in enumerate(handle, 1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            yield number, None
            continue
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield number, text.removesuffix("\n").removesuffix("\r")
