"""`Pipe`: one end of a child's pipe, which green threads read and write without blocking the loop."""

from __future__ import annotations

import io
import os
import warnings
import weakref
from typing import Any

from oneloop.green.os import close as _close
from oneloop.green.os import make_nonblocking, nb_read, nb_write, wait_readable, wait_writable

__all__ = ["Pipe", "hand_over", "open_pipe"]

_set_blocking = os.set_blocking
_read = os.read
_write = os.write

_READ_BYTES = 64 * 1024
# A pipe that is ready for writing takes so much without blocking (POSIX's PIPE_BUF is at least 512; Linux: a page).
_PIPE_BYTES = 4096

_open: weakref.WeakValueDictionary[int, Pipe] = weakref.WeakValueDictionary()


class Pipe(io.RawIOBase):
    """A pipe's raw end; owns the descriptor. For the green threads of one thread at a time.

    The descriptor is non-blocking, until it is given to another process as well: that would not expect it. From then on
    it is asked for readiness before each operation.
    """

    def __init__(self, fd: int, mode: str) -> None:
        self._fd = fd
        self._is_shared = False
        self.name = fd
        self.mode = mode
        make_nonblocking(fd)
        _open[fd] = self

    def fileno(self) -> int:
        """The descriptor.

        Raises:
            ValueError: it is closed.
        """
        self._check_open()
        return self._fd

    def readable(self) -> bool:
        """Whether it is the end that is read."""
        self._check_open()
        return self.mode == "rb"

    def writable(self) -> bool:
        """Whether it is the end that is written."""
        self._check_open()
        return self.mode == "wb"

    def isatty(self) -> bool:
        """It is a pipe."""
        self._check_open()
        return False

    def share(self) -> None:
        """Another process gets the descriptor too: have it block."""
        self._is_shared = True
        _set_blocking(self._fd, True)

    def read(self, size: int | None = -1, /) -> bytes:
        """See `io.RawIOBase.read`."""
        self._check_readable()
        if size is None or size < 0:
            return self.readall()
        return self._read_some(size)

    def readinto(self, buffer: Any, /) -> int:
        """See `io.RawIOBase.readinto`."""
        self._check_readable()
        view = memoryview(buffer).cast("B")
        data = self._read_some(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """See `io.RawIOBase.readall`."""
        self._check_readable()
        pieces = []
        while data := self._read_some(_READ_BYTES):
            pieces.append(data)
        return b"".join(pieces)

    def write(self, data: Any, /) -> int:
        """See `io.RawIOBase.write`."""
        self._check_open()
        if self.mode != "wb":
            raise io.UnsupportedOperation("not writable")
        if not self._is_shared:
            return nb_write(self._fd, data)
        wait_writable(self._fd)
        return _write(self._fd, memoryview(data).cast("B")[:_PIPE_BYTES])

    def _read_some(self, size: int) -> bytes:
        if not self._is_shared:
            return nb_read(self._fd, size)
        wait_readable(self._fd)
        return _read(self._fd, size)

    def close(self) -> None:
        """Close it. Green threads that wait for it get `cancel_wait_ex`."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            fd, self._fd = self._fd, -1
            if _open.get(fd) is self:
                del _open[fd]
            _close(fd)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check_readable(self) -> None:
        self._check_open()
        if self.mode != "rb":
            raise io.UnsupportedOperation("not readable")

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"fd={self._fd}"
        return f"<{type(self).__module__}.{type(self).__qualname__} {state} mode={self.mode!r}>"


def open_pipe(fd: int, mode: str, buffering: int, text: dict[str, Any] | None) -> Any:
    """What `open(fd, mode, buffering)` gives, in the form of `Pipe`; with `text`, the arguments of a TextIOWrapper.

    The descriptor is closed if that fails.
    """
    if buffering == 1:
        warnings.warn(
            "line buffering (buffering=1) isn't supported in binary mode, the default buffer size will be used",
            RuntimeWarning,
            stacklevel=6,
        )
    raw = Pipe(fd, mode)
    try:
        binary: Any = raw
        if buffering != 0:
            size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
            binary = io.BufferedReader(raw, size) if mode == "rb" else io.BufferedWriter(raw, size)
        return binary if text is None else io.TextIOWrapper(binary, **text)
    except BaseException:
        raw.close()
        raise


def hand_over(file: object) -> None:
    """Another process gets the descriptor, a number or an object with `fileno()`: if it is a `Pipe`'s, it is shared."""
    number = file if isinstance(file, int) else file.fileno()  # type: ignore[attr-defined]
    pipe = _open.get(number)
    if pipe is not None:
        pipe.share()
