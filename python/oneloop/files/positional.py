"""`PositionalFile`: transfers that say where: without cursor and turn, any number at once; and what syncs the disk."""

from __future__ import annotations

import asyncio
import errno
import os
from asyncio import Future
from typing import TYPE_CHECKING

from oneloop.files.deadline import within
from oneloop.files.file import File
from oneloop.files.views import advance, readable, writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["PositionalFile"]

# Tasks are to be kept by somebody while they run.
_FORGETTING: set[asyncio.Task[None]] = set()


class PositionalFile(File):
    """What binary files do besides reading and writing at the cursor; not made by programs.

    Before each of these, what was written at the cursor and is still buffered is flushed, so that they see it and
    come after it. Among themselves they have no order. A cancelled one may happen or not; buffers must be left alone
    until it has.
    """

    __slots__ = ()

    async def pread(self, size: int, offset: int, *, timeout: float | None = None) -> bytes:
        """Up to `size` bytes from `offset` on, fewer only where the file ends. The cursor stays."""
        if timeout is not None:
            return await within(timeout, self.pread(size, offset))
        self._check_reading("pread")
        if size < 0 or offset < 0:
            _check_sign(size, offset)
        descriptor = self._descriptor
        if self._is_dirty():
            await self.flush()
            descriptor.check()
        data = descriptor.engine.read(descriptor.number, size, offset, descriptor.is_direct)
        if isinstance(data, Future):
            data = await data
        if len(data) == size or not data or self._descriptor.is_direct:
            # With O_DIRECT short is the end: what lies behind it cannot be asked for without alignment.
            return data
        pieces = [data]
        while data and (missing := size - sum(map(len, pieces))):
            data = self._descriptor.read(missing, offset + size - missing)
            if isinstance(data, Future):
                data = await data
            pieces.append(data)
        return b"".join(pieces)

    async def pwrite(self, data: ReadableBuffer, offset: int, *, timeout: float | None = None) -> int:
        """Write all of `data` at `offset`; returns its length. The cursor stays.

        What a buffered file has read ahead is forgotten; what a text file has decoded is not. A file that was opened
        for appending appends, as everywhere on Linux.
        """
        return await self.writev([data], offset, timeout=timeout)

    async def readv(
        self, buffers: Sequence[WriteableBuffer], offset: int | None = None, *, timeout: float | None = None
    ) -> int:
        """Fill `buffers` one after the other, from `offset` or from the cursor on; returns the number of bytes.

        That is fewer than there is room for only where the file ends.
        """
        if timeout is not None:
            return await within(timeout, self.readv(buffers, offset))
        self._check_reading("readv")
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
        if self._is_dirty():
            await self.flush()
        total = 0
        while views:
            done = self._descriptor.readv([*views], offset + total)
            if isinstance(done, Future):
                done = await done
            if not done:
                break
            total += done
            advance(views, done)
        return total

    async def writev(
        self, buffers: Sequence[ReadableBuffer], offset: int | None = None, *, timeout: float | None = None
    ) -> int:
        """Write all of `buffers` one after the other, at `offset` or at the cursor; returns the number of bytes."""
        if timeout is not None:
            return await within(timeout, self.writev(buffers, offset))
        self._check_writing("writev")
        views = [readable(buffer) for buffer in buffers]
        if offset is None:
            return await self.write(b"".join(views))
        _check_sign(offset)
        if self._is_dirty():
            await self.flush()
        total = 0
        try:
            while views:
                done = self._descriptor.writev([*views], offset + total)
                if isinstance(done, Future):
                    done = await done
                total += done
                advance(views, done)
        finally:
            self._forget_ahead()
        return total

    def _forget_ahead(self) -> None:
        """What was read ahead while something was written may be older than that: no later read may find it."""
        if self._turn.is_taken:
            # Whoever reads now is let end.
            task = asyncio.ensure_future(self._rewind_next())
            _FORGETTING.add(task)
            task.add_done_callback(_FORGETTING.discard)
        elif not self.closed:
            self._rewind()

    async def _rewind_next(self) -> None:
        await self._turn.wait()
        try:
            if not self.closed:
                self._rewind()
        finally:
            self._turn.leave()

    async def fsync(self, *, timeout: float | None = None) -> None:
        """Flush, and wait until the disk has the file. OSError is what the disk said."""
        await self._sync(False, timeout)

    async def fdatasync(self, *, timeout: float | None = None) -> None:
        """Like `fsync`, without what nobody needs to read the file (its times)."""
        await self._sync(True, timeout)

    async def _sync(self, datasync: bool, timeout: float | None) -> None:
        if timeout is not None:
            return await within(timeout, self._sync(datasync, None))
        self._descriptor.check()
        if self._is_dirty():
            await self.flush()
        done = self._descriptor.fsync(datasync)
        if done is not None:
            await done
        return None

    async def read(self, size: int | None = -1, /, *, timeout: float | None = None) -> bytes:
        """Read at the cursor: up to `size` bytes, or all."""
        raise NotImplementedError

    async def write(self, data: ReadableBuffer, /, *, timeout: float | None = None) -> int:
        """Write at the cursor."""
        raise NotImplementedError

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /, *, timeout: float | None = None) -> int:
        """Move the cursor."""
        raise NotImplementedError


def _check_sign(*numbers: int) -> None:
    if min(numbers) < 0:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
