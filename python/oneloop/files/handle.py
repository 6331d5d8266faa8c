"""`Handle`: an open file: its cursor, its buffers, and its end.

The cursor is the file's own, and each transfer says its offset, so that a cancelled one moves nothing. Where there are
no offsets (pipes, terminals, devices), and for a number that others know too (`fileno()`, `open(fd)`), it is the
descriptor's position in the kernel: `offset` is -1 then, and what a cancelled read brings is kept for the next.

Life: open → closing (`closing` is set) → closed (the number is -1). Binary and text files are faces of a handle; its
coroutines are for whoever has the turn:

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
from oneloop.files.descriptor import CLOSED, Descriptor, Opened, running_loop
from oneloop.files.engine import undisturbed
from oneloop.files.views import advance, first

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Handle"]

UNKNOWN_SIZE_BYTES = 64 * 1024
"""Asked for at once where a file does not say how long it is."""

DIRECT_BLOCK_BYTES = 4096
"""A multiple of what any disk asks of transfers past the page cache."""

LARGEST_STEP_BYTES = 256 * 1024

MUCH_BYTES = 1024 * 1024
"""More than what is copied in a moment."""

# What fills the buffer to the last byte goes out at once, as io's buffered files do since Python 3.13.
WHOLE_BUFFERS_GO = sys.version_info >= (3, 13)


class Flight(NamedTuple):
    """A transfer that outlives whoever waits for it.

    A write has what it writes, of which the first `owed` bytes go back into the buffer if it fails; a read has None.
    """

    future: Future[bytes] | Future[int]
    views: list[memoryview] | None = None
    owed: int = 0


@final
class Handle(Descriptor):
    """An open file; not made by programs."""

    __slots__ = ("_flight", "_step_bytes", "ahead", "closing", "describe")

    def __init__(
        self,
        files: _native.Files,
        number: int,
        capacity: int,
        opened: Opened,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(files, number, capacity, opened, loop)
        self.ahead: _native.ReadAhead[bytes] = _native.ReadAhead(b"\n")
        self.closing: Future[None] | None = None
        # How the program that opened it knows it; for the warning that it was left open.
        self.describe: Callable[[Opened], str] = repr
        self._step_bytes = opened.buffer_bytes
        self._flight: Flight | None = None

    # -- whose turn it is ------------------------------------------------------------------------

    async def begin_reading(self) -> None:
        """Take the turn, and write out what is pending, which is to be read back."""
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
            # The native half's. What could not be written is pending again: the next flush tries it, and tells.
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
            # What failed is in the buffer again: the next flush tries it, and tells.
            return
        self._keep(flight.views)

    def _fly(self, flight: Flight | None) -> None:
        self._flight = flight
        self.has_flight = flight is not None

    def is_dirty(self) -> bool:
        """Whether something that was written may not have reached the kernel."""
        return self.pending > 0 or (self.has_flight and not self._is_reading())

    def _is_reading(self) -> bool:
        """Whether a read at the kernel's position is under way."""
        return self._flight is not None and self._flight.views is None

    # -- reading at the cursor -------------------------------------------------------------------

    async def fetch(self, size: int) -> bytes:
        """Read up to `size` bytes at the cursor, past what is read ahead."""
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
        """Wait for a read at the kernel's position."""
        await undisturbed(flight.future)
        self._fly(None)
        if flight.future.cancelled():
            # Only close() does that.
            raise ValueError(CLOSED)
        data = flight.future.result()
        assert isinstance(data, bytes)
        return data

    def step(self, missing: int) -> int:
        """How much to read, so that at least this is there."""
        step = self._step_bytes
        if self.opened.may_grow and step < LARGEST_STEP_BYTES:
            self._step_bytes = step * 4
        return max(missing, step)

    def read_more_at_once(self, step_bytes: int) -> None:
        """From now on so much is read ahead, unless somebody has set a size."""
        if self.opened.may_grow:
            self._step_bytes = max(self._step_bytes, step_bytes)

    async def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        ahead = self.ahead
        while (missing := size - ahead.remaining) > 0:
            data = await self.fetch(self.step(missing))
            if not data:
                break
            if len(data) == missing:
                # No copy of what is asked for as a whole.
                return await self._joined([ahead.take(), data]) if ahead.remaining else data
            ahead.feed(data)
        return ahead.take(size)

    async def _joined(self, pieces: list[bytes]) -> bytes:
        """One after the other; where that is much, on a thread. If that is cancelled, they are ahead again."""
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
        """Up to `size` bytes with at most one call of the kernel."""
        if self.ahead.remaining or not size:
            return self.ahead.take(size)
        return await self.fetch(size)

    async def read_all(self) -> bytes:
        """All that is left, what is read ahead included; an error or a cancelled wait loses nothing."""
        pieces: list[bytes] = []
        total = 0
        end = await self._end()
        try:
            while True:
                missing = end - self.raw_tell() if end else -1
                # One more than there should be shows that it was all.
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
            self.ahead.feed(b"".join(pieces))
            raise
        if self.ahead.remaining:
            pieces.insert(0, self.ahead.take())
        return pieces[0] if len(pieces) == 1 else await self._joined(pieces)

    async def line(self, limit: int) -> bytes:
        """A line with its end, or its first `limit` bytes; b"" at the end."""
        ahead = self.ahead
        while (line := ahead.take_line(limit)) is None:
            # A line that is longer than everything so far asks for as much again.
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
        """Fill a buffer; the number of bytes, fewer than fit only at the end."""
        ahead = self.ahead
        if self.offset < 0 or len(view) - ahead.remaining < self._step_bytes:
            # Small; or at the kernel's position, where a cancelled read must not lose what it brings.
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
        # Only now is anything read: whoever was cancelled has read nothing.
        ahead.clear()
        self.offset += total
        return start + total

    # -- writing at the cursor -------------------------------------------------------------------

    async def write(self, data: memoryview) -> None:
        """Write what does not fit into the buffer: what is pending goes out, and `data` too if it fills a buffer."""
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
        """Hand what is pending to the kernel."""
        while self.pending:
            sending = self.send()
            if sending is False:
                pending = self.take_pending()
                await self._send([memoryview(pending)], len(pending), 0)
            elif sending is not None:
                await sending

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

    async def write_once(self, view: memoryview) -> int:
        """Write with one call of the kernel; how much went."""
        flight = self._launch([view], 0)
        return flight if isinstance(flight, int) else await self._land(flight)

    def _launch(self, views: list[memoryview], owed: int) -> int | Flight:
        """Write at the cursor; how much went, or the flight that `_land` waits for."""
        offset = -1 if self.opened.is_appending else self.offset
        done = self.writev([*views], offset)
        if isinstance(done, Future):
            flight = Flight(done, views, owed)
            self._fly(flight)
            return flight
        self._has_written(views, done)
        return done

    async def _land(self, flight: Flight) -> int:
        """Wait for a write; what is left of its views afterwards was not written."""
        assert flight.views is not None
        future = flight.future
        try:
            await undisturbed(future)
        except BaseException:
            if not future.done():
                # The number stays open until it is.
                self.watch(future)
            # Who wrote this is gone. All of it is the file's now.
            self._fly(flight._replace(owed=sum(map(len, flight.views))))
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
                # It was written at the kernel's position, which is now where that ended.
                self.offset = os.lseek(self.number, 0, os.SEEK_CUR)
            else:
                self.offset += count

    def _keep(self, views: list[memoryview]) -> None:
        """Put what could not be written, and nobody waits for, back into the buffer."""
        self.put_back(b"".join(views))

    # -- the cursor ------------------------------------------------------------------------------

    async def _end(self) -> int:
        """Where the file ends, 0 if it does not tell."""
        if self.offset >= 0 and self.opened.is_near:
            try:
                # Cheaper than fstat(2), and the kernel's position is nobody's.
                return os.lseek(self.number, 0, os.SEEK_END)
            except OSError:
                # Some files of the kernel have no end to seek to.
                return 0
        mode, size, _ = await self.look()
        return size if stat.S_ISREG(mode) else 0

    async def look(self) -> tuple[int, int, bool]:
        """The file's mode, its size in bytes, and whether its filesystem answers at once."""
        looked = self.files.look(self.number)
        mode, size, _, is_near = looked if isinstance(looked, tuple) else await looked
        return mode, size, is_near

    def raw_tell(self) -> int:
        """Where the next transfer is."""
        return self.offset if self.offset >= 0 else os.lseek(self.number, 0, os.SEEK_CUR)

    async def raw_seek(self, target: int, whence: int) -> int:
        """lseek(2) of the cursor."""
        if whence == os.SEEK_CUR and self.offset >= 0:
            target, whence = self.offset + target, os.SEEK_SET
        # Where the end or a hole is, a server may have to be asked, or the disk.
        if whence in (os.SEEK_SET, os.SEEK_CUR) or (whence == os.SEEK_END and self.opened.is_near):
            position = os.lseek(self.number, target, whence)
        else:
            seeking = self.files.call(os.lseek, self.number, target, whence)
            self.watch(seeking)
            # Cancelling it would let the number be given back while the thread still uses it.
            await undisturbed(seeking)
            position = seeking.result()
        if self.offset >= 0:
            self.offset = position
        return position

    def rewind(self) -> None:
        """Forget what is read ahead; the cursor is where the program is."""
        if self.ahead.remaining:
            if self.offset >= 0:
                self.offset -= self.ahead.remaining
            else:
                os.lseek(self.number, -self.ahead.remaining, os.SEEK_CUR)
        self.ahead.clear()

    def tell(self) -> int:
        """Where the program is."""
        return self.raw_tell() - self.ahead.remaining + self.pending

    async def seek(self, target: int, whence: int) -> int:
        """Move the cursor; nothing is pending."""
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
        """The number, for others: its position in the kernel is the file's cursor from here on."""
        self.check_open()
        self.share()
        return self.number

    def forget_ahead(self) -> None:
        """What was read ahead while something was written may be older than that: no later read may find it."""
        if self.is_taken:
            # Whoever reads now is let end.
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

    # -- the end ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """Write out what is buffered and give the number back, once; see `File.close`."""
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
        """What is to be waited for; None if that was all."""
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
        """Close when what is under way has ended."""
        if self.is_taken:
            await self.wait_turn()
        else:
            self.is_taken = True
        try:
            # A read that is still under way was cancelled.
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
        """Write out what is buffered, blocking: nobody waits for it any more."""
        while self.pending:
            data = self.take_pending()
            if self.opened.is_appending or self.offset < 0:
                done = os.write(self.number, data)
            else:
                done = os.pwrite(self.number, data, self.offset)
                self.offset += done
            self.put_back(data[done:])

    def abandon(self) -> None:
        """Give the number back without a loop, which may be gone."""
        number, self.number = self.number, -1
        if self.opened.is_owner and number >= 0:
            self.files.forsake(number)

    def __del__(self) -> None:
        opened: Opened | None = getattr(self, "opened", None)
        if opened is None or self.number < 0:
            return
        if opened.is_owner:
            warnings.warn(f"unclosed file {self.describe(opened)}", ResourceWarning, stacklevel=1, source=self)
        try:
            if self.pending and not opened.is_near and opened.is_owner and running_loop() is self.loop:
                # A server is not waited for.
                closing = self.close_written()
                if closing is not False:
                    if closing is not None:
                        closing.add_done_callback(_tell_late)
                    return
            self.rescue()
        finally:
            self.abandon()


# Tasks are to be kept by somebody while they run.
_FORGETTING: set[asyncio.Task[None]] = set()


def _tell_late(closing: Future[None]) -> None:
    """Fail where nobody waits: the loop's exception handler hears of it."""
    closing.result()
