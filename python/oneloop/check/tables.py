"""Parses rows of CSV incrementally. Does not interpret the fields.

The csv module reads lines from an iterator that cannot wait. Therefore rows are parsed as far as their lines have
arrived. The lines of an incomplete row are kept and parsed again together with the next lines. A field has at most
131,072 characters (the csv module's limit), a row at most RECORD_CHARACTERS. If a row is not valid, its first line
is reported, and parsing continues with the next line.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NoRow", "Rows"]

RECORD_CHARACTERS = 1024 * 1024
"""The longest row that is accepted, over all of its lines."""

_DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class NoRow:
    """A line with which no valid row begins: its text, and the reason."""

    text: str
    reason: str


class _MoreError(Exception):
    """All lines that have arrived are used. This exception does not leave this file."""


class _More:
    """An iterator that raises _MoreError after the lines that have arrived."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        raise _MoreError


class Rows:
    """An incremental parser of CSV. Each row has the number of its first line.

    Args:
        delimiter: the separator of fields. None: the first of `,`, `;` and tab that occurs in the first line.
    """

    def __init__(self, delimiter: str | None = None) -> None:
        self._delimiter = delimiter  # None until the first line has arrived
        self._lines: list[str] = []  # the lines of the incomplete row
        self._line = 1  # the number of the first of these lines

    def feed(self, lines: list[str]) -> Iterator[tuple[int, list[str] | NoRow]]:
        """Parse lines. Returns an iterator of the complete rows, which must be read to its end before the next call."""
        self._lines += lines
        return self._take(has_ended=False)

    def end(self) -> Iterator[tuple[int, list[str] | NoRow]]:
        """Parse the rest, when there are no more lines, or when the line after the kept ones cannot be used."""
        return self._take(has_ended=True)

    def skip_line(self) -> int:
        """Skip a line, after `end()`. Returns its number."""
        self._line += 1
        return self._line - 1

    def _take(self, *, has_ended: bool) -> Iterator[tuple[int, list[str] | NoRow]]:
        while self._lines:
            done = 0
            reader = csv.reader(chain(self._lines, _More()), delimiter=self._separator())
            try:
                for row in reader:
                    yield self._line + done, row
                    done = reader.line_num
            except _MoreError:
                self._drop(done)
                if not self._lines or not (has_ended or sum(map(len, self._lines)) > RECORD_CHARACTERS):
                    return
                reason = "a quoted field that does not end"
            except csv.Error as error:
                self._drop(done)
                reason = str(error)
            yield self._line, NoRow(self._lines[0], reason)  # pyright: ignore[reportPossiblyUnboundVariable]
            self._drop(1)

    def _separator(self) -> str:
        """The delimiter: the first of the usual ones that occurs in the first line, if none was given."""
        if self._delimiter is None:
            self._delimiter = next((one for one in _DELIMITERS if one in self._lines[0]), ",")
        return self._delimiter

    def _drop(self, count: int) -> None:
        del self._lines[:count]
        self._line += count
