"""The journal of a run: which URLs have been checked, so that a run that was killed can be continued.

The file has a header line and then a line of JSON for each finished URL, in the order in which they finished. Whole
lines are appended, with one write for all URLs that finished in an iteration of the loop. If the process is killed, at
most the last line is incomplete. It is removed when the journal is opened, and its URL is requested again. Written
lines survive a kill of the process; after `close()` (fsync) they also survive a crash of the machine.

Memory: 8 bytes per entry, for a hash of its URL. With the hashes a change of the input is detected.
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
from typing import TYPE_CHECKING, Any, BinaryIO

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

_FLAGS = {"headers": "header", "form": "input", "family": "ipv4 or --ipv6"}
"""Flags of the command line that are named differently from their options."""


class JournalError(Exception):
    """The journal cannot be used. The message says why, and what to do."""


class Journal:
    """A journal file. Call `open()` and read all results that it yields, then use `is_done` and `add`.

    Not thread-safe.
    """

    def __init__(self, path: str | os.PathLike[str], source: str, options: Mapping[str, object] | None = None) -> None:
        """Make the object; the file is not opened yet.

        Args:
            path: the file. `open()` creates it if it does not exist.
            source: the input's name.
            options: the options that affect the entries or the results, as JSON values.
        """
        self._path = os.fspath(path)
        self._source = source
        self._options = dict(options or {})
        self._fingerprint = _fingerprint([source, self._options])
        self._done = _Done()
        self._fd = -1
        self._is_read = False
        self._buffer = bytearray()
        self._is_flush_due = False
        self._failed: OSError | None = None  # the error of a flush that the loop called

    def __len__(self) -> int:
        return self._done.count

    def open(self) -> Iterator[Result]:
        """Lock the journal, create or check it, and read the results of earlier runs.

        Returns:
            An iterator of the results. Read it to its end before you call `add`.

        Raises:
            JournalError: the file is the journal of another input, damaged, in use, or not a journal. Its lines have
                not been changed then. The iterator raises it for damaged lines.
            OSError: the file cannot be opened.
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
        """Return whether an entry of the input has a result.

        Args:
            target: the entry.

        Raises:
            JournalError: the entry had another URL, so the input has changed.
        """
        done = self._done.has(target.number, target.url)
        if done is None:
            raise JournalError(
                f"{self._path}: entry {target.number} is {shown(target.url)} now, and was"
                f" {self._url_at(target.number)}: the input has changed. Restore it, or use another journal"
            )
        return done

    def add(self, result: Result) -> bool:
        """Add a result. It is written in the next iteration of the running loop, or by `flush()`.

        Args:
            result: the result.

        Returns:
            Whether the result is new. An entry that has a result is not written again.

        Raises:
            JournalError: the entry with this number has the result of another URL.
            OSError: an earlier result could not be written.
        """
        if not self._is_read:
            raise RuntimeError("call open() and read all of its results before add()")
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
        """Write the results that were added.

        Raises:
            OSError: writing failed, for example because the disk is full. The next call writes the rest.
        """
        self._is_flush_due = False
        self._failed = None
        write_all(self._fd, self._buffer, self._path)

    def close(self) -> None:
        """Write all results, wait for the disk (fsync), and unlock and close the file.

        Raises:
            OSError: writing failed. The file is closed nevertheless.
        """
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
            return  # without a loop, the caller flushes
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
                    raise JournalError(f"{self._path}: the journal must be a regular file")
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(fd, self._path):
                    return fd
            except BlockingIOError:
                os.close(fd)
                raise JournalError(f"{self._path}: in use by another run: wait until it ends, or end it") from None
            except BaseException:
                os.close(fd)
                raise
            # Another process has replaced the file between the two calls.
            os.close(fd)

    def _header(self) -> bytes:
        header = {"kind": _KIND, "version": _VERSION, "fingerprint": self._fingerprint, "source": self._source}
        # Not the values, because a password may be among them.
        marks = {name: _fingerprint(value) for name, value in self._options.items()}
        return json.dumps({**header, "options": marks}).encode() + b"\n"

    def _checked_end(self) -> int:
        """The offset at which the last complete line ends. Writes the header if there is none."""
        start = os.pread(self._fd, _PIECE_BYTES, 0)
        line, newline, _ = start.partition(b"\n")
        is_whole = len(start) < _PIECE_BYTES  # otherwise the file may have lines after a long first one
        if not newline and is_whole and (line.startswith(_START) or _START.startswith(line)):
            # The file is new, or its run was killed before the header was complete.
            os.ftruncate(self._fd, 0)
            self._buffer += self._header()
            self.flush()
            return os.fstat(self._fd).st_size
        if not line.startswith(_START) or not newline:
            raise JournalError(f"{self._path}: not a journal of oneloop check: use another file")
        self._check_header(line)
        end = _end_of_lines(self._fd)
        if end < os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, end)
        return end

    def _check_header(self, line: bytes) -> None:
        try:
            header = json.loads(line)
        except (ValueError, RecursionError):
            raise JournalError(f"{self._path}: line 1 is damaged: use another journal") from None
        if header.get("version") != _VERSION:
            raise JournalError(
                f"{self._path}: has version {shown(str(header.get('version')))}, but this oneloop reads version"
                f" {_VERSION}: use another journal"
            )
        if header.get("fingerprint") != self._fingerprint:
            other = shown(str(header.get("source")))
            what = self._difference(header) if other == shown(self._source) else f"not {shown(self._source)}"
            raise JournalError(f"{self._path}: the journal of {other}, {what}: use another journal")

    def _difference(self, header: Mapping[str, Any]) -> str:
        before = header.get("options")
        if not isinstance(before, dict):
            return "with other options"
        changed = [name for name, value in self._options.items() if before.get(name) != _fingerprint(value)]
        flags = ", ".join(f"--{_FLAGS.get(name, name).replace('_', '-')}" for name in changed)
        return f"with another {flags}" if len(changed) == 1 else f"with other values of {flags}"

    def _results(self, end: int) -> Iterator[Result]:
        with os.fdopen(os.dup(self._fd), "rb", buffering=_PIECE_BYTES) as file:
            for number, line in self._lines(file, end):
                try:
                    result = result_of(json.loads(line))
                    if not 0 < result.number < _LARGEST_NUMBER:
                        raise ValueError(f"not the number of an entry: {result.number}")
                    is_new = self._done.add(result.number, result.url)
                    if is_new is None:
                        raise ValueError(f"an earlier line has another URL for entry {result.number}")
                except (ValueError, RecursionError) as error:
                    raise JournalError(
                        f"{self._path}: line {number} is damaged ({shown(str(error))}): remove this line; its URL"
                        " is then requested again"
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
        """The URL that an entry had, read from the file."""
        self.flush()
        with os.fdopen(os.dup(self._fd), "rb", buffering=_PIECE_BYTES) as file:
            for _, line in self._lines(file, os.fstat(self._fd).st_size):
                result = result_of(json.loads(line))
                if result.number == number:
                    return shown(result.url)
        return "another URL"


def _is_at(fd: int, path: str) -> bool:
    try:
        there = Path(path).stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def _end_of_lines(fd: int) -> int:
    """The offset after the last line feed of a file."""
    position = os.fstat(fd).st_size
    while position > 0:
        start = max(0, position - _PIECE_BYTES)
        found = os.pread(fd, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


class _Done:
    """The numbers of the finished entries with a hash of each URL. The hashes are valid in this process only."""

    def __init__(self) -> None:
        self.count = 0
        self._leaves: dict[int, array[int]] = {}  # hashes; 0: not finished

    def has(self, number: int, url: str) -> bool | None:
        """Return whether an entry is finished; None if it is finished with another URL."""
        leaf = self._leaves.get(number // _LEAF)
        known = leaf[number % _LEAF] if leaf is not None else 0
        return None if known and known != _hash(url) else known != 0

    def add(self, number: int, url: str) -> bool | None:
        """Mark an entry as finished. Return whether it is new; None if it is finished with another URL."""
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


def _fingerprint(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
