"""`JsonLines` and `Csv`: one line per result, in the order in which the URLs finished.

Whole lines are written, many at a time, so a program that is killed leaves whole lines. Only a kill in the middle of
the kernel's copying, or a full disk, can leave an incomplete line.
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

# A spreadsheet takes a cell for a formula if it begins with one of these (OWASP, CSV injection).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class _Lines:
    """A file that is overwritten with lines. `-` is standard output, which stays open."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file.

        Args:
            path: the file; `-` is standard output.

        Raises:
            OSError: for the same reasons as `open(path, "w")`.
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
        """Write the buffered lines.

        Raises:
            OSError: writing failed. The next call writes the rest.
        """
        write_all(self._fd, self._buffer, self._name)

    def close(self) -> None:
        """Write the buffered lines and close the file.

        Raises:
            OSError: writing failed. The file is closed nevertheless.
        """
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
    """One JSON object per result, with the fields of `record.FIELDS`, in ASCII."""

    def write(self, result: Result) -> None:
        """Add a result to the buffer, which is written when it is large enough."""
        self._add(_encode(row_of(result)) + "\n")


class _Sink:
    """The file object to which the csv module writes its rows."""

    def __init__(self, add: Callable[[str], None]) -> None:
        self._add = add

    def write(self, row: str) -> None:
        # Up to Python 3.12 the csv module quotes a field with CR or LF only if the character is part of the line
        # terminator. Therefore the terminator has both, and is replaced here.
        self._add(row[:-2] + "\n")


class Csv(_Lines):
    """A header, then one row per result, with redirects as `301 URL 302 URL`.

    A cell that a spreadsheet would execute as a formula gets a `'` in front. Rows end with a line feed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file. The header is written together with the first rows.

        Args:
            path: the file; `-` is standard output.

        Raises:
            OSError: for the same reasons as `open(path, "w")`.
        """
        super().__init__(path)
        self._writer = csv.writer(_Sink(self._add), lineterminator="\r\n")
        self._add(",".join(FIELDS) + "\n")

    def write(self, result: Result) -> None:
        """Add a result to the buffer, which is written when it is large enough."""
        row = row_of(result)
        row["redirects"] = " ".join(f"{hop.status} {hop.url}" for hop in result.redirects)
        self._writer.writerow([_safe(value) for value in row.values()])


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
