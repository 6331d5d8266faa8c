"""Rows of CSV, of lines that come bit by bit; knows nothing of URLs.

The csv module takes rows from an iterator that cannot wait. So rows are read as far as their lines are there; the
lines of a row that has not ended are kept, and read again with the next ones. A field has at most the csv module's
131,072 characters, and a row RECORD_CHARACTERS. What is no row costs its first line alone: reading goes on behind it.
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
"""All lines of a row may be so long."""

_DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class NoRow:
    """A line that begins no row: what it says, and why."""

    text: str
    reason: str


class _MoreError(Exception):
    """The lines are used up; never seen outside."""


class _More:
    """What follows the lines that are there."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        raise _MoreError


class Rows:
    """Takes lines, gives rows, each with the number of its first line."""

    def __init__(self, delimiter: str | None = None) -> None:
        self._delimiter = delimiter  # None until the first line is there
        self._lines: list[str] = []  # of the row that has not ended
        self._line = 1  # of the first of them

    def feed(self, lines: list[str]) -> Iterator[tuple[int, list[str] | NoRow]]:
        """The rows that have ended. Use it up before the next call."""
        self._lines += lines
        return self._take(has_ended=False)

    def end(self) -> Iterator[tuple[int, list[str] | NoRow]]:
        """What is left when there are no more lines, or not for the row that has begun."""
        return self._take(has_ended=True)

    def skip_line(self) -> int:
        """Leave out a line, after `end()`; returns its number."""
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
            yield self._line, NoRow(self._lines[0], reason)
            self._drop(1)

    def _separator(self) -> str:
        """The first of the usual ones that the first line has."""
        if self._delimiter is None:
            self._delimiter = next((one for one in _DELIMITERS if one in self._lines[0]), ",")
        return self._delimiter

    def _drop(self, count: int) -> None:
        del self._lines[:count]
        self._line += count
