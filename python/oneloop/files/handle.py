"""`Handle`: an open file with its position, its buffers and its closing.

The handle keeps the position itself and passes an explicit offset to each transfer, so a cancelled transfer does not
change the position. Pipes, terminals and devices have no offsets, and other code may use a descriptor that is shared
(`fileno()`, `open(fd)`). For these the position is the kernel's: `offset` is -1, and the data of a cancelled read is
kept for the next read.

States: open → closing (`closing` is set) → closed (`number` is -1). Binary and text files call a handle. Its coroutines
may be called only by the task that holds the turn (the file's lock):

    if not handle.take_turn():
        await handle.begin()
    try: …
    finally: handle.leave()
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import warnings
from asyncio import Future
from typing import TYPE_CHECKING, NamedTuple, final

from oneloop import _native
from oneloop.files.borrowed import PIECE_BYTES, BorrowingFuture, is_mutable, owned
from oneloop.files.descriptor import CLOSED, Descriptor
from oneloop.files.engine import ended, running_loop, undisturbed
from oneloop.files.views import advance, first

__all__ = ["Handle"]

UNKNOWN_SIZE_BYTES = 64 * 1024
"""Size of one read if the file's size is not known."""

DIRECT_BLOCK_BYTES = 4096
"""A multiple of the alignment that any known disk needs for direct I/O."""

LARGEST_STEP_BYTES = 256 * 1024

MUCH_BYTES = 1024 * 1024
"""From this size on, joining pieces is done on a thread."""

# A write that fills the buffer exactly is written out immediately, as in io's buffered files since Python 3.13.
WHOLE_BUFFERS_GO = sys.version_info >= (3, 13)


class Flight(NamedTuple):
    """A transfer that continues when the call that waits for it is cancelled.

    `views` is the data of a write, None for a read. If a write fails, the first `owed` bytes go back into the buffer.
    """

    future: Future[bytes] | Future[int]
    views: list[memoryview] | None = None
    owed: int = 0


@final
class Handle(Descriptor):
    """An open file. Internal: programs call `open()`."""

    __slots__ = ()

    if TYPE_CHECKING:
        _flight: Flight | None

    # -- the turn ----------------------------------------------------------------------------------

    async def begin_reading(self) -> None:
        """Take the turn, and write out pending data, so that the following read sees it."""
        if not self.take_turn():
            await self.begin()
        if self.pending:
            try:
                await self.write_out()
            except BaseException:
                self.leave()
                raise

    async def _settle(self) -> None:
        flight = self._flight
        if flight is None:
            # A write of the native half. If it fails, its data is pending again and the next flush raises the error.
            observer = self.loop.create_future()
            self.observe(observer)
            await observer
            return
        if flight.views is None:
            self.ahead.feed(await self._stream_read(flight))
            return
        try:
            await self._land(flight)
        except OSError:
            # The data is in the buffer again: the next flush writes it or raises the error. Without a buffer, nobody is
            # told of a cancelled write.
            return
        self._keep(flight.views)

    def _fly(self, flight: Flight | None) -> None:
        self._flight = flight
        self.has_flight = flight is not None

    def is_dirty(self) -> bool:
        """Return True if written data might not have reached the kernel."""
        return self.pending > 0 or (self.has_flight and not self._is_reading())

    def _is_reading(self) -> bool:
        """Return True if a read at the kernel's position is in progress."""
        return self._flight is not None and self._flight.views is None

    # -- reading at the position -----------------------------------------------------------------

    async def fetch(self, size: int) -> bytes:
        """Read up to `size` bytes after the data that was read ahead."""
        self.check()
        data = self.files.read(self.number, size, self.offset, self.opened.is_direct)
        if isinstance(data, Future):
            if self.offset < 0:
                self.watch(data)
                flight = Flight(data)
                self._fly(flight)
                return await self._stream_read(flight)
            data = await data
        if self.offset >= 0:
            self.offset += len(data)
        return data

    async def _stream_read(self, flight: Flight) -> bytes:
        """Wait for a read at the kernel's position, and return its data."""
        await undisturbed(flight.future)
        self._fly(None)
        if flight.future.cancelled():
            # Only close() cancels this future.
            raise ValueError(CLOSED)
        data = flight.future.result()
        assert isinstance(data, bytes)
        return data

    def step(self, missing: int) -> int:
        """Return how many bytes to read if `missing` are needed. Grows while the program reads on."""
        step = self._step_bytes
        if self.opened.may_grow and step < LARGEST_STEP_BYTES:
            self._step_bytes = step * 4
        return max(missing, step)

    def read_more_at_once(self, step_bytes: int) -> None:
        """Read ahead at least this much from now on, unless the program has set the buffer's size."""
        if self.opened.may_grow:
            self._step_bytes = max(self._step_bytes, step_bytes)

    async def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end of the file."""
        ahead = self.ahead
        while (missing := size - ahead.remaining) > 0:
            data = await self.fetch(self.step(missing))
            if not data:
                break
            if len(data) == missing:
                # The read returned exactly the missing bytes: return them without a copy.
                return await self._joined([ahead.take(), data]) if ahead.remaining else data
            ahead.feed(data)
        return ahead.take(size)

    async def _joined(self, pieces: list[bytes]) -> bytes:
        """Join the pieces, on a thread if they are long. If cancelled, put them back into the read-ahead buffer."""
        if sum(map(len, pieces)) < MUCH_BYTES:
            return b"".join(pieces)
        try:
            return await self.files.call(_native.join_bytes, pieces)
        except BaseException:
            rest = self.ahead.take()
            for piece in (*pieces, rest):
                self.ahead.feed(piece)
            raise

    async def read_some(self, size: int) -> bytes:
        """Return up to `size` bytes, with at most one system call."""
        if self.ahead.remaining or not size:
            return self.ahead.take(size)
        return await self.fetch(size)

    async def read_all(self) -> bytes:
        """Return all bytes up to the end, including read-ahead data. An error or a cancellation loses no data."""
        pieces: list[bytes] = []
        total = 0
        end = await self._end()
        try:
            if self.ahead.remaining and 0 <= self.offset <= end - MUCH_BYTES and not self.opened.is_direct:
                data = await self._with_ahead(end - self.offset + 1)
                if self.offset == end:
                    return data
                pieces.append(data)
                total = len(data)
            while True:
                missing = end - self.raw_tell() if end else -1
                # Ask for one byte more than the file should have: a short read then shows that this is the end.
                size = missing + 1 if missing >= 0 else max(UNKNOWN_SIZE_BYTES, total)
                if self.opened.is_direct:
                    size += -size % DIRECT_BLOCK_BYTES
                data = await self.fetch(size)
                if not data:
                    break
                pieces.append(data)
                total += len(data)
                if len(data) == missing:
                    break
        except BaseException:
            # Piece by piece: joining them would hold the loop.
            for piece in pieces:
                self.ahead.feed(piece)
            raise
        if self.ahead.remaining:
            pieces.insert(0, self.ahead.take())
        return pieces[0] if len(pieces) == 1 else await self._joined(pieces)

    async def _with_ahead(self, size: int) -> bytes:
        """Return the data that was read ahead and the next `size` bytes, read into one buffer with it."""
        self.check()
        head = self.ahead.peek()
        data = await self.files.read_after(self.number, head, size, self.offset)
        self.ahead.clear()
        self.offset += len(data) - len(head)
        return data

    async def line(self, limit: int) -> bytes:
        """Return a line with its line end, or its first `limit` bytes; b"" at the end of the file."""
        ahead = self.ahead
        while (line := ahead.take_line(limit)) is None:
            # If the line is longer than all data so far, read as much again.
            data = await self.fetch(self.step(ahead.remaining))
            if not data:
                return ahead.take() if ahead.remaining < MUCH_BYTES else await self._joined(ahead.take_pieces())
            if limit < 0 and ahead.remaining >= MUCH_BYTES and (end := data.find(b"\n") + 1):
                pieces = [*ahead.take_pieces(), data[:end]]
                ahead.feed(data[end:])
                return await self._joined(pieces)
            ahead.feed(data)
        return line

    async def readinto(self, view: memoryview) -> int:
        """Fill a buffer and return the number of bytes, fewer than its size only at the end of the file."""
        ahead = self.ahead
        if self.offset < 0 or len(view) - ahead.remaining < self._step_bytes:
            # A small read, or one at the kernel's position, where a cancelled read must not lose its data.
            data = await self.read(len(view))
            view[: len(data)] = data
            return len(data)
        start = ahead.remaining
        view[:start] = ahead.peek()
        total = 0
        while start + total < len(view):
            done = await self.readv([view[start + total :]], self.offset + total)
            if not done:
                break
            total += done
        # The state changes only here, so a cancelled call has read nothing.
        ahead.clear()
        self.offset += total
        return start + total

    # -- writing at the position -----------------------------------------------------------------

    async def write(self, data: memoryview) -> None:
        """Write data that does not fit into the buffer: pending data first, then `data` if it fills a buffer."""
        step = self.opened.buffer_bytes
        spare = step - WHOLE_BUFFERS_GO
        if len(data) <= spare:
            await self.write_out()
            self.append(data)
            return
        pending = self.take_pending()
        views = [memoryview(pending), data] if pending else [data]
        await self._send(views, len(pending), spare)
        for view in views:
            self.append(view)

    async def write_out(self) -> None:
        """Write the pending data to the kernel."""
        while self.pending:
            sending = self.send()
            if sending is False:
                pending = self.take_pending()
                await self._send([memoryview(pending)], len(pending), 0)
            elif sending is not None:
                await sending

    async def _send(self, views: list[memoryview], owed: int, spare: int) -> None:
        """Write until at most `spare` bytes are left.

        The first `owed` bytes come from the buffer and go back there if the write fails.
        """
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

    async def write_once(self, view: memoryview) -> int:
        """Write with one system call, and return the number of bytes written.

        Several, if the data has to be copied in pieces, or if a file's system takes a part of it at once.
        """
        views = [view]
        is_cut = not self.lends and is_mutable(view) and len(view) > PIECE_BYTES
        try:
            while views:
                flight = self._launch(views, 0)
                done = flight if isinstance(flight, int) else await self._land(flight)
                is_rest_due = self.offset >= 0 and done > 0
                if not is_rest_due and (not is_cut or done < PIECE_BYTES):
                    break
        except OSError:
            if not views or len(views[0]) == len(view):
                raise
        return len(view) - sum(map(len, views))

    def _launch(self, views: list[memoryview], owed: int) -> int | Flight:
        """Begin a write at the position. Return the number of bytes if it is done, else the flight for `_land`."""
        offset = -1 if self.opened.is_appending else self.offset
        done = self.writev(views, offset)
        if isinstance(done, Future):
            flight = Flight(done, views, owed)
            self._fly(flight)
            return flight
        self._has_written(views, done)
        return done

    async def _land(self, flight: Flight) -> int:
        """Wait for a write and return the number of bytes. Written bytes are removed from its views."""
        assert flight.views is not None
        future = flight.future
        try:
            await undisturbed(future)
        except BaseException:
            if not future.done():
                # Keep the descriptor open until the write has ended.
                self.watch(future)
            # The caller was cancelled, and may change its data from now on. If the write fails, all of the data goes
            # back into the buffer.
            kept = owned(flight.views)
            self._fly(flight._replace(views=kept, owed=sum(map(len, kept))))
            if isinstance(future, BorrowingFuture):
                await ended(future)
                await self._settle()
            raise
        self._fly(None)
        try:
            done = future.result()
        except OSError:
            self._keep(first(flight.views, flight.owed))
            raise
        assert isinstance(done, int)
        self._has_written(flight.views, done)
        return done

    def _has_written(self, views: list[memoryview], count: int) -> None:
        advance(views, count)
        if self.offset >= 0:
            if self.opened.is_appending:
                # An appending write went to the end of the file, and the kernel's position is now after it.
                self.offset = os.lseek(self.number, 0, os.SEEK_CUR)
            else:
                self.offset += count

    def _keep(self, views: list[memoryview]) -> None:
        """Put data that was not written back into the buffer. Without a buffer, it is not written any more."""
        if self.opened.buffer_bytes:
            self.put_back(b"".join(views))

    # -- the position ----------------------------------------------------------------------------

    async def _end(self) -> int:
        """Return the offset of the end of the file, or 0 if it is not known."""
        if self.offset >= 0 and self.opened.is_local:
            try:
                # Cheaper than fstat(2), and the kernel's position is not used for this file.
                return os.lseek(self.number, 0, os.SEEK_END)
            except OSError:
                # Some files in /proc and /sys do not support SEEK_END.
                return 0
        mode, size, _ = await self.status()
        return size if stat.S_ISREG(mode) else 0

    async def is_before_end(self, offset: int) -> bool:
        """Return True if the file is known to have bytes behind this offset."""
        return offset < await self._end()

    async def status(self) -> tuple[int, int, bool]:
        """Return the file's mode, its size in bytes, and whether its filesystem is local."""
        status = self.files.status(self.number)
        mode, size, _, is_local = status if isinstance(status, tuple) else await status
        return mode, size, is_local

    def raw_tell(self) -> int:
        """Return the offset of the next transfer."""
        return self.offset if self.offset >= 0 else os.lseek(self.number, 0, os.SEEK_CUR)

    async def raw_seek(self, target: int, whence: int) -> int:
        """Change the position like lseek(2), and return the new one."""
        if whence == os.SEEK_CUR and self.offset >= 0:
            target, whence = self.offset + target, os.SEEK_SET
        # To find the end or a hole, the kernel may have to ask a file server or read the disk.
        if whence in (os.SEEK_SET, os.SEEK_CUR) or (whence == os.SEEK_END and self.opened.is_local):
            position = os.lseek(self.number, target, whence)
        else:
            seeking = self.files.call(os.lseek, self.number, target, whence)
            self.watch(seeking)
            # Do not cancel it: the descriptor could be closed while the thread still uses it.
            await undisturbed(seeking)
            position = seeking.result()
        if self.offset >= 0:
            self.offset = position
        return position

    def rewind(self) -> None:
        """Discard read-ahead data, and go back to the program's position."""
        if self.ahead.remaining:
            if self.offset >= 0:
                self.offset -= self.ahead.remaining
            else:
                os.lseek(self.number, -self.ahead.remaining, os.SEEK_CUR)
        self.ahead.clear()

    def tell(self) -> int:
        """Return the program's position."""
        # As in `io`: the position of some devices, such as /dev/zero, stays 0 while they are read ahead.
        return max(self.raw_tell() - self.ahead.remaining, 0) + self.pending

    async def seek(self, target: int, whence: int) -> int:
        """Change the position and return the new one. Pending data must have been written out before."""
        ahead = self.ahead
        if whence == os.SEEK_CUR:
            target, whence = self.tell() + target, os.SEEK_SET
        if whence == os.SEEK_SET and ahead.remaining and ahead.move(target - self.tell()):
            return target
        position = await self.raw_seek(target, whence)
        ahead.clear()
        self._step_bytes = self.opened.buffer_bytes
        return position

    def give_out(self) -> int:
        """Return the descriptor for use by other code. From now on the position is the kernel's."""
        self.check_open()
        self.share()
        return self.number

    def forget_ahead(self) -> None:
        """Discard read-ahead data, which may be older than what was written. Later reads must not return it."""
        if self.is_taken:
            # Another call is reading: discard the data when it has ended.
            task = self.loop.create_task(self._rewind_next())
            _FORGETTING.add(task)
            task.add_done_callback(_FORGETTING.discard)
        elif self.number >= 0:
            self.rewind()

    async def _rewind_next(self) -> None:
        if self.is_taken:
            await self.wait_turn()
        else:
            self.is_taken = True
        try:
            if self.number >= 0:
                self.rewind()
        finally:
            self.leave()

    # -- closing ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """Write out buffered data and close the descriptor. Concurrent calls wait for the first one."""
        if self.closing is None:
            if self.number < 0:
                return
            self.check()
            self.closing = self._begin_close()
            if self.closing is None:
                return
        closing = self.closing
        if not closing.done():
            await undisturbed(closing)
            closing.result()

    def _begin_close(self) -> Future[None] | None:
        """Begin to close. Return a future to wait for, or None if the file is closed."""
        flight = self._flight
        if not self.has_flight and not self.is_taken and not self._flying:
            self.ahead.clear()
            if not self.pending:
                return self.close_number()
            closing = self.close_written()
            if closing is not False:
                return closing
        elif flight is not None and flight.views is None:
            flight.future.cancel()
        return self.loop.create_task(self._finish())

    async def _finish(self) -> None:
        """Close after all operations that are in progress."""
        if self.is_taken:
            try:
                await self.wait_turn()
            except BaseException:
                # It is still open.
                self.closing = None
                raise
        else:
            self.is_taken = True
        try:
            # A read that is in progress was cancelled by `_begin_close`.
            if self.has_flight and not self._is_reading():
                await self._settle()
            await self.write_out()
        finally:
            try:
                await self.wait_quiet()
                self.ahead.clear()
                done = self.close_number()
                if done is not None:
                    await done
            finally:
                self.leave()

    def rescue(self) -> None:
        """Write out buffered data with blocking calls. Used by the finalizer."""
        while self.pending:
            data = self.take_pending()
            if self.opened.is_appending or self.offset < 0:
                done = os.write(self.number, data)
            else:
                done = os.pwrite(self.number, data, self.offset)
                self.offset += done
            self.put_back(data[done:])

    def abandon(self) -> None:
        """Close the descriptor without the loop, which may be closed."""
        number, self.number = self.number, -1
        if self.opened.is_owner and number >= 0:
            self.files.forsake(number)

    def __del__(self) -> None:
        opened = self.opened
        if self.number < 0:
            return
        if opened.is_owner:
            warnings.warn(f"unclosed file {opened.described()}", ResourceWarning, stacklevel=1, source=self)
        try:
            if self.pending and not opened.is_local and opened.is_owner and running_loop() is self.loop:
                # On a network filesystem, do not block: close in the background.
                closing = self.close_written()
                if closing is not False:
                    if closing is not None:
                        closing.add_done_callback(_tell_late)
                    return
            self.rescue()
        finally:
            self.abandon()


# References to running tasks: the loop has only weak ones.
_FORGETTING: set[asyncio.Task[None]] = set()


def _tell_late(closing: Future[None]) -> None:
    """Raise the error of a background close, so that the loop's exception handler is called."""
    closing.result()
