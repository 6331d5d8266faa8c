"""`BinaryFile`: what `open(…, "b")` gives; reads ahead, and writes behind, as io's buffered files do."""

from __future__ import annotations

import io
import os
import sys
from asyncio import Future
from operator import index
from typing import TYPE_CHECKING, final

from oneloop.files.deadline import within
from oneloop.files.file import Origin
from oneloop.files.positional import PositionalFile
from oneloop.files.readahead import lines_of
from oneloop.files.views import first, readable, writable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["BinaryFile", "text_repr"]

LARGEST_STEP_BYTES = 256 * 1024
LINES_STEP_BYTES = 64 * 1024
# What fills the buffer to the last byte goes out at once, as io's buffered files do since Python 3.13.
WHOLE_BUFFERS_GO = sys.version_info >= (3, 13)

SEEK_TEXT = "File or stream is not seekable."


@final
class BinaryFile(PositionalFile):
    """A buffered binary file: the methods of `io.BufferedReader`, `BufferedWriter` and `BufferedRandom`, as coroutines.

    Args:
        buffer_bytes: how much is written behind, and read ahead at first.
        may_grow: what is read ahead grows as long as the program reads on (nobody has set a size).

    Concurrent calls are served one after the other. A cancelled read has read nothing. A cancelled write has written
    nothing, or everything; in the latter case it is the file's to write, and a failure is told by `flush` and `close`.
    """

    __slots__ = ("_buffer_bytes", "_may_grow", "_pending", "_step_bytes", "text_encoding")

    def __init__(self, origin: Origin, *, buffer_bytes: int, may_grow: bool) -> None:
        super().__init__(origin)
        self._buffer_bytes = buffer_bytes
        self._may_grow = may_grow
        self._step_bytes = buffer_bytes
        # Set by the text file on top.
        self.text_encoding: str | None = None
        # Written and not yet handed to the kernel. Nothing is read ahead while there is some.
        self._pending = bytearray()

    def _told(self) -> str:
        if self.text_encoding is None:
            return repr(self)
        return text_repr(self.name, self._mode.given, self.text_encoding)

    # -- reading ---------------------------------------------------------------------------------

    async def read(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        """`size` bytes, fewer only at the end; all that is left if `size` is -1 or None.

        Raises:
            ValueError: the file is closed, or `size` less than -1.
            io.UnsupportedOperation: it was not opened for reading.
            OSError: the kernel says so.
        """
        if timeout is not None:
            return await within(timeout, self.read(size))
        size = -1 if size is None else index(size)
        ahead = self._ahead
        if 0 < size <= ahead.remaining and not self._turn.is_taken:
            return ahead.take(size)
        self._check_reading("read")
        if size < -1:
            raise ValueError("read length must be non-negative or -1")
        if size == 0:
            return b""
        await self._begin_reading()
        try:
            return await (self._read_all() if size < 0 else self._read(size))
        finally:
            self._turn.leave()

    async def readall(self, *, timeout: float | None = None) -> bytes:
        """All that is left."""
        return await self.read(timeout=timeout)

    async def read1(self, size: int = -1, /, *, timeout: float | None = None) -> bytes:
        """Up to `size` bytes with at most one call of the kernel; -1 is one buffer."""
        if timeout is not None:
            return await within(timeout, self.read1(size))
        size = index(size)
        self._check_reading("read1")
        await self._begin_reading()
        try:
            return await self._read1(self._buffer_bytes if size < 0 else size)
        finally:
            self._turn.leave()

    async def peek(self, size: int = 0, /, *, timeout: float | None = None) -> bytes:
        """What is read ahead, at least a byte unless the file ends here; the cursor stays."""
        if timeout is not None:
            return await within(timeout, self.peek(size))
        self._check_reading("peek")
        await self._begin_reading()
        try:
            if not self._ahead.remaining:
                self._ahead.feed(await self._fetch(self._buffer_bytes))
            return self._ahead.peek()
        finally:
            self._turn.leave()

    async def readinto(self, buffer: WriteableBuffer, /, *, timeout: float | None = None) -> int:
        """Fill a writable buffer; returns the number of bytes, fewer than fit only at the end."""
        if timeout is not None:
            return await within(timeout, self.readinto(buffer))
        self._check_reading("readinto")
        view = writable(buffer)
        await self._begin_reading()
        try:
            return await self._readinto(view)
        finally:
            self._turn.leave()

    async def readline(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        """One line with its end, or its first `size` bytes; b"" at the end."""
        if timeout is not None:
            return await within(timeout, self.readline(size))
        limit = -1 if size is None else index(size)
        self._check_reading("read")
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
        self._check_reading("read")
        await self._begin_reading()
        try:
            lines: list[bytes] = []
            total = 0
            while (wanted <= 0 or total <= wanted) and (line := await self._line(-1)):
                lines.append(line)
                total += len(line)
            return lines
        finally:
            self._turn.leave()

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._check_open()
        if self._may_grow:
            self._step_bytes = max(self._step_bytes, LINES_STEP_BYTES)
        return lines_of(self, self._ahead)

    async def _next_line(self) -> bytes:
        return await self.readline()

    # -- writing ---------------------------------------------------------------------------------

    async def write(self, data: ReadableBuffer, /, *, timeout: float | None = None) -> int:
        """Write all of `data`, into the buffer if it has room; returns its length.

        `data` must not change until then.

        Raises:
            ValueError: the file is closed.
            io.UnsupportedOperation: it was not opened for writing.
            TypeError: `data` is not bytes-like.
            OSError: the kernel says so. What was written before stays in the buffer.
        """
        if timeout is not None:
            return await within(timeout, self.write(data))
        self._check_writing("write")
        view = data if type(data) is bytes else readable(data)
        if self._turn.is_taken or self._flight is not None:
            await self._begin()
        else:
            self._turn.is_taken = True
        try:
            if not self._buffered(view):
                await self._write(memoryview(view))
            return len(view)
        finally:
            self._turn.leave()

    async def writelines(self, lines: Iterable[ReadableBuffer], /, *, timeout: float | None = None) -> None:
        """Write one after the other."""
        if timeout is not None:
            return await within(timeout, self.writelines(lines))
        self._check_writing("write")
        for line in lines:
            await self.write(line)
        return None

    # -- the cursor ------------------------------------------------------------------------------

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /, *, timeout: float | None = None) -> int:
        """Move the cursor; returns where it is.

        Raises:
            ValueError: the file is closed, or there is no such `whence`.
            io.UnsupportedOperation: the file has no position.
            OSError: that is before the beginning.
        """
        if timeout is not None:
            return await within(timeout, self.seek(offset, whence))
        target = index(offset)
        self._descriptor.check()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END, os.SEEK_DATA, os.SEEK_HOLE):
            raise ValueError(f"whence value {whence} unsupported")
        self._check_seekable()
        await self._begin_plain()
        try:
            await self._flush()
            return self._seek(target, whence)
        finally:
            self._turn.leave()

    async def tell(self, *, timeout: float | None = None) -> int:
        """Where the cursor is. io.UnsupportedOperation if the file has no position."""
        if timeout is not None:
            return await within(timeout, self.tell())
        self._descriptor.check()
        await self._begin_plain()
        try:
            return self._tell()
        finally:
            self._turn.leave()

    async def truncate(self, size: int | None = None, /, *, timeout: float | None = None) -> int:
        """Cut or extend the file to `size` bytes, or to where the cursor is; returns the size. The cursor stays."""
        if timeout is not None:
            return await within(timeout, self.truncate(size))
        self._check_writing("truncate")
        wanted = None if size is None else index(size)
        await self._begin_plain()
        try:
            return await self._truncate(wanted)
        finally:
            self._turn.leave()

    # -- by the holder of the turn ---------------------------------------------------------------

    async def _begin_plain(self) -> None:
        if self._turn.is_taken or self._flight is not None:
            await self._begin()
        else:
            self._turn.is_taken = True

    async def _begin_reading(self) -> None:
        """Take the turn, and write out what is pending, which is to be read back."""
        if self._turn.is_taken or self._flight is not None:
            await self._begin()
        else:
            self._turn.is_taken = True
        if self._pending:
            try:
                await self._flush()
            except BaseException:
                self._turn.leave()
                raise

    def _check_seekable(self) -> None:
        if not self._is_seekable:
            raise io.UnsupportedOperation(SEEK_TEXT)

    async def _read(self, size: int) -> bytes:
        ahead = self._ahead
        while (missing := size - ahead.remaining) > 0:
            data = await self._fetch(self._step(missing))
            if not data:
                break
            if len(data) == missing:
                # No copy of what is asked for as a whole.
                return ahead.take() + data
            ahead.feed(data)
        return ahead.take(size)

    async def _read1(self, size: int) -> bytes:
        if self._ahead.remaining or not size:
            return self._ahead.take(size)
        return await self._fetch(size)

    async def _line(self, limit: int) -> bytes:
        ahead = self._ahead
        while (line := ahead.take_line(limit)) is None:
            # A line that is longer than everything so far asks for as much again.
            data = await self._fetch(self._step(ahead.remaining))
            if not data:
                return ahead.take()
            ahead.feed(data)
        return line

    def _step(self, missing: int) -> int:
        """How much to read, so that at least this is there."""
        step = self._step_bytes
        if self._may_grow and step < LARGEST_STEP_BYTES:
            self._step_bytes = step * 4
        return max(missing, step)

    async def _readinto(self, view: memoryview) -> int:
        ahead = self._ahead
        if self._offset < 0 or len(view) - ahead.remaining < self._step_bytes:
            # Small; or at the kernel's position, where a cancelled read must not lose what it brings.
            data = await self._read(len(view))
            view[: len(data)] = data
            return len(data)
        start = ahead.remaining
        view[:start] = ahead.peek()
        total = 0
        while start + total < len(view):
            done = self._descriptor.readv([view[start + total :]], self._offset + total)
            if isinstance(done, Future):
                ahead.is_held = True
                try:
                    done = await done
                finally:
                    ahead.is_held = False
            if not done:
                break
            total += done
        # Only now is anything read: whoever was cancelled has read nothing.
        ahead.clear()
        self._offset += total
        return start + total

    def _is_dirty(self) -> bool:
        return bool(self._pending) or super()._is_dirty()

    def _buffered(self, data: bytes | memoryview) -> bool:
        """Put `data` into the buffer. False if it does not fit."""
        if self._ahead.remaining:
            self._rewind()
        size = len(data)
        if size > self._buffer_bytes - len(self._pending) or size >= self._buffer_bytes:
            return False
        self._pending += data
        return True

    async def _write(self, data: memoryview) -> None:
        """Write what does not fit: what is pending goes out, and `data` too if it fills a buffer."""
        spare = self._buffer_bytes - WHOLE_BUFFERS_GO
        if len(data) <= spare:
            await self._flush()
            self._pending += data
            return
        pending, self._pending = self._pending, bytearray()
        views = [memoryview(pending), data] if pending else [data]
        await self._send(views, len(pending), spare)
        for view in views:
            self._pending += view

    async def _flush(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, bytearray()
            await self._send([memoryview(pending)], len(pending), 0)

    async def _send(self, views: list[memoryview], owed: int, spare: int) -> None:
        """Write until at most `spare` bytes are left; `owed` of them are the buffer's, and stay if that fails."""
        total = sum(map(len, views))
        while total > spare:
            try:
                flight = self._launch(views, owed)
            except BaseException:
                self._keep(first(views, owed))
                raise
            done = flight if isinstance(flight, int) else await self._land(flight)
            total -= done
            owed = max(0, owed - done)

    def _flush_at_once(self) -> bool:
        if not self._pending:
            return True
        pending, self._pending = self._pending, bytearray()
        views = [memoryview(pending)]
        try:
            flight = self._launch(views, len(pending))
        except OSError:
            # Close tries again, where it can raise and close nevertheless.
            self._keep(views)
            return False
        if not isinstance(flight, int):
            return False
        self._keep(views)
        return not views

    def _keep(self, views: list[memoryview]) -> None:
        self._pending[:0] = b"".join(views)

    def _rescue(self) -> None:
        while self._pending:
            number, offset = self._descriptor.number, self._offset
            if self._is_appending or offset < 0:
                done = os.write(number, self._pending)
            else:
                done = os.pwrite(number, self._pending, offset)
                self._offset += done
            del self._pending[:done]

    def _tell(self) -> int:
        return self._raw_tell() - self._ahead.remaining + len(self._pending)

    def _seek(self, target: int, whence: int) -> int:
        """Move the cursor; nothing is pending."""
        ahead = self._ahead
        if whence == os.SEEK_CUR:
            target, whence = self._tell() + target, os.SEEK_SET
        if whence == os.SEEK_SET and ahead.remaining and ahead.move(target - self._tell()):
            return target
        position = self._raw_seek(target, whence)
        ahead.clear()
        self._step_bytes = self._buffer_bytes
        return position

    async def _truncate(self, size: int | None) -> int:
        await self._flush()
        self._rewind()
        length = self._raw_tell() if size is None else size
        done = self._descriptor.truncate(length)
        if done is not None:
            await done
        return length


def text_repr(name: str | bytes | int, mode: str, encoding: str) -> str:
    """The text file's repr, also when only its binary file is left."""
    return f"<oneloop.files.TextFile name={name!r} mode={mode!r} encoding={encoding!r}>"
