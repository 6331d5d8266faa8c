"""`BinaryFile`, the result of `open(…, "b")`."""

from __future__ import annotations

import os
from operator import index
from typing import TYPE_CHECKING, final

from oneloop.files.descriptor import SEEK_TEXT
from oneloop.files.engine import bounded
from oneloop.files.file import File, lines_of
from oneloop.files.views import readable, writable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from _typeshed import ReadableBuffer, WriteableBuffer


__all__ = ["LINES_PER_CHECK", "BinaryFile"]

LINES_STEP_BYTES = 64 * 1024
LINES_PER_CHECK = 16


@final
class BinaryFile(File):
    """A buffered binary file: the methods of `io.BufferedReader`, `BufferedWriter` and `BufferedRandom`, as coroutines.

    Concurrent calls are executed one after the other. A cancelled read has read nothing. A cancelled write has either
    written nothing, or its data stays in the file's buffer and is written later; `flush` and `close` then raise an
    error of that write. Use the file only in the thread of the loop that opened it.

    `read` returns `size` bytes, fewer only at the end of the file, or all remaining bytes if `size` is -1 or None.
    `readline` returns one line with its line end, or its first `size` bytes. `write` writes all of `data` (into the
    buffer, if it has room) and returns its length; `data` must not change until `write` returns. If writing out the
    buffer fails, its data stays in the buffer.
    """

    __slots__ = ()

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
        """Return all remaining bytes."""
        return await self.read(timeout=timeout)

    @bounded
    async def read1(self, size: int = -1, /, *, timeout: float | None = None) -> bytes:
        """Return up to `size` bytes, with at most one system call. -1 is the size of the buffer."""
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
        """Return the read-ahead data without changing the position; b"" only at the end of the file.

        `size` is ignored.
        """
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
        """Fill a writable buffer. Return the number of bytes, fewer than its size only at the end of the file."""
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
        """Return the remaining lines; with a positive `hint`, stop after about that many bytes."""
        handle = self.handle
        wanted = -1 if hint is None else index(hint)
        handle.check_reading("read")
        await handle.begin_reading()
        try:
            lines: list[bytes] = []
            ahead, total = handle.ahead, 0
            try:
                while wanted <= 0 or total <= wanted:
                    line = ahead.take_line()
                    if line is None and not (line := await handle.line(-1)):
                        break
                    lines.append(line)
                    total += len(line)
                    if len(lines) % LINES_PER_CHECK == 0 and handle.files.is_spent():
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

    # -- the position ----------------------------------------------------------------------------

    @bounded
    async def seek(self, offset: int, whence: int = os.SEEK_SET, /, *, timeout: float | None = None) -> int:
        """Change the position. Return the new one in bytes.

        Args:
            offset: in bytes, relative to `whence`.
            whence: `os.SEEK_SET`, `SEEK_CUR`, `SEEK_END`, `SEEK_DATA` or `SEEK_HOLE`.
            timeout: in seconds, or None.

        Raises:
            ValueError: the file is closed, or `whence` is invalid.
            io.UnsupportedOperation: the file cannot seek.
            OSError: the new position would be before the beginning, or there is no data after it (SEEK_DATA).
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
