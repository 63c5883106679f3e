"""A large JSON object read member by member, one of its arrays element by element, in flat memory."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import IO, Any

CHUNK = 1 << 20  # characters
LOOKAHEAD = 4  # characters beyond a value without which a number may go on: "1" is the start of "1e+5"
LARGEST = 1 << 26  # characters of one value; what is longer is no message


class BrokenJson(ValueError):
    """The text stops being JSON; the message says what and at which character."""


class JsonStream:
    """Top-level members of a JSON object in file order."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._text = io.TextIOWrapper(handle, encoding="utf-8-sig", errors="strict")
        self._decoder = json.JSONDecoder()
        self._buffer = ""
        self._at = 0
        self._passed = 0  # characters before the buffer
        self._ended = False

    def members(self, array: str) -> Iterator[tuple[str, Any]]:
        """(name, value) of each member; for the one called `array`, (name, element) of each element instead.

        Raises BrokenJson where the text stops being a JSON object; what came before has been yielded by then.
        """
        self._expect("{")
        if self._peek() == "}":
            return
        while True:
            name = self._value()
            if not isinstance(name, str):
                raise self._broken("a member's name must be a text")
            self._expect(":")
            if name == array and self._peek() == "[":
                for element in self._elements():
                    yield name, element
            else:
                yield name, self._value()
            if self._next(",}") == "}":
                return

    def _elements(self) -> Iterator[Any]:
        self._expect("[")
        if self._peek() == "]":
            self._expect("]")
            return
        while True:
            yield self._value()
            if self._next(",]") == "]":
                return

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except (ValueError, RecursionError) as error:  # ValueError alone: a number of thousands of digits
                cut_off = isinstance(error, json.JSONDecodeError) and not self._ended
                if not cut_off or len(self._buffer) - self._at > LARGEST:
                    raise self._broken(str(error).partition(":")[0]) from error
            else:
                if self._ended or len(self._buffer) - end > LOOKAHEAD:
                    self._at = end
                    return value
            self._fill()

    def _peek(self) -> str:
        """The next character that is no white space, "" at the end."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._ended:
                return ""
            self._fill()

    def _next(self, allowed: str) -> str:
        found = self._peek()
        if not found or found not in allowed:
            raise self._broken(f"expected one of {allowed!r}, found {found or 'the end of the file'!r}")
        self._at += 1
        return found

    def _expect(self, character: str) -> None:
        self._next(character)

    def _fill(self) -> None:
        """Drop what was read and append at least as much as is left, so that retries stay linear."""
        self._passed += self._at
        rest = self._buffer[self._at :]
        self._at = 0
        try:
            chunk = self._text.read(max(CHUNK, len(rest)))
        except UnicodeDecodeError as error:
            raise BrokenJson(f"not UTF-8 after character {self._passed + len(rest)}") from error
        self._ended = not chunk
        self._buffer = rest + chunk

    def _broken(self, what: str) -> BrokenJson:
        return BrokenJson(f"{what} at character {self._passed + self._at}")
