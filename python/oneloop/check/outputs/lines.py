"""`JsonLines` and `Csv`: a line per result, in the order in which they came.

Lines are written whole, many at a time. A program that is killed leaves whole lines; only a kill, or a full disk, in
the middle of the kernel's own copying cuts one.
"""

from __future__ import annotations

import csv
import json
import os
from typing import TYPE_CHECKING, Any

from oneloop.check.outputs.writing import write_all
from oneloop.check.record import FIELDS, row_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.check.result import Result

__all__ = ["Csv", "JsonLines"]

_BUFFER_BYTES = 256 * 1024
_STANDARD_OUTPUT = 1
_OPENING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC

_encode = json.JSONEncoder(separators=(",", ":")).encode

# Where a spreadsheet takes a cell for a formula (OWASP, CSV injection), full-width forms too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class _Lines:
    """A file that is written anew, whole lines at a time; `-` is standard output, which stays open."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open it.

        Raises:
            OSError: as `open(path, "w")` raises it.
        """
        self._is_own = path != "-"
        self._name = os.fspath(path) if self._is_own else "standard output"
        self._fd = os.open(path, _OPENING, 0o666) if self._is_own else _STANDARD_OUTPUT
        self._buffer = bytearray()

    def _add(self, line: str) -> None:
        self._buffer += line.encode("utf-8", "backslashreplace")
        if len(self._buffer) >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what has come.

        Raises:
            OSError: what has not been written is written by the next call.
        """
        write_all(self._fd, self._buffer, self._name)

    def close(self) -> None:
        """Write all, and close the file."""
        if self._fd < 0:
            return
        try:
            self.flush()
        finally:
            fd, self._fd = self._fd, -1
            self._buffer.clear()
            if self._is_own:
                os.close(fd)


class JsonLines(_Lines):
    """An object per result, with the fields of `record.FIELDS`; ASCII alone."""

    def write(self, result: Result) -> None:
        """Remember a result."""
        self._add(_encode(row_of(result)) + "\n")


class _Sink:
    """What the csv module hands its rows to."""

    def __init__(self, add: Callable[[str], None]) -> None:
        self._add = add

    def write(self, row: str) -> None:
        # Up to Python 3.12 only characters of the line's end are quoted: it has both, and loses one here.
        self._add(row[:-2] + "\n")


class Csv(_Lines):
    """A header, then a row per result; redirects as `301 URL 302 URL`.

    A cell with text that a spreadsheet would run gets a `'` in front. Rows end with a line feed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """As its base; the header is written with the first rows."""
        super().__init__(path)
        self._writer = csv.writer(_Sink(self._add), lineterminator="\r\n")
        self._add(",".join(FIELDS) + "\n")

    def write(self, result: Result) -> None:
        """Remember a result."""
        row = row_of(result)
        row["redirects"] = " ".join(f"{hop.status} {hop.url}" for hop in result.redirects)
        self._writer.writerow([_safe(value) for value in row.values()])


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
