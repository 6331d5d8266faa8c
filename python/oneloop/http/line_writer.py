"""`LineWriter`: writes lines to a descriptor, and never blocks the loop.

| the descriptor is          | is written                                                   |
|----------------------------|--------------------------------------------------------------|
| a file, a device           | at once: it does not wait for a reader                       |
| a pipe, a terminal         | through an open file description of its own, which is opened |
|                            | again through /proc and does not block                       |
| a pipe without a reader    | not: its lines are lost until a reader comes                 |
| a socket                   | with MSG_DONTWAIT                                            |
| one that cannot be so used | by a thread                                                  |

The description itself belongs to other processes, too: O_NONBLOCK on it would be theirs. Lines that nobody takes are
kept up to a limit. Further ones, and those that cannot be written, are dropped and counted.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import logging
import os
import select
import socket
import stat
import sys
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["LineWriter"]

KEPT_BYTES = 1024 * 1024
# pipe(7): a write of up to this length is written whole or not at all, so that lines of several processes stay apart.
WHOLE_BYTES = select.PIPE_BUF
# How long the last lines may take at the end.
END_S = 1.0

log = logging.getLogger("oneloop.error")


class LineWriter:
    """Writes whole lines. Use it only in the loop's thread.

    Args:
        loop: the loop that waits until the descriptor takes more.
        fd: the descriptor; the caller keeps it open.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop = loop
        self._fd = fd
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._is_waiting = False
        self._is_broken = False
        self.dropped_lines = 0
        self._told_lines = 0
        # The descriptor to write to and to wait for, if there is one, and how it is closed.
        self._own: int | None = None
        self._put: Callable[[bytes], int] = self._writer_to(fd)
        self._end: Callable[[], None] = lambda: None
        self._is_unread = False
        self._needs_thread = False
        # In the thread that writes, if there is one.
        self._lock = _real("_thread", "allocate_lock")()
        self._open()

    def _open(self) -> None:
        self._is_unread = False
        try:
            mode = os.fstat(self._fd).st_mode
            if stat.S_ISSOCK(mode):
                # With this type it is non-blocking, and not the description: the program's default timeout is not used.
                kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK
                made = _socket.socket(type=kind, fileno=os.dup(self._fd))
                self._own, self._end = made.fileno(), made.close
                self._put = lambda data: made.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            elif stat.S_ISFIFO(mode) or os.isatty(self._fd):
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                own = self._own = os.open(f"/proc/self/fd/{self._fd}", flags)
                self._put = self._writer_to(own)
                self._end = lambda: os.close(own)
        except OSError as error:
            self._is_unread = error.errno == errno.ENXIO
            # A closed descriptor fails at the first write.
            self._needs_thread = error.errno not in (errno.ENXIO, errno.EBADF)

    @staticmethod
    def _writer_to(fd: int) -> Callable[[bytes], int]:
        return partial(_real("os", "write"), fd)

    def write(self, lines: bytes) -> None:
        """Write lines, each with its end, or keep them until they can be written."""
        if self._is_unread and not self._has_reader(lines):
            return
        if not self._kept and not self._needs_thread and len(lines) <= WHOLE_BYTES:
            # Most often: one call for each iteration of the loop.
            try:
                lines = lines[self._put(lines) :]
            except BlockingIOError:
                pass
            except OSError as error:
                self._fail(error, lines)
                return
            self._is_broken = False
            if not lines:
                return
        if self._kept_bytes + len(lines) > KEPT_BYTES and self._kept:
            self.dropped_lines += lines.count(b"\n")
            return
        with self._lock:
            self._kept.extend(_pieces(lines))
            self._kept_bytes += len(lines)
            is_idle = not self._is_waiting
            self._is_waiting |= self._needs_thread
        if self._needs_thread:
            if is_idle:
                _real("_thread", "start_new_thread")(self._write_all, ())
        elif is_idle:
            self._go_on()

    def _has_reader(self, lines: bytes) -> bool:
        """Open a pipe again for which a reader may have come. Without one the lines are lost."""
        self._open()
        if self._is_unread:
            self._fail(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)), lines)
        return not self._is_unread

    def _go_on(self) -> None:
        """Write what can be written, and wait for the rest."""
        try:
            self._write_kept()
        except BlockingIOError:
            self._wait(True)
            return
        except OSError as error:
            self._fail(error)
        self._wait(False)

    def _write_kept(self) -> None:
        while self._kept:
            self._take_off(self._put(self._kept[0]))
        # Not before the pipe takes more: stderr may be the same. How many they are in all is told at the end.
        if not self._told_lines:
            self._tell_dropped()

    def _take_off(self, written_bytes: int) -> None:
        """The beginning of what is kept was written."""
        self._is_broken = False
        self._kept_bytes -= written_bytes
        left = self._kept[0][written_bytes:]
        if left:
            self._kept[0] = left
        else:
            self._kept.popleft()

    def _wait(self, is_waiting: bool) -> None:
        if is_waiting == self._is_waiting or self._own is None:
            return
        self._is_waiting = is_waiting
        if is_waiting:
            self._loop.add_writer(self._own, self._go_on)
        else:
            self._loop.remove_writer(self._own)

    def _write_all(self) -> None:
        """In a thread: write until nothing is left."""
        while True:
            with self._lock:
                if not self._kept:
                    self._is_waiting = False
                    return
                data = self._kept[0]
            try:
                written = self._put(data)
            except OSError as error:
                with self._lock:
                    # Nobody writes it any more, and the end does not wait for it.
                    self._drop_kept()
                    self._is_waiting = False
                # The loop is closed: the end has told what it has to tell.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._fail, error)
                return
            with self._lock:
                # The end may have given it up meanwhile.
                if self._kept and self._kept[0] is data:
                    self._take_off(written)

    def _drop_kept(self) -> None:
        """With the lock: nobody gets what is kept."""
        self.dropped_lines += sum(lines.count(b"\n") for lines in self._kept)
        self._kept.clear()
        self._kept_bytes = 0

    def _fail(self, error: OSError, lines: bytes = b"") -> None:
        """Log the first error since a line was written. The server continues without these lines, and those kept."""
        with self._lock:
            self.dropped_lines += lines.count(b"\n")
            self._drop_kept()
        if not self._is_broken:
            self._is_broken = True
            log.warning("The access log cannot be written: %s", error)

    def _tell_dropped(self) -> None:
        if self.dropped_lines > self._told_lines:
            self._told_lines = self.dropped_lines
            log.warning("%d lines of the access log were dropped: it was not read in time.", self.dropped_lines)

    def close(self) -> None:
        """Write what is left, for a short time, and close what was opened here. It may be called again."""
        end_s = time.monotonic() + END_S
        self._wait(False)
        while self._kept:
            left_s = end_s - time.monotonic()
            try:
                if self._needs_thread:
                    _wait(None, 0.01)
                else:
                    self._write_kept()
            except BlockingIOError:
                _wait(self._own, max(left_s, 0))
            except OSError as error:
                self._fail(error)
            if left_s <= 0:
                with self._lock:
                    self._drop_kept()
        self._is_unread = False
        self._own, self._put = None, self._writer_to(self._fd)
        end, self._end = self._end, lambda: None
        end()
        if not self._is_errors_place():
            self._tell_dropped()

    def _is_errors_place(self) -> bool:
        """Return True if stderr is the same pipe, which may be full."""
        try:
            return os.path.sameopenfile(self._fd, 2)
        except OSError:
            return True


def _pieces(lines: bytes) -> list[bytes]:
    """Return parts of whole lines, none longer than `WHOLE_BYTES` unless one line is."""
    if len(lines) <= WHOLE_BYTES:
        return [lines]
    pieces, start = [], 0
    while start < len(lines):
        end = start + WHOLE_BYTES
        if end < len(lines):
            last = lines.rfind(b"\n", start, end)
            end = (last if last >= 0 else lines.find(b"\n", end)) + 1 or len(lines)
        pieces.append(lines[start:end])
        start = end
    return pieces


def _wait(fd: int | None, time_s: float) -> None:
    """Block until the descriptor takes more, or the time is over."""
    poll = _real("select", "poll")()
    if fd is not None:
        poll.register(fd, select.POLLOUT)
    poll.poll(time_s * 1000)


def _real(module: str, name: str) -> Any:
    """A function as it is without the patches of `oneloop.green`, which would switch to another green thread."""
    monkey = sys.modules.get("oneloop.green.monkey")
    return getattr(sys.modules[module], name) if monkey is None else monkey.get_original(module, name)
