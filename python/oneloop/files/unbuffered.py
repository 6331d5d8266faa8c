"""`UnbufferedFile`: what `open(…, "b", buffering=0)` gives; every call is one transfer."""

from __future__ import annotations

import os
from asyncio import Future
from operator import index
from typing import TYPE_CHECKING, final

from oneloop.files.deadline import within
from oneloop.files.positional import PositionalFile
from oneloop.files.readahead import lines_of
from oneloop.files.views import readable, writable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["UnbufferedFile"]

LINE_BLOCK_BYTES = 8192


@final
class UnbufferedFile(PositionalFile):
    """A binary file without a buffer: the methods of `io.FileIO`, as coroutines.

    `read`, `readinto` and `write` are one call of the kernel each, and may do less than asked. Concurrent calls are
    served one after the other. A cancelled read has read nothing; a cancelled write may have happened, in whole or in
    part, and the cursor is where it ended.
    """

    __slots__ = ()

    async def read(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        """Up to `size` bytes, b"" at the end; all that is left if `size` is negative or None."""
        if timeout is not None:
            return await within(timeout, self.read(size))
        size = -1 if size is None else index(size)
        await self._begin_reading()
        try:
            if size < 0:
                return await self._read_all()
            # Something is read ahead only after a cancelled read of a pipe.
            return self._ahead.take(size) if self._ahead.remaining else await self._fetch(size)
        finally:
            self._turn.leave()

    async def readall(self, *, timeout: float | None = None) -> bytes:
        """All that is left."""
        return await self.read(timeout=timeout)

    async def readinto(self, buffer: WriteableBuffer, /, *, timeout: float | None = None) -> int:
        """Read into a writable buffer; returns the number of bytes, 0 at the end."""
        if timeout is not None:
            return await within(timeout, self.readinto(buffer))
        view = writable(buffer)
        if self._offset < 0:
            # At the kernel's position, where a cancelled read must not lose what it brings.
            data = await self.read(len(view))
            view[: len(data)] = data
            return len(data)
        await self._begin_reading()
        try:
            done = self._descriptor.readv([view], self._offset)
            if isinstance(done, Future):
                done = await done
            self._offset += done
            return done
        finally:
            self._turn.leave()

    async def readline(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        """One line with its end, or its first `size` bytes; b"" at the end."""
        if timeout is not None:
            return await within(timeout, self.readline(size))
        limit = -1 if size is None else index(size)
        await self._begin_reading()
        try:
            return await self._line(limit)
        finally:
            self._turn.leave()

    async def readlines(self, hint: int | None = -1, /, *, timeout: float | None = None) -> list[bytes]:
        """The lines that are left; with a `hint`, only so many that they reach that many bytes."""
        if timeout is not None:
            return await within(timeout, self.readlines(hint))
        wanted = -1 if hint is None else index(hint)
        await self._begin_reading()
        try:
            lines: list[bytes] = []
            total = 0
            while (wanted <= 0 or total < wanted) and (line := await self._line(-1)):
                lines.append(line)
                total += len(line)
            return lines
        finally:
            self._turn.leave()

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._check_open()
        return lines_of(self, self._ahead)

    async def _next_line(self) -> bytes:
        return await self.readline()

    async def write(self, data: ReadableBuffer, /, *, timeout: float | None = None) -> int:
        """Write; returns the number of bytes that went, which may be fewer. `data` must not change meanwhile."""
        if timeout is not None:
            return await within(timeout, self.write(data))
        self._check_writing("File not open for writing")
        view = readable(data)
        await self._begin()
        try:
            flight = self._launch([view], 0)
            return flight if isinstance(flight, int) else await self._land(flight)
        finally:
            self._turn.leave()

    async def writelines(self, lines: Iterable[ReadableBuffer], /, *, timeout: float | None = None) -> None:
        """Write one after the other."""
        if timeout is not None:
            return await within(timeout, self.writelines(lines))
        self._check_writing("File not open for writing")
        for line in lines:
            await self.write(line)
        return None

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /, *, timeout: float | None = None) -> int:
        """Move the cursor; returns where it is. OSError if there is no such place, or the file has no position."""
        if timeout is not None:
            return await within(timeout, self.seek(offset, whence))
        target = index(offset)
        self._check_open()
        await self._begin()
        try:
            self._rewind()
            return self._raw_seek(target, whence)
        finally:
            self._turn.leave()

    async def tell(self, *, timeout: float | None = None) -> int:
        """Where the cursor is. OSError if the file has no position."""
        if timeout is not None:
            return await within(timeout, self.tell())
        self._check_open()
        await self._begin()
        try:
            return self._raw_tell() - self._ahead.remaining
        finally:
            self._turn.leave()

    async def truncate(self, size: int | None = None, /, *, timeout: float | None = None) -> int:
        """Cut or extend the file to `size` bytes, or to where the cursor is; returns the size. The cursor stays."""
        if timeout is not None:
            return await within(timeout, self.truncate(size))
        self._check_writing("File not open for writing")
        wanted = None if size is None else index(size)
        await self._begin()
        try:
            length = self._raw_tell() - self._ahead.remaining if wanted is None else wanted
            done = self._descriptor.truncate(length)
            if done is not None:
                await done
            return length
        finally:
            self._turn.leave()

    # -- by the holder of the turn ---------------------------------------------------------------

    async def _begin_reading(self) -> None:
        self._check_reading("File not open for reading")
        await self._begin()

    async def _line(self, limit: int) -> bytes:
        if self._offset < 0:
            # One byte at a time: what is behind the line belongs to others.
            return await self._line_of_bytes(limit)
        pieces: list[bytes] = []
        start = self._offset
        try:
            while limit:
                data = await self._fetch(LINE_BLOCK_BYTES)
                end = data.find(b"\n") + 1
                piece = data[: end or len(data)]
                if limit > 0:
                    piece = piece[:limit]
                    limit -= len(piece)
                # The cursor was moved behind the block, and the line ends before.
                self._offset -= len(data) - len(piece)
                pieces.append(piece)
                if end or not data:
                    break
        except BaseException:
            self._offset = start
            raise
        return b"".join(pieces)

    async def _line_of_bytes(self, limit: int) -> bytes:
        line = bytearray()
        try:
            while len(line) != limit and not line.endswith(b"\n"):
                byte = self._ahead.take(1) if self._ahead.remaining else await self._fetch(1)
                if not byte:
                    break
                line += byte
        except BaseException:
            self._ahead.feed(bytes(line))
            raise
        return bytes(line)
