"""`BinaryFile`: what `open(…, "b")` gives: a face of a `Handle`; and `File`, what all binary files share."""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, Self, final

from oneloop import _native
from oneloop.files.descriptor import SEEK_TEXT
from oneloop.files.engine import bounded
from oneloop.files.views import advance, readable, writable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence

    from _typeshed import ReadableBuffer, WriteableBuffer

    from oneloop.files.descriptor import Opened
    from oneloop.files.handle import Handle

__all__ = ["BinaryFile", "File", "lines_of"]

LINES_STEP_BYTES = 64 * 1024
# readv(2), writev(2): IOV_MAX.
MOST_BUFFERS = 1024


class File(_native.FastFile):
    """What binary files share; not made by programs.

    `read`, `readline`, `write`, `pread`, `flush`, `close` and `__aexit__` are native; the coroutines of these names
    with an underscore are their slow halves, for what has to wait and for all that is unusual.
    """

    __slots__ = ("handle",)

    if TYPE_CHECKING:

        def read(self, size: int | None = -1, /, *, timeout: float | None = None) -> Coroutine[Any, Any, bytes]: ...
        def readline(self, size: int | None = -1, /, *, timeout: float | None = None) -> Coroutine[Any, Any, bytes]: ...
        def write(self, data: ReadableBuffer, /, *, timeout: float | None = None) -> Coroutine[Any, Any, int]: ...
        async def seek(self, offset: int, whence: int = 0, /, *, timeout: float | None = None) -> int: ...

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def __repr__(self) -> str:
        return self.described(self.handle.opened)

    @classmethod
    def described(cls, opened: Opened) -> str:
        """The repr, also when only the handle is left."""
        return f"<oneloop.files.{cls.__name__} name={opened.name!r} mode={opened.mode.of_bytes!r}>"

    # -- what it is ------------------------------------------------------------------------------

    @property
    def name(self) -> str | bytes | int:
        """What `open()` was told."""
        return self.handle.opened.name

    @property
    def mode(self) -> str:
        """As io's files say it: rb, wb, ab, xb, rb+, ab+, xb+."""
        return self.handle.opened.mode.of_bytes

    @property
    def closed(self) -> bool:
        """True once the descriptor is given back."""
        return self.handle.number < 0

    def fileno(self) -> int:
        """The descriptor's number. From here on its position in the kernel is the file's cursor.

        So that a child process that gets the file goes on where the program stopped (after a `flush()`).
        """
        return self.handle.give_out()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        self.handle.check_open()
        # A server might be asked about a file.
        return not self.handle.opened.is_file and os.isatty(self.handle.number)

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        self.handle.check_open()
        return self.handle.opened.mode.is_reading

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        self.handle.check_open()
        return self.handle.opened.mode.is_writing

    def seekable(self) -> bool:
        """Whether `seek` and `tell` work."""
        self.handle.check_open()
        return self.handle.opened.is_seekable

    # -- transfers that say where ----------------------------------------------------------------
    #
    # Before each of these, what was written at the cursor and is still buffered is flushed, so that they see it and
    # come after it. Among themselves they have no order. A cancelled one may happen or not; buffers must be left alone
    # until it has.

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
            # With O_DIRECT short is the end: what lies behind it cannot be asked for without alignment.
            return data
        pieces = [data]
        while data and (missing := size - sum(map(len, pieces))):
            handle.check()
            data = handle.files.read(handle.number, missing, offset + size - missing, is_direct)
            if isinstance(data, asyncio.Future):
                data = await data
            pieces.append(data)
        return b"".join(pieces)

    async def pwrite(self, data: ReadableBuffer, offset: int, *, timeout: float | None = None) -> int:
        """Write all of `data` at `offset`; returns its length. The cursor stays.

        What a buffered file has read ahead is forgotten; what a text file has decoded is not. A file that was opened
        for appending appends, as everywhere on Linux.
        """
        return await self.writev([data], offset, timeout=timeout)

    @bounded
    async def readv(
        self, buffers: Sequence[WriteableBuffer], offset: int | None = None, *, timeout: float | None = None
    ) -> int:
        """Fill `buffers` one after the other, from `offset` or from the cursor on; returns the number of bytes.

        That is fewer than there is room for only where the file ends.
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
        """Write all of `buffers` one after the other, at `offset` or at the cursor; returns the number of bytes."""
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
                done = handle.writev([*views[:MOST_BUFFERS]], offset + total)
                if isinstance(done, asyncio.Future):
                    done = await done
                total += done
                advance(views, done)
        finally:
            handle.forget_ahead()
        return total

    # -- the cursor ------------------------------------------------------------------------------

    @bounded
    async def tell(self, *, timeout: float | None = None) -> int:
        """Where the cursor is. io.UnsupportedOperation, which is an OSError, if the file has no position."""
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
        """Cut or extend the file to `size` bytes, or to where the cursor is; returns the size. The cursor stays."""
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
        """Write one after the other."""
        self.handle.check_writing("write" if self.handle.opened.buffer_bytes else "File not open for writing")
        for line in lines:
            await self.write(line)

    # -- the disk, and the end -------------------------------------------------------------------

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
        """Flush, and wait until the disk has the file. OSError is what the disk said."""
        await self._sync(False)

    @bounded
    async def fdatasync(self, *, timeout: float | None = None) -> None:
        """Like `fsync`, without what nobody needs to read the file (its times)."""
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


@final
class BinaryFile(File):
    """A buffered binary file: the methods of `io.BufferedReader`, `BufferedWriter` and `BufferedRandom`, as coroutines.

    Concurrent calls are served one after the other. A cancelled read has read nothing. A cancelled write has written
    nothing, or everything; in the latter case it is the file's to write, and a failure is told by `flush` and `close`.

    `read` gives `size` bytes, fewer only at the end, and all that is left if `size` is -1 or None; `readline` one line
    with its end, or its first `size` bytes. `write` writes all of `data`, which must not change until then, into the
    buffer if it has room, and returns its length; what was written before a failure stays in the buffer.
    """

    __slots__ = ()

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self._attach(handle, handle.ahead, "bytes", "bytes")

    # -- reading ---------------------------------------------------------------------------------

    @bounded
    async def _read(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        handle = self.handle
        size = -1 if size is None else index(size)
        handle.check_reading("read")
        if size < -1:
            raise ValueError("read length must be non-negative or -1")
        if size == 0:
            return b""
        await handle.begin_reading()
        try:
            return await (handle.read_all() if size < 0 else handle.read(size))
        finally:
            handle.leave()

    async def readall(self, *, timeout: float | None = None) -> bytes:
        """All that is left."""
        return await self.read(timeout=timeout)

    @bounded
    async def read1(self, size: int = -1, /, *, timeout: float | None = None) -> bytes:
        """Up to `size` bytes with at most one call of the kernel; -1 is one buffer."""
        handle = self.handle
        size = index(size)
        handle.check_reading("read1")
        await handle.begin_reading()
        try:
            return await handle.read_some(handle.opened.buffer_bytes if size < 0 else size)
        finally:
            handle.leave()

    @bounded
    async def peek(self, size: int = 0, /, *, timeout: float | None = None) -> bytes:
        """What is read ahead, at least a byte unless the file ends here; the cursor stays."""
        handle = self.handle
        handle.check_reading("peek")
        await handle.begin_reading()
        try:
            if not handle.ahead.remaining:
                handle.ahead.feed(await handle.fetch(handle.opened.buffer_bytes))
            return handle.ahead.peek()
        finally:
            handle.leave()

    @bounded
    async def readinto(self, buffer: WriteableBuffer, /, *, timeout: float | None = None) -> int:
        """Fill a writable buffer; returns the number of bytes, fewer than fit only at the end."""
        handle = self.handle
        handle.check_reading("readinto")
        view = writable(buffer)
        await handle.begin_reading()
        try:
            return await handle.readinto(view)
        finally:
            handle.leave()

    @bounded
    async def _readline(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        handle = self.handle
        limit = -1 if size is None else index(size)
        handle.check_reading("read")
        await handle.begin_reading()
        try:
            return await handle.line(limit)
        finally:
            handle.leave()

    @bounded
    async def readlines(self, hint: int | None = -1, /, *, timeout: float | None = None) -> list[bytes]:
        """The lines that are left; with a `hint`, only so many that they reach that many bytes."""
        handle = self.handle
        wanted = -1 if hint is None else index(hint)
        handle.check_reading("read")
        await handle.begin_reading()
        try:
            lines: list[bytes] = []
            total = 0
            try:
                while (wanted <= 0 or total <= wanted) and (line := await handle.line(-1)):
                    lines.append(line)
                    total += len(line)
                    if handle.files.is_spent():
                        await handle.files.later()
            except BaseException:
                rest = handle.ahead.take()
                handle.ahead.feed(b"".join(lines) + rest)
                raise
            return lines
        finally:
            handle.leave()

    def __aiter__(self) -> AsyncIterator[bytes]:
        self.handle.check_open()
        self.handle.read_more_at_once(LINES_STEP_BYTES)
        return lines_of(self)

    # -- writing ---------------------------------------------------------------------------------

    @bounded
    async def _write(self, data: ReadableBuffer, /, *, timeout: float | None = None) -> int:
        handle = self.handle
        handle.check_writing("write")
        view = data if type(data) is bytes else readable(data)
        if not handle.take_turn():
            await handle.begin()
        try:
            if handle.ahead.remaining:
                handle.rewind()
            if not handle.buffer(view):
                await handle.write(memoryview(view))
            return len(view)
        finally:
            handle.leave()

    # -- the cursor ------------------------------------------------------------------------------

    @bounded
    async def seek(self, offset: int, whence: int = os.SEEK_SET, /, *, timeout: float | None = None) -> int:
        """Move the cursor; returns where it is.

        Raises:
            ValueError: the file is closed, or there is no such `whence`.
            io.UnsupportedOperation: the file has no position.
            OSError: that is before the beginning.
        """
        handle = self.handle
        target = index(offset)
        handle.check()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END, os.SEEK_DATA, os.SEEK_HOLE):
            raise ValueError(f"whence value {whence} unsupported")
        handle.check_seekable(SEEK_TEXT)
        if not handle.take_turn():
            await handle.begin()
        try:
            await handle.write_out()
            return await handle.seek(target, whence)
        finally:
            handle.leave()


def lines_of(file: Any) -> AsyncIterator[Any]:
    """The lines of a file, most of them straight out of what it has read ahead."""
    return _native.Lines(partial(next_line, file), file)


async def next_line(file: Any) -> Any:
    """The next line of a file; StopAsyncIteration if there is none."""
    line = await file._readline()
    if not line:
        raise StopAsyncIteration
    return line


def _check_sign(*numbers: int) -> None:
    if min(numbers) < 0:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
