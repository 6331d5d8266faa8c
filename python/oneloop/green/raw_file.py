"""`RawFile`: an unbuffered file on a descriptor, whose operations park the green thread instead of blocking the loop.

It is the base of io's buffered and text files. Its subclasses are: `RegularFile`, which uses the loop's file engine;
`PolledFile`, which waits until the kernel reports the descriptor as ready; and `PooledFile`, which uses OS threads.

The memory that io passes to `readinto` and `write` belongs to io. It may be freed when a killed green thread leaves the
call, so only copies of it outlive the call (S3).
"""

from __future__ import annotations

import io
import os
import select as _select
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from oneloop.files.request import Mode

__all__ = ["LARGEST_STEP_BYTES", "RawFile", "close_now", "is_ready", "read_now", "write_now"]

LARGEST_STEP_BYTES = 1024 * 1024
"""The maximum number of bytes that are copied for one operation."""

# The original functions, even if patching replaces them later.
read_now, write_now, close_now, _poll = os.read, os.write, os.close, _select.poll


class RawFile(io.RawIOBase):
    """An unbuffered file on a descriptor. Use it in the green threads of one OS thread, one at a time.

    Args:
        number: the descriptor.
        mode: the mode in which it was opened.
        name: the path or the number.
        closefd: whether closing this file closes the descriptor.
        source: a file object that has the descriptor. It is kept alive, and closed instead of the descriptor.
    """

    block_bytes = io.DEFAULT_BUFFER_SIZE
    """Buffer sizes for this file should be a multiple of this."""

    _is_abandoned = False

    def __init__(self, number: int, mode: Mode, name: Any, closefd: bool, source: Any = None) -> None:
        self._number = number
        self._mode = mode
        self._closes = closefd
        self._source = source
        self.name = name
        self._seekable: bool | None = None

    # -- hooks for subclasses --------------------------------------------------------------------------

    def _fetch(self, size: int) -> bytes:
        raise NotImplementedError

    def _store(self, data: bytes) -> int:
        raise NotImplementedError

    def _give_back(self) -> None:
        """Close the descriptor."""
        close_now(self._number)

    # -- io.RawIOBase --------------------------------------------------------------------------------

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read available data into a buffer. Return the number of bytes read."""
        self._check(self._mode.is_reading, "readable")
        with memoryview(buffer).cast("B") as view:
            data = read_now(self._number, len(view)) if self._is_abandoned else self._fetch(len(view))
            view[: len(data)] = data
            return len(data)

    def write(self, data: ReadableBuffer) -> int:
        """Write data; it may write only a part. Return the number of bytes written."""
        self._check(self._mode.is_writing, "writable")
        with memoryview(data).cast("B") as view:
            if self._is_abandoned:
                return self._write_blocking(view)
            return self._store(bytes(view[:LARGEST_STEP_BYTES]))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the descriptor's position in the kernel. Return the new position."""
        return os.lseek(self.fileno(), offset, whence)

    def tell(self) -> int:
        """The descriptor's position in the kernel."""
        return os.lseek(self.fileno(), 0, os.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        """Truncate or extend the file to `size` bytes; None means the current position."""
        self._check(self._mode.is_writing, "writable")
        size = self.tell() if size is None else size
        self._cut(size)
        return size

    def _cut(self, size: int) -> None:
        os.ftruncate(self._number, size)

    def close(self) -> None:
        """Close the file. No effect if it is closed."""
        if self.closed:
            return
        if getattr(self, "_finalizing", False):
            self._dealloc_warn(self)
        try:
            super().close()
        finally:
            source, self._source = self._source, None
            try:
                if self._closes and source is not None:
                    source.close()
                elif self._closes:
                    self._give_back()
            finally:
                self._number = -1

    def _dealloc_warn(self, source: object) -> None:
        """Called by io if the file is garbage collected before it was closed. From now on, operations must not park."""
        self._is_abandoned = True
        if self._closes and self._number >= 0:
            warnings.warn(f"unclosed file {source!r}", ResourceWarning, stacklevel=2, source=source)

    def fileno(self) -> int:
        """The descriptor. Raises ValueError if the file is closed."""
        if self._number < 0:
            raise ValueError("I/O operation on closed file")
        return self._number

    def isatty(self) -> bool:
        """Whether the file is a terminal."""
        return os.isatty(self.fileno())

    def readable(self) -> bool:
        """Whether the file was opened for reading."""
        self.fileno()
        return self._mode.is_reading

    def writable(self) -> bool:
        """Whether the file was opened for writing."""
        self.fileno()
        return self._mode.is_writing

    def seekable(self) -> bool:
        """Whether the file has a position."""
        if self._seekable is None:
            try:
                self.tell()
            except OSError:
                self._seekable = False
            else:
                self._seekable = True
        return self._seekable

    @property
    def mode(self) -> str:
        """The mode as in `open()`: rb, wb, rb+."""
        return self._mode.of_bytes

    @property
    def closefd(self) -> bool:
        """Whether closing this file closes the descriptor."""
        return self._closes

    def __repr__(self) -> str:
        if self.closed:
            return f"<{type(self).__name__} [closed]>"
        return f"<{type(self).__name__} name={self.name!r} mode={self.mode!r} closefd={self._closes}>"

    def wake_waiting(self, error: BaseException) -> None:
        """Raise an exception in the green thread that waits for the descriptor, if there is one."""

    def _check(self, is_allowed: bool, what: str) -> None:
        self.fileno()
        if not is_allowed:
            raise io.UnsupportedOperation(f"File or stream is not {what}.")

    def _write_blocking(self, view: memoryview) -> int:
        while True:
            try:
                return write_now(self._number, view)
            except BlockingIOError:
                is_ready(self._number, _select.POLLOUT, None)


def is_ready(number: int, events: int, timeout_ms: int | None) -> bool:
    """Whether a descriptor is ready within `timeout_ms` milliseconds. Blocks the OS thread; None means no limit."""
    poll = _poll()
    poll.register(number, events)
    return bool(poll.poll(timeout_ms))
