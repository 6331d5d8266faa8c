"""`UnbufferedFile`: the result of `open(…, "b", buffering=0)`."""

from __future__ import annotations

import os
from operator import index
from typing import TYPE_CHECKING, Self, final

from oneloop.files.engine import bounded
from oneloop.files.file import File, lines_of
from oneloop.files.views import readable, writable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from _typeshed import ReadableBuffer, WriteableBuffer

    from oneloop.files.handle import Handle

__all__ = ["UnbufferedFile"]

LINE_BLOCK_BYTES = 8192

READING = "File not open for reading"
WRITING = "File not open for writing"


@final
class UnbufferedFile(File):
    """A binary file without a buffer: the methods of `io.FileIO`, as coroutines.

    `read`, `readinto` and `write` are one system call each, or several if the system transfers a part of a regular file
    at once. They may transfer less than requested. Concurrent calls are executed one after the other. A cancelled read
    has read nothing. A cancelled write may have written all of its data or a part, or have failed; the position is
    after the last byte written. `data` must not change while it is written.
    """

    __slots__ = ()

    def __new__(cls, handle: Handle) -> Self:
        return super().__new__(cls, handle, None, "nothing", "nothing")

    @bounded
    async def _read(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        handle = self.handle
        size = -1 if size is None else index(size)
        await self._begin_reading()
        try:
            if size < 0:
                return await handle.read_all()
            # There is read-ahead data only after a cancelled read of a pipe.
            return handle.ahead.take(size) if handle.ahead.remaining else await self._fetch(size)
        finally:
            handle.leave()

    async def readall(self, *, timeout: float | None = None) -> bytes:
        """Return all remaining bytes."""
        return await self.read(timeout=timeout)

    @bounded
    async def readinto(self, buffer: WriteableBuffer, /, *, timeout: float | None = None) -> int:
        """Read into a writable buffer. Return the number of bytes, 0 at the end of the file."""
        handle = self.handle
        view = writable(buffer)
        if handle.offset < 0:
            # At the kernel's position, a cancelled read must not lose its data.
            data = await self.read(len(view))
            view[: len(data)] = data
            return len(data)
        await self._begin_reading()
        try:
            done = await handle.readv([view], handle.offset)
            # With O_DIRECT, the kernel would refuse an offset that is not aligned.
            is_rest_due = not handle.opened.is_direct
            while is_rest_due and 0 < done < len(view) and await handle.is_before_end(handle.offset + done):
                try:
                    more = await handle.readv([view[done:]], handle.offset + done)
                except OSError:
                    # The next read tells it.
                    break
                if not more:
                    break
                done += more
            handle.offset += done
            return done
        finally:
            handle.leave()

    @bounded
    async def _readline(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        limit = -1 if size is None else index(size)
        await self._begin_reading()
        try:
            return await self._line(limit)
        finally:
            self.handle.leave()

    @bounded
    async def readlines(self, hint: int | None = -1, /, *, timeout: float | None = None) -> list[bytes]:
        """Return the remaining lines; with a positive `hint`, stop after about that many bytes."""
        wanted = -1 if hint is None else index(hint)
        await self._begin_reading()
        try:
            lines: list[bytes] = []
            total = 0
            start = self.handle.offset
            try:
                while (wanted <= 0 or total <= wanted) and (line := await self._line(-1)):
                    lines.append(line)
                    total += len(line)
            except BaseException:
                if start >= 0 and self.handle.offset >= 0:
                    self.handle.offset = start
                else:
                    rest = self.handle.ahead.take()
                    self.handle.ahead.feed(b"".join(lines) + rest)
                raise
            return lines
        finally:
            self.handle.leave()

    def __aiter__(self) -> AsyncIterator[bytes]:
        self.handle.check_open()
        return lines_of(self)

    @bounded
    async def _write(self, data: ReadableBuffer, /, *, timeout: float | None = None) -> int:
        handle = self.handle
        handle.check_writing(WRITING)
        view = readable(data)
        if not handle.take_turn():
            await handle.begin()
        try:
            self._forget_ahead()
            return await handle.write_once(view)
        finally:
            handle.leave()

    @bounded
    async def seek(self, offset: int, whence: int = os.SEEK_SET, /, *, timeout: float | None = None) -> int:
        """Change the position. Return the new one in bytes.

        Raises:
            ValueError: the file is closed.
            OSError: the position is invalid, or the file cannot seek.
        """
        handle = self.handle
        target = index(offset)
        handle.check()
        if not handle.take_turn():
            await handle.begin()
        try:
            handle.rewind()
            return await handle.raw_seek(target, whence)
        finally:
            handle.leave()

    # -- called while holding the turn -----------------------------------------------------------

    async def _begin_reading(self) -> None:
        self.handle.check_reading(READING)
        if not self.handle.take_turn():
            await self.handle.begin()
        self._forget_ahead()

    def _forget_ahead(self) -> None:
        """Go back to the program's position, which a cancelled read has left."""
        handle = self.handle
        if handle.ahead.remaining and handle.opened.is_seekable:
            handle.rewind()

    async def _fetch(self, size: int) -> bytes:
        """Read once. What the kernel has in memory it gives at once, and a file's rest is then read too."""
        handle = self.handle
        start = handle.offset
        data = await handle.fetch(size)
        if start < 0 or handle.opened.is_direct or not 0 < len(data) < size:
            return data
        pieces, total = [data], len(data)
        try:
            while total < size and await handle.is_before_end(handle.offset):
                data = await handle.fetch(size - total)
                if not data:
                    break
                pieces.append(data)
                total += len(data)
        except OSError:
            # The next read tells it.
            pass
        except BaseException:
            handle.offset = start
            raise
        return b"".join(pieces)

    async def _line(self, limit: int) -> bytes:
        handle = self.handle
        if handle.offset < 0:
            # Read one byte at a time: other readers of the descriptor get what follows the line.
            return await self._line_of_bytes(limit)
        pieces: list[bytes] = []
        start = handle.offset
        try:
            while limit:
                data = await handle.fetch(LINE_BLOCK_BYTES)
                end = data.find(b"\n") + 1
                piece = data[: end or len(data)]
                if limit > 0:
                    piece = piece[:limit]
                    limit -= len(piece)
                # fetch() moved the position to the end of the block: move it back to the end of the line.
                handle.offset -= len(data) - len(piece)
                pieces.append(piece)
                if end or not data:
                    break
        except BaseException:
            handle.offset = start
            raise
        return b"".join(pieces)

    async def _line_of_bytes(self, limit: int) -> bytes:
        handle = self.handle
        line = bytearray()
        try:
            while len(line) != limit and not line.endswith(b"\n"):
                byte = handle.ahead.take(1) if handle.ahead.remaining else await handle.fetch(1)
                if not byte:
                    break
                line += byte
        except BaseException:
            handle.ahead.feed(bytes(line))
            raise
        return bytes(line)
