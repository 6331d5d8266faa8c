"""`Pipe`: one end of a child's pipe, which green threads read and write without blocking the loop."""

from __future__ import annotations

import io
import os
import warnings
import weakref
from stat import S_ISFIFO
from typing import Any

from oneloop.green.os import close as _close
from oneloop.green.os import make_nonblocking, nb_read, nb_write, wait_readable, wait_writable

__all__ = ["Pipe", "hand_over", "open_pipe"]

_set_blocking = os.set_blocking
_read = os.read
_write = os.write

_READ_BYTES = 64 * 1024
# A writable pipe accepts this many bytes without blocking (PIPE_BUF: at least 512 in POSIX, one page on Linux).
_PIPE_BYTES = 4096

_open: weakref.WeakValueDictionary[int, Pipe] = weakref.WeakValueDictionary()


class Pipe(io.RawIOBase):
    """One raw end of a pipe; owns the descriptor. Use it in the green threads of one OS thread at a time.

    The descriptor is in non-blocking mode until it is passed to another process, which would not expect that. After
    that, each operation first waits until the descriptor is ready.
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
            ValueError: the pipe is closed.
        """
        self._check_open()
        return self._fd

    def readable(self) -> bool:
        """Whether this is the reading end."""
        self._check_open()
        return self.mode == "rb"

    def writable(self) -> bool:
        """Whether this is the writing end."""
        self._check_open()
        return self.mode == "wb"

    def isatty(self) -> bool:
        """Return False."""
        self._check_open()
        return False

    def share(self) -> None:
        """Put the descriptor into blocking mode, because another process gets it too."""
        self._is_shared = True
        _set_blocking(self._fd, True)

    def read(self, size: int | None = -1, /) -> bytes:
        """Like `io.RawIOBase.read`."""
        self._check_readable()
        if size is None or size < 0:
            return self.readall()
        return self._read_some(size)

    def readinto(self, buffer: Any, /) -> int:
        """Like `io.RawIOBase.readinto`."""
        self._check_readable()
        view = memoryview(buffer).cast("B")
        data = self._read_some(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Like `io.RawIOBase.readall`."""
        self._check_readable()
        pieces = []
        while data := self._read_some(_READ_BYTES):
            pieces.append(data)
        return b"".join(pieces)

    def write(self, data: Any, /) -> int:
        """Like `io.RawIOBase.write`."""
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
        """Close the pipe. It raises `cancel_wait_ex` in green threads that wait for it."""
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
    """Like `open(fd, mode, buffering)`, based on a `Pipe`.

    The descriptor is closed if an error occurs.

    Args:
        fd: the descriptor.
        mode: "rb" or "wb".
        buffering: as in `open`.
        text: the arguments of a TextIOWrapper; None for a binary file.
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
    """Prepare a pipe for another process, which expects that it blocks.

    Args:
        file: a descriptor, or an object with `fileno()`.
    """
    number = file if isinstance(file, int) else file.fileno()  # type: ignore[attr-defined]
    pipe = _open.get(number)
    if pipe is not None:
        pipe.share()
    elif S_ISFIFO(os.fstat(number).st_mode) and not os.get_blocking(number):
        _set_blocking(number, True)
