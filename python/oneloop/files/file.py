"""`File`, the base class of all binary files. It calls a `Handle`."""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, Self

from oneloop import _native
from oneloop.files.engine import bounded, joined
from oneloop.files.views import advance, readable, writable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence

    from _typeshed import ReadableBuffer, WriteableBuffer

    from oneloop.files.handle import Handle

__all__ = ["File", "lines_of", "next_line"]

# readv(2), writev(2): IOV_MAX.
MOST_BUFFERS = 1024


class File(_native.FastFile):
    """The base class of binary files. Internal: programs call `open()`.

    `read`, `readline`, `write`, `pread`, `flush`, `close` and `__aexit__` are native. The coroutines with the same
    names and an underscore are their slow paths: they are called if the operation has to wait or is unusual.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        handle: Handle

        def read(self, size: int | None = -1, /, *, timeout: float | None = None) -> Coroutine[Any, Any, bytes]: ...
        def readline(self, size: int | None = -1, /, *, timeout: float | None = None) -> Coroutine[Any, Any, bytes]: ...
        def write(self, data: ReadableBuffer, /, *, timeout: float | None = None) -> Coroutine[Any, Any, int]: ...
        def seek(
            self, offset: int, whence: int = 0, /, *, timeout: float | None = None
        ) -> Coroutine[Any, Any, int]: ...

    if not TYPE_CHECKING:  # another name of the native attribute
        handle = _native.FastFile._handle

    def __repr__(self) -> str:
        return f"<oneloop.files.{type(self).__name__} name={self.name!r} mode={self.mode!r}>"

    # -- properties ------------------------------------------------------------------------------

    @property
    def name(self) -> str | bytes | int:
        """The `file` argument of `open()`."""
        return self.handle.opened.name

    @property
    def mode(self) -> str:
        """The mode as in `io`: rb, wb, ab, xb, rb+, ab+, xb+; from Python 3.15 on also wb+."""
        return self.handle.opened.mode.of_bytes

    @property
    def closed(self) -> bool:
        """True once the file is closed."""
        return self.handle.number < 0

    def fileno(self) -> int:
        """Return the descriptor. From now on the kernel's position is the file's.

        A child process that inherits the descriptor therefore continues where the program stopped (after a `flush()`).

        Raises:
            ValueError: the file is closed.
        """
        return self.handle.give_out()

    def isatty(self) -> bool:
        """Return True if the file is a terminal."""
        self.handle.check_open()
        # For a regular file isatty(3) could ask a file server, so skip it.
        return not self.handle.opened.is_file and os.isatty(self.handle.number)

    def readable(self) -> bool:
        """Return True if the file was opened for reading."""
        self.handle.check_open()
        return self.handle.opened.mode.is_reading

    def writable(self) -> bool:
        """Return True if the file was opened for writing."""
        self.handle.check_open()
        return self.handle.opened.mode.is_writing

    def seekable(self) -> bool:
        """Return True if the file supports `seek` and `tell`."""
        self.handle.check_open()
        return self.handle.opened.is_seekable

    # -- transfers at an explicit offset ---------------------------------------------------------
    #
    # Each of these first flushes data that was written at the position and is still buffered, and therefore sees that
    # data. The order among several of them is not defined. A cancelled one may still take place later.

    @bounded
    async def _pread(self, size: int, offset: int, *, timeout: float | None = None) -> bytes:
        handle = self.handle
        handle.check_reading("pread")
        if size < 0 or offset < 0:
            _check_sign(size, offset)
        if handle.is_dirty():
            await self.flush()
            handle.check()
        is_direct = handle.opened.is_direct
        data = handle.files.read(handle.number, size, offset, is_direct)
        if isinstance(data, asyncio.Future):
            data = await data
        if len(data) == size or not data or is_direct:
            # With O_DIRECT, a short read is the end of the file: the next offset would not be aligned.
            return data
        pieces = [data]
        while data and (missing := size - sum(map(len, pieces))):
            handle.check()
            data = handle.files.read(handle.number, missing, offset + size - missing, is_direct)
            if isinstance(data, asyncio.Future):
                data = await data
            pieces.append(data)
        return await joined(handle.files, pieces)

    async def pwrite(self, data: ReadableBuffer, offset: int, *, timeout: float | None = None) -> int:
        """Write all of `data` at `offset`. The position does not change.

        The read-ahead data of a binary file is discarded; text that a text file has already decoded is not. A file
        that was opened for appending appends, whatever the offset (see pwrite(2), BUGS).

        Args:
            data: bytes-like; must not change until the call returns.
            offset: in bytes, not negative.
            timeout: in seconds, or None.

        Returns:
            The number of bytes written, `len(data)`.

        Raises:
            OSError: pwritev(2) failed.
            ValueError: the file is closed.
            io.UnsupportedOperation: the file was not opened for writing.
            TimeoutError: the timeout has expired.
        """
        return await self.writev([data], offset, timeout=timeout)

    @bounded
    async def readv(
        self, buffers: Sequence[WriteableBuffer], offset: int | None = None, *, timeout: float | None = None
    ) -> int:
        """Fill `buffers` one after the other, from `offset` on, or from the position on if that is None.

        Args:
            buffers: writable buffers; must not be used until the call returns.
            offset: in bytes; with an offset, the position does not change.
            timeout: in seconds, or None.

        Returns:
            The number of bytes; fewer than the buffers' size only at the end of the file.

        Raises:
            OSError, ValueError, io.UnsupportedOperation, TimeoutError: as `pwrite`, for reading.
        """
        handle = self.handle
        handle.check_reading("readv")
        views = [writable(buffer) for buffer in buffers]
        if offset is None:
            data = await self.read(sum(map(len, views)))
            at = 0
            for view in views:
                part = data[at : at + len(view)]
                view[: len(part)] = part
                at += len(part)
            return at
        _check_sign(offset)
        if handle.is_dirty():
            await self.flush()
        total = 0
        while views:
            done = await handle.readv(views[:MOST_BUFFERS], offset + total)
            if not done:
                break
            total += done
            advance(views, done)
        return total

    @bounded
    async def writev(
        self, buffers: Sequence[ReadableBuffer], offset: int | None = None, *, timeout: float | None = None
    ) -> int:
        """Write all of `buffers` one after the other, at `offset`, or at the position if that is None.

        Returns the number of bytes. Arguments and errors are those of `pwrite`.
        """
        handle = self.handle
        handle.check_writing("writev")
        views = [readable(buffer) for buffer in buffers]
        if offset is None:
            return await self.write(b"".join(views))
        _check_sign(offset)
        if handle.is_dirty():
            await self.flush()
        total = 0
        try:
            while views:
                done = handle.writev(views[:MOST_BUFFERS], offset + total)
                if isinstance(done, asyncio.Future):
                    done = await done
                total += done
                advance(views, done)
        finally:
            handle.forget_ahead()
        return total

    # -- the position ----------------------------------------------------------------------------

    @bounded
    async def tell(self, *, timeout: float | None = None) -> int:
        """Return the position in bytes.

        Raises:
            OSError: the file has no position.
            ValueError: the file is closed.
        """
        handle = self.handle
        handle.check()
        if not handle.take_turn():
            await handle.begin()
        try:
            return handle.tell()
        finally:
            handle.leave()

    @bounded
    async def truncate(self, size: int | None = None, /, *, timeout: float | None = None) -> int:
        """Cut or extend the file to `size` bytes, None: to the position. The position does not change.

        Returns the new size.

        Raises:
            OSError: ftruncate(2) failed.
            ValueError: the file is closed.
            io.UnsupportedOperation: the file was not opened for writing.
            TimeoutError: the timeout has expired.
        """
        handle = self.handle
        handle.check_writing("truncate" if handle.opened.buffer_bytes else "File not open for writing")
        wanted = None if size is None else index(size)
        if not handle.take_turn():
            await handle.begin()
        try:
            await handle.write_out()
            handle.rewind()
            length = handle.raw_tell() if wanted is None else wanted
            await handle.truncate(length)
            return length
        finally:
            handle.leave()

    @bounded
    async def writelines(self, lines: Iterable[ReadableBuffer], /, *, timeout: float | None = None) -> None:
        """Write the items one after the other, without adding line ends."""
        self.handle.check_writing("write" if self.handle.opened.buffer_bytes else "File not open for writing")
        for line in lines:
            await self.write(line)

    # -- flushing, syncing and closing -----------------------------------------------------------

    @bounded
    async def _flush(self, *, timeout: float | None = None) -> None:
        handle = self.handle
        handle.check()
        if not handle.take_turn():
            await handle.begin()
        try:
            await handle.write_out()
        finally:
            handle.leave()

    @bounded
    async def fsync(self, *, timeout: float | None = None) -> None:
        """Flush the buffer and wait until the file is on the disk. An OSError reports a failed write to the disk."""
        await self._sync(False)

    @bounded
    async def fdatasync(self, *, timeout: float | None = None) -> None:
        """Like `fsync`, but without metadata that is not needed to read the file, such as its times."""
        await self._sync(True)

    async def _sync(self, datasync: bool) -> None:
        handle = self.handle
        handle.check()
        if handle.is_dirty():
            await self.flush()
        await handle.sync(datasync)

    @bounded
    async def _close(self, *_exit: object, timeout: float | None = None) -> None:
        await self.handle.close()

    async def __aenter__(self) -> Self:
        self.handle.check_open()
        return self


def lines_of(file: Any) -> AsyncIterator[Any]:
    """Return an async iterator over a file's lines. Most lines come directly from the read-ahead buffer."""
    return _native.Lines(partial(next_line, file), file)


async def next_line(file: Any) -> Any:
    """Return the next line of a file; raise StopAsyncIteration at the end."""
    line = await file._readline()
    if not line:
        raise StopAsyncIteration
    return line


def _check_sign(*numbers: int) -> None:
    if min(numbers) < 0:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
