"""Rows of a CSV file, read so that one bad line is one bad line: a quote that nobody closes does not eat the rest."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterator

MAX_SPAN = 50  # lines of one record; a quote that stays open for longer was never meant to open one

Lines = Iterator[tuple[int, str | None]]


class CsvRows:
    """The header, then (line, cells by the header's names) or (line, why there are none). Blank lines are nothing."""

    def __init__(self, lines: Lines, delimiter: str) -> None:
        self._lines = lines
        self._ahead: deque[tuple[int, str | None]] = deque()
        self._delimiter = delimiter
        mark = re.escape(delimiter)
        cell = rf'(?:"(?:[^"]|"")*"|[^{mark}"\n][^{mark}\n]*|)'
        self._record = re.compile(rf"{cell}(?:{mark}{cell})*")
        first = next(self._rows(None), (1, []))
        self.header: list[str] = first[1] if isinstance(first[1], list) else []

    def __iter__(self) -> Iterator[tuple[int, dict[str, str] | str]]:
        for line, cells in self._rows(len(self.header)):
            yield line, cells if isinstance(cells, str) else dict(zip(self.header, cells, strict=True))

    def _rows(self, width: int | None) -> Iterator[tuple[int, list[str] | str]]:
        """Records of `width` cells (None: any). A record of several lines that is none after all gives up its first
        line only; the others are read again."""
        while (first := self._pull()) is not None:
            line, text = first
            if text is None:
                yield line, "not UTF-8 text"
                continue
            if not text.strip():
                continue
            taken = self._span(text)
            cells = self._cells("\n".join([text, *(more for _, more in taken if more is not None)]), width)
            if isinstance(cells, str):
                self._ahead.extendleft(reversed(taken))
            yield line, cells

    def _pull(self) -> tuple[int, str | None] | None:
        return self._ahead.popleft() if self._ahead else next(self._lines, None)

    def _span(self, text: str) -> list[tuple[int, str | None]]:
        """The lines that complete the record which `text` begins."""
        taken: list[tuple[int, str | None]] = []
        whole = text
        while len(taken) < MAX_SPAN and not self._record.fullmatch(whole):
            following = self._pull()
            if following is None:
                break
            taken.append(following)
            if following[1] is None:
                break
            whole += f"\n{following[1]}"
        return taken

    def _cells(self, record: str, width: int | None) -> list[str] | str:
        if not self._record.fullmatch(record):
            return "its quotes do not pair"
        try:
            cells = next(csv.reader(io.StringIO(record, newline=""), delimiter=self._delimiter))
        except csv.Error as error:
            return f"not CSV: {error}"
        if width is not None and len(cells) != width:
            return f"{len(cells)} fields where the header has {width}"
        return cells
