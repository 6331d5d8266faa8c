"""`File`: what binary files share, buffered or not: a descriptor, a cursor, whose turn it is, and the end.

The cursor is the file's own, and each transfer says its offset, so that a cancelled one moves nothing. Where there are
no offsets (pipes, terminals, devices), and for a number that others know too (`fileno()`, `open(fd)`), it is the
descriptor's position in the kernel: `_offset` is -1 then, and what a cancelled read brings is kept for the next.

Life: open → closing (`_closing` is set) → closed (the descriptor is). Methods without an underscore take the turn;
those with one are for its holder, and for `text.py`.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from asyncio import Future
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from oneloop.files.deadline import within
from oneloop.files.raw import CLOSED, Descriptor, undisturbed
from oneloop.files.readahead import ReadAhead, read_ahead
from oneloop.files.turn import Turn
from oneloop.files.views import advance, first

if TYPE_CHECKING:
    from types import TracebackType

    from oneloop.files.mode import Mode

__all__ = ["File", "Flight", "Origin"]

T = TypeVar("T")

UNKNOWN_SIZE_BYTES = 64 * 1024
"""Asked for at once where a file does not say how long it is."""

DIRECT_BLOCK_BYTES = 4096
"""A multiple of what any disk asks of transfers past the page cache."""


class Flight(NamedTuple):
    """A transfer that outlives whoever waits for it.

    A write has what it writes, of which the first `owed` bytes go back into the buffer if it fails; a read has None.
    """

    future: Future[bytes] | Future[int]
    views: list[memoryview] | None = None
    owed: int = 0


class Origin(NamedTuple):
    """What a file is made of."""

    descriptor: Descriptor
    # What `open()` was told.
    name: str | bytes | int
    mode: Mode
    # Where the cursor is, or -1 for the kernel's.
    offset: int
    # The descriptor has a position.
    is_seekable: bool
    # Writes go to the end, wherever the cursor is (O_APPEND).
    is_appending: bool


class File:
    """The base of binary files; not made by programs."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_closing",
        "_descriptor",
        "_flight",
        "_is_appending",
        "_is_seekable",
        "_mode",
        "_offset",
        "_turn",
        "name",
    )

    def __init__(self, origin: Origin) -> None:
        self._descriptor, self.name, self._mode, self._offset, self._is_seekable, self._is_appending = origin
        self._ahead: ReadAhead[bytes] = read_ahead(b"\n")
        self._turn = Turn()
        self._flight: Flight | None = None
        self._closing: Future[None] | None = None

    def __repr__(self) -> str:
        return f"<oneloop.files.{type(self).__name__} name={self.name!r} mode={self.mode!r}>"

    def _told(self) -> str:
        """How the program that opened it knows it."""
        return repr(self)

    # -- what it is ------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """As io's files say it: rb, wb, ab, xb, rb+, ab+, xb+."""
        return self._mode.of_bytes

    @property
    def closed(self) -> bool:
        """True once the descriptor is given back."""
        return self._descriptor.is_closed

    def fileno(self) -> int:
        """The descriptor's number. From here on its position in the kernel is the file's cursor.

        So that a child process that gets the file goes on where the program stopped (after a `flush()`).
        """
        self._check_open()
        if self._offset >= 0 and not self._turn.is_taken:
            os.lseek(self._descriptor.number, self._offset, os.SEEK_SET)
            self._offset = -1
        return self._descriptor.number

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        self._check_open()
        return os.isatty(self._descriptor.number)

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        self._check_open()
        return self._mode.is_reading

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        self._check_open()
        return self._mode.is_writing

    def seekable(self) -> bool:
        """Whether `seek` and `tell` work."""
        self._check_open()
        return self._is_seekable

    def _check_open(self) -> None:
        if self._descriptor.is_closed:
            raise ValueError(CLOSED)

    def _check_reading(self, name: str) -> None:
        self._descriptor.check()
        if not self._mode.is_reading:
            raise io.UnsupportedOperation(name)

    def _check_writing(self, name: str) -> None:
        self._descriptor.check()
        if not self._mode.is_writing:
            raise io.UnsupportedOperation(name)

    # -- what the kinds do differently -----------------------------------------------------------

    async def flush(self, *, timeout: float | None = None) -> None:
        """Hand everything that was written to the kernel; of the disk, `fsync` speaks.

        Raises:
            OSError: the kernel does not take it. What it did not take stays, and is tried again.
        """
        if timeout is not None:
            return await within(timeout, self.flush())
        if self._turn.is_taken or self._flight is not None:
            await self._begin()
        else:
            self._descriptor.check()
            self._turn.is_taken = True
        try:
            return await self._flush()
        finally:
            self._turn.leave()

    def _is_dirty(self) -> bool:
        """Whether something that was written may not have reached the kernel."""
        return self._flight is not None and self._flight.views is not None

    async def _flush(self) -> None:
        """Write out what is buffered."""

    def _flush_at_once(self) -> bool:
        """Write out what is buffered if that needs no waiting. False if it does, or failed."""
        return True

    def _keep(self, views: list[memoryview]) -> None:
        """Put what could not be written, and nobody waits for, back into the buffer."""

    def _rescue(self) -> None:
        """Write out what is buffered, blocking: the file was left open, and goes."""

    # -- whose turn it is ------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Take the turn; what a cancelled call has left under way ends first, and counts.

        Callers look first whether there is anything to wait for.
        """
        if self._turn.is_taken:
            await self._turn.wait()
        else:
            self._turn.is_taken = True
        try:
            self._descriptor.check()
            if self._flight is not None:
                await self._settle(self._flight)
        except BaseException:
            self._turn.leave()
            raise

    async def _settle(self, flight: Flight) -> None:
        if flight.views is None:
            self._ahead.feed(await self._stream_read(flight))
            return
        try:
            await self._land(flight)
        except OSError:
            # What failed is in the buffer again: the next flush tries it, and tells.
            return
        self._keep(flight.views)

    # -- transfers at the cursor -----------------------------------------------------------------

    async def _fetch(self, size: int) -> bytes:
        """Read up to `size` bytes at the cursor, past what is read ahead."""
        data = self._descriptor.read(size, self._offset)
        if isinstance(data, Future):
            self._ahead.is_held = True
            try:
                if self._offset < 0:
                    self._descriptor.watch(data)
                    self._flight = Flight(data)
                    data = await self._stream_read(self._flight)
                else:
                    data = await data
            finally:
                self._ahead.is_held = False
        if self._offset >= 0:
            self._offset += len(data)
        return data

    async def _stream_read(self, flight: Flight) -> bytes:
        """Wait for a read at the kernel's position."""
        await undisturbed(flight.future)
        self._flight = None
        if flight.future.cancelled():
            # Only close() does that.
            raise ValueError(CLOSED)
        data = flight.future.result()
        assert isinstance(data, bytes)
        return data

    async def _read_all(self) -> bytes:
        """All that is left, what is read ahead included; an error or a cancelled wait loses nothing."""
        pieces: list[bytes] = []
        total = 0
        end = self._end()
        try:
            while True:
                missing = end - self._raw_tell() if end else -1
                # One more than there should be shows that it was all.
                size = missing + 1 if missing >= 0 else max(UNKNOWN_SIZE_BYTES, total)
                if self._descriptor.is_direct:
                    size += -size % DIRECT_BLOCK_BYTES
                data = await self._fetch(size)
                if not data:
                    break
                pieces.append(data)
                total += len(data)
                if len(data) == missing:
                    break
        except BaseException:
            self._ahead.feed(b"".join(pieces))
            raise
        if self._ahead.remaining:
            pieces.insert(0, self._ahead.take())
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _end(self) -> int:
        """Where the file ends, 0 if it does not tell."""
        if self._offset < 0:
            status = os.fstat(self._descriptor.number)
            return status.st_size if stat.S_ISREG(status.st_mode) else 0
        try:
            # Cheaper than fstat(2), and the kernel's position is nobody's.
            return os.lseek(self._descriptor.number, 0, os.SEEK_END)
        except OSError:
            # Some files of the kernel have no end to seek to.
            return 0

    def _launch(self, views: list[memoryview], owed: int) -> int | Flight:
        """Write at the cursor; how much went, or the flight that `_land` waits for."""
        done = self._descriptor.writev([*views], -1 if self._is_appending else self._offset)
        if isinstance(done, Future):
            self._descriptor.watch(done)
            flight = self._flight = Flight(done, views, owed)
            return flight
        self._has_written(views, done)
        return done

    async def _land(self, flight: Flight) -> int:
        """Wait for a write; what is left of its views afterwards was not written."""
        assert flight.views is not None
        try:
            await undisturbed(flight.future)
        except BaseException:
            # Who wrote this is gone. All of it is the file's now.
            self._flight = flight._replace(owed=sum(map(len, flight.views)))
            raise
        self._flight = None
        try:
            done = flight.future.result()
        except OSError:
            self._keep(first(flight.views, flight.owed))
            raise
        assert isinstance(done, int)
        self._has_written(flight.views, done)
        return done

    def _has_written(self, views: list[memoryview], count: int) -> None:
        advance(views, count)
        if self._offset >= 0:
            if self._is_appending:
                # It was written at the kernel's position, which is now where that ended.
                self._offset = os.lseek(self._descriptor.number, 0, os.SEEK_CUR)
            else:
                self._offset += count

    def _raw_tell(self) -> int:
        return self._offset if self._offset >= 0 else os.lseek(self._descriptor.number, 0, os.SEEK_CUR)

    def _raw_seek(self, target: int, whence: int) -> int:
        if whence == os.SEEK_CUR and self._offset >= 0:
            target, whence = self._offset + target, os.SEEK_SET
        position = os.lseek(self._descriptor.number, target, whence)
        if self._offset >= 0:
            self._offset = position
        return position

    def _rewind(self) -> None:
        """Forget what is read ahead; the cursor is where the program is."""
        if self._ahead.remaining:
            self._raw_seek(-self._ahead.remaining, os.SEEK_CUR)
        self._ahead.clear()

    # -- the end ---------------------------------------------------------------------------------

    async def close(self, *, timeout: float | None = None) -> None:
        """Write out what is buffered and give the descriptor back, once.

        A cancelled close goes on by itself; who calls again waits for the same one. A read that waits for a pipe ends
        with ValueError.

        Raises:
            OSError: what is buffered could not be written, or the kernel says so; the file is closed nevertheless.
        """
        if timeout is not None:
            return await within(timeout, self.close())
        if self._closing is None:
            if self._descriptor.is_closed:
                return None
            self._descriptor.check()
            if self._is_closed_at_once():
                return None
        closing = self._closing
        assert closing is not None
        if closing.done():
            return None
        await undisturbed(closing)
        return closing.result()

    def _is_closed_at_once(self) -> bool:
        """Begin to close. True if that needed no waiting."""
        flight = self._flight
        if flight is None and not self._turn.is_taken and self._flush_at_once() and not self._descriptor.is_busy:
            self._ahead.clear()
            self._closing = self._descriptor.close()
            return self._closing is None
        if flight is not None and flight.views is None:
            flight.future.cancel()
        self._closing = self._descriptor.loop.create_task(self._finish())
        return False

    async def _finish(self) -> None:
        """Close when what is under way has ended."""
        if self._turn.is_taken:
            await self._turn.wait()
        else:
            self._turn.is_taken = True
        try:
            # A read that is still under way was cancelled.
            if self._flight is not None and self._flight.views is not None:
                await self._settle(self._flight)
            await self._flush()
        finally:
            try:
                await self._descriptor.wait_quiet()
                self._ahead.clear()
                done = self._descriptor.close()
                if done is not None:
                    await done
            finally:
                self._turn.leave()

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is None or descriptor.is_closed:
            return
        if descriptor.is_owner:
            warnings.warn(f"unclosed file {self._told()}", ResourceWarning, stacklevel=1, source=self)
        try:
            self._rescue()
        finally:
            descriptor.abandon()
