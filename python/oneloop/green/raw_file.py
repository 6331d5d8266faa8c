"""`RawFile`: a descriptor without a buffer, whose operations park the green thread instead of blocking the loop.

What io's buffered and text files stand on. The kinds have files of their own: `RegularFile` goes through the loop's
file engine, `PolledFile` waits until the kernel tells that the descriptor is ready, `PooledFile` asks a thread.

The memory that io hands to `readinto` and `write` is io's own, and may be gone when a killed green thread has left:
nothing but copies of it outlive the call (S3).
"""

from __future__ import annotations

import io
import os
import select as _select
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from oneloop.files.opening import Mode

__all__ = ["LARGEST_STEP_BYTES", "RawFile", "close_now", "is_ready", "read_now", "write_now"]

LARGEST_STEP_BYTES = 1024 * 1024
"""So much is copied for one operation."""

# The standard library's own, whatever is patched later.
read_now, write_now, close_now, _poll = os.read, os.write, os.close, _select.poll


class RawFile(io.RawIOBase):
    """A descriptor; for the green threads of one OS thread, one at a time.

    Args:
        number: the descriptor.
        mode: what it was opened for.
        name: the path, or the number.
        closefd: whether it is closed with this file.
        source: a file object that has the descriptor; it is kept, and closed instead of the descriptor.
    """

    block_bytes = io.DEFAULT_BUFFER_SIZE
    """What a buffer for it is a multiple of."""

    _is_abandoned = False

    def __init__(self, number: int, mode: Mode, name: Any, closefd: bool, source: Any = None) -> None:
        self._number = number
        self._mode = mode
        self._closes = closefd
        self._source = source
        self.name = name
        self._seekable: bool | None = None

    # -- what the kinds do ---------------------------------------------------------------------------

    def _fetch(self, size: int) -> bytes:
        raise NotImplementedError

    def _store(self, data: bytes) -> int:
        raise NotImplementedError

    def _give_back(self) -> None:
        """Close the descriptor."""
        close_now(self._number)

    # -- io.RawIOBase --------------------------------------------------------------------------------

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read into a buffer, as much as there is at once; how many bytes."""
        self._check(self._mode.is_reading, "readable")
        with memoryview(buffer).cast("B") as view:
            data = read_now(self._number, len(view)) if self._is_abandoned else self._fetch(len(view))
            view[: len(data)] = data
            return len(data)

    def write(self, data: ReadableBuffer) -> int:
        """Write as much as goes at once; how many bytes."""
        self._check(self._mode.is_writing, "writable")
        with memoryview(data).cast("B") as view:
            if self._is_abandoned:
                return self._write_blocking(view)
            return self._store(bytes(view[:LARGEST_STEP_BYTES]))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the descriptor's position in the kernel; the new one."""
        return os.lseek(self.fileno(), offset, whence)

    def tell(self) -> int:
        """The descriptor's position in the kernel."""
        return os.lseek(self.fileno(), 0, os.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend the file to so many bytes; to its position if that is None."""
        self._check(self._mode.is_writing, "writable")
        size = self.tell() if size is None else size
        self._cut(size)
        return size

    def _cut(self, size: int) -> None:
        os.ftruncate(self._number, size)

    def close(self) -> None:
        """Close it; nothing the second time."""
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
        """Called by io when a file is collected that was not closed: from here on nobody may be parked."""
        self._is_abandoned = True
        if self._closes and self._number >= 0:
            warnings.warn(f"unclosed file {source!r}", ResourceWarning, stacklevel=2, source=source)

    def fileno(self) -> int:
        """The descriptor. ValueError if it is closed."""
        if self._number < 0:
            raise ValueError("I/O operation on closed file")
        return self._number

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self.fileno())

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        self.fileno()
        return self._mode.is_reading

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        self.fileno()
        return self._mode.is_writing

    def seekable(self) -> bool:
        """Whether it has a position."""
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
        """As `open()` has it: rb, wb, rb+."""
        return self._mode.of_bytes

    @property
    def closefd(self) -> bool:
        """Whether the descriptor is closed with it."""
        return self._closes

    def __repr__(self) -> str:
        if self.closed:
            return f"<{type(self).__name__} [closed]>"
        return f"<{type(self).__name__} name={self.name!r} mode={self.mode!r} closefd={self._closes}>"

    def wake_waiting(self, error: BaseException) -> None:
        """Have an exception raised in a green thread that waits for the descriptor, if one does."""

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
    """Whether the kernel says that a descriptor is ready, after at most so many milliseconds, which block."""
    poll = _poll()
    poll.register(number, events)
    return bool(poll.poll(timeout_ms))
