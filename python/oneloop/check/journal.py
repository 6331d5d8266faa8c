"""The journal of a run: what has been checked, so that a run that was killed goes on where it was.

The file: a header line, then a line of JSON for each URL that is done, in the order in which they ended. Lines are
written whole, at the end of the file, one write for all that ended in a turn of the loop. A kill leaves at most a
last line without its end, which is cut off when the journal is opened: that URL is requested again. Written lines
survive the program at once, and the machine from `close()` on (fsync).

Memory: 8 bytes per entry, the hash of its URL at its number. So an input that has changed is noticed.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import stat
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from oneloop.check.outputs.writing import write_all
from oneloop.check.record import record_of, result_of
from oneloop.check.urls import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from oneloop.check.result import Result, Target

__all__ = ["Journal", "JournalError"]

_VERSION = 1
_KIND = "oneloop check journal"
_START = json.dumps({"kind": _KIND})[:-1].encode()

_LINE_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 64 * 1024
_BUFFER_BYTES = 1024 * 1024

_LEAF = 4096
_LARGEST_NUMBER = 1 << 40

_encode = json.JSONEncoder(separators=(",", ":")).encode


class JournalError(Exception):
    """The journal cannot be used, and why; says what to do."""


class Journal:
    """The journal at a path.

    `open()` first, to its end; then `is_done` and `add`. Not for several threads.
    """

    def __init__(self, path: str | os.PathLike[str], source: str, options: Mapping[str, object] | None = None) -> None:
        """Name the journal; nothing is opened yet.

        Args:
            path: the file, which is made if it is not there.
            source: the input's name.
            options: what else makes it another input, or other results. JSON values.
        """
        self._path = os.fspath(path)
        self._source = source
        mark = json.dumps([source, dict(options or {})], sort_keys=True)
        self._fingerprint = hashlib.sha256(mark.encode()).hexdigest()[:32]
        self._done = _Done()
        self._fd = -1
        self._is_read = False
        self._buffer = bytearray()
        self._is_flush_due = False
        self._failed: OSError | None = None  # in a flush that nobody waited for

    def __len__(self) -> int:
        return self._done.count

    def open(self) -> Iterator[Result]:
        """Lock the journal, make or check it, and give the results of earlier runs, which are to be used up.

        Raises:
            JournalError: it is another input's, damaged, in use, or no journal. It has not been changed then.
            OSError: it cannot be opened.
        """
        if self._fd >= 0:
            raise RuntimeError("the journal is open already")
        self._fd = self._locked()
        try:
            end = self._checked_end()
        except BaseException:
            self._abandon()
            raise
        return self._results(end)

    def is_done(self, target: Target) -> bool:
        """Whether an entry of the input has a result.

        Raises:
            JournalError: the result is another URL's: the input has changed.
        """
        done = self._done.has(target.number, target.url)
        if done is None:
            raise JournalError(
                f"{self._path}: entry {target.number} is {shown(target.url)} now, and was"
                f" {self._url_at(target.number)}: the input has changed. Take it as it was, or another journal"
            )
        return done

    def add(self, result: Result) -> bool:
        """Note a result, which is written when the turn of the running loop ends, or by `flush()`.

        Returns:
            Whether it is new. What is done already is not written again.

        Raises:
            JournalError: there is another URL's result at this number.
            OSError: what was added before could not be written.
        """
        if not self._is_read:
            raise RuntimeError("open() the journal and use up its results first")
        self._raise_failure()
        done = self._done.add(result.number, result.url)
        if done is None:
            raise JournalError(f"{self._path}: entry {result.number} has two URLs, one of them {shown(result.url)}")
        if not done:
            return False
        self._buffer += _encode(record_of(result)).encode() + b"\n"
        if len(self._buffer) >= _BUFFER_BYTES:
            self.flush()
        elif not self._is_flush_due:
            self._schedule_flush()
        return True

    def flush(self) -> None:
        """Write what was added.

        Raises:
            OSError: the disk is full, or the like. What has not been written is written by the next call.
        """
        self._is_flush_due = False
        self._failed = None
        write_all(self._fd, self._buffer, self._path)

    def close(self) -> None:
        """Write all, to the disk, and give the journal free."""
        if self._fd < 0:
            return
        try:
            self.flush()
            os.fsync(self._fd)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        fd, self._fd, self._is_read = self._fd, -1, False
        self._buffer.clear()
        os.close(fd)

    def _schedule_flush(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # whoever runs without a loop flushes by himself
        self._is_flush_due = True
        loop.call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        if not self._is_flush_due or self._fd < 0:
            return
        try:
            self.flush()
        except OSError as error:
            self._failed = error

    def _raise_failure(self) -> None:
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    # -- opening --------------------------------------------------------------------------------------

    def _locked(self) -> int:
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise JournalError(f"{self._path}: a journal must be a file")
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(fd, self._path):
                    return fd
            except BlockingIOError:
                os.close(fd)
                raise JournalError(f"{self._path}: in use by another run, which must end first") from None
            except BaseException:
                os.close(fd)
                raise
            # Somebody has replaced the file between the two calls.
            os.close(fd)

    def _header(self) -> bytes:
        header = {"kind": _KIND, "version": _VERSION, "fingerprint": self._fingerprint, "source": self._source}
        return json.dumps(header).encode() + b"\n"

    def _checked_end(self) -> int:
        """Where the last whole line ends; the header is there afterwards."""
        start = os.pread(self._fd, _PIECE_BYTES, 0)
        line, newline, _ = start.partition(b"\n")
        if not newline and (line.startswith(_START) or _START.startswith(line)):
            # New, or killed before its first line was there.
            os.ftruncate(self._fd, 0)
            self._buffer += self._header()
            self.flush()
            return os.fstat(self._fd).st_size
        if not line.startswith(_START) or not newline:
            raise JournalError(f"{self._path}: no journal of oneloop check: name another file")
        self._check_header(line)
        end = _end_of_lines(self._fd)
        if end < os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, end)
        return end

    def _check_header(self, line: bytes) -> None:
        try:
            header = json.loads(line)
        except ValueError:
            raise JournalError(f"{self._path}: line 1 is damaged: start anew with another journal") from None
        if header.get("version") != _VERSION:
            raise JournalError(
                f"{self._path}: of version {shown(str(header.get('version')))}, and this oneloop knows {_VERSION}:"
                " start anew with another journal"
            )
        if header.get("fingerprint") != self._fingerprint:
            other = shown(str(header.get("source")))
            what = "with other options" if other == shown(self._source) else f"not {shown(self._source)}"
            raise JournalError(f"{self._path}: the journal of {other}, {what}: name another journal")

    def _results(self, end: int) -> Iterator[Result]:
        with os.fdopen(os.dup(self._fd), "rb", buffering=_PIECE_BYTES) as file:
            for number, line in self._lines(file, end):
                try:
                    result = result_of(json.loads(line))
                    if not 0 < result.number < _LARGEST_NUMBER:
                        raise ValueError(f"no number of an entry: {result.number}")
                    is_new = self._done.add(result.number, result.url)
                    if is_new is None:
                        raise ValueError(f"entry {result.number} has another URL before")
                except (ValueError, RecursionError) as error:
                    raise JournalError(
                        f"{self._path}: line {number} is damaged ({shown(str(error))}): remove this line, and its URL"
                        " is requested again"
                    ) from None
                if is_new:
                    yield result
        self._is_read = True

    def _lines(self, file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
        file.seek(0)
        position = len(file.readline())
        number = 1
        while position < end:
            line = file.readline(_LINE_BYTES)
            position += len(line)
            number += 1
            yield number, line

    def _url_at(self, number: int) -> str:
        """The URL that an entry had, looked up in the file."""
        self.flush()
        with os.fdopen(os.dup(self._fd), "rb", buffering=_PIECE_BYTES) as file:
            for _, line in self._lines(file, os.fstat(self._fd).st_size):
                result = result_of(json.loads(line))
                if result.number == number:
                    return shown(result.url)
        return "another"


def _is_at(fd: int, path: str) -> bool:
    try:
        there = Path(path).stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def _end_of_lines(fd: int) -> int:
    """Where the last line end of a file is."""
    position = os.fstat(fd).st_size
    while position > 0:
        start = max(0, position - _PIECE_BYTES)
        found = os.pread(fd, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


class _Done:
    """Which numbers are done, and by which URLs. Hashes are this process's own, and never written."""

    def __init__(self) -> None:
        self.count = 0
        self._leaves: dict[int, array[int]] = {}  # 0: not done

    def has(self, number: int, url: str) -> bool | None:
        """Whether a number is done; None if another URL did it."""
        leaf = self._leaves.get(number // _LEAF)
        known = leaf[number % _LEAF] if leaf is not None else 0
        return None if known and known != _hash(url) else known != 0

    def add(self, number: int, url: str) -> bool | None:
        """Whether it is new; None if another URL is done at this number."""
        leaf = self._leaves.get(number // _LEAF)
        if leaf is None:
            leaf = self._leaves[number // _LEAF] = array("q", bytes(8 * _LEAF))
        known, mark = leaf[number % _LEAF], _hash(url)
        if known:
            return False if known == mark else None
        leaf[number % _LEAF] = mark
        self.count += 1
        return True


def _hash(url: str) -> int:
    return hash(url) or 1
