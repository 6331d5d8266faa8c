"""`Descriptor`: the one owner of an open file's number (S4): whose turn it is, and what is under way on it.

Every operation on the number goes through here; it is given back once, after the last of them has ended. The cursor and
the buffers are `handle.py`'s.
"""

from __future__ import annotations

import asyncio
import io
from asyncio import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from oneloop import _native
from oneloop.files.engine import undisturbed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import ReadableBuffer, WriteableBuffer

    from oneloop.files.opening import Mode

__all__ = ["CLOSED", "SEEK_TEXT", "Descriptor", "Opened", "running_loop"]

CLOSED = "I/O operation on closed file."
SEEK_TEXT = "File or stream is not seekable."

# What must not be found in `asyncio.events` anew for each operation.
running_loop = asyncio._get_running_loop


class Opened(NamedTuple):
    """What a handle is made of, besides the number."""

    # What `open()` was told.
    name: str | bytes | int
    mode: Mode
    # Where the cursor is, or -1 for the kernel's.
    offset: int
    # How long it is, in bytes.
    size: int
    # A regular file or a block device.
    is_file: bool
    # The descriptor has a position.
    is_seekable: bool
    # Its filesystem answers at once.
    is_near: bool
    # Writes go to the end, wherever the cursor is (O_APPEND).
    is_appending: bool
    # It was opened with O_DIRECT.
    is_direct: bool
    # Closing the file closes the number.
    is_owner: bool
    # How much is written behind, and read ahead at first, in bytes; 0: nothing.
    buffer_bytes: int
    # What is read ahead may grow as long as the program reads on: nobody has set a size.
    may_grow: bool


class Descriptor(_native.FileHandle):
    """An open descriptor and its loop; not made by programs.

    `number` is -1 once it is given back; whatever is under way keeps it open until then. Cancelling a transfer lets the
    kernel go on. `take_turn()` and `pending` are the native half's.
    """

    __slots__ = ("__weakref__", "_flying", "loop", "opened")

    def __init__(
        self,
        files: _native.Files,
        number: int,
        capacity: int,
        opened: Opened,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.opened = opened
        self.loop = loop
        # What uses the number without anybody who would wait; made when there is something.
        self._flying: set[Future[Any]] | None = None

    # -- checks ----------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise ValueError if the file is closed."""
        if self.number < 0:
            raise ValueError(CLOSED)

    def check(self) -> None:
        """Raise unless the running loop is the file's own, and the file is open.

        Raises:
            ValueError: the file is closed.
            RuntimeError: another loop or thread uses it.
        """
        if self.number < 0:
            raise ValueError(CLOSED)
        if running_loop() is not self.loop:
            self._refuse_stranger()

    def _refuse_stranger(self) -> None:
        whose = "whose loop is closed" if self.loop.is_closed() else "that belongs to another event loop"
        raise RuntimeError(
            f"use of a file {whose}: open it in the loop that uses it, or send the work there with "
            "asyncio.run_coroutine_threadsafe(coroutine, loop)"
        )

    def check_reading(self, name: str) -> None:
        """As `check`, and io.UnsupportedOperation if it was not opened for reading."""
        self.check()
        if not self.opened.mode.is_reading:
            raise io.UnsupportedOperation(name)

    def check_writing(self, name: str) -> None:
        """As `check`, and io.UnsupportedOperation if it was not opened for writing."""
        self.check()
        if not self.opened.mode.is_writing:
            raise io.UnsupportedOperation(name)

    def check_seekable(self, text: str = SEEK_TEXT) -> None:
        """Raise io.UnsupportedOperation if it has no position."""
        if not self.opened.is_seekable:
            raise io.UnsupportedOperation(text)

    # -- whose turn it is ------------------------------------------------------------------------

    async def begin(self) -> None:
        """Take the turn, once those before have had theirs.

        What a cancelled call has left under way ends first, and counts.
        Waits for a later tick, too, where operations in memory have had this one for long enough.
        """
        if self.is_taken:
            await self.wait_turn()
        else:
            self.is_taken = True
        try:
            if self.files.is_spent():
                await self.files.later()
            self.check()
            if self.has_flight:
                await self._settle()
        except BaseException:
            self.leave()
            raise

    async def wait_turn(self) -> None:
        waiter = self.loop.create_future()
        self.enqueue(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # Given and cancelled in the same tick.
                self.leave()
            else:
                self.dequeue(waiter)
            raise

    async def _settle(self) -> None:
        """Wait for what a cancelled call has left under way."""
        raise NotImplementedError

    # -- operations ------------------------------------------------------------------------------

    async def readv(self, buffers: Sequence[WriteableBuffer], offset: int) -> int:
        """Fill the buffers from `offset` on; how many bytes came, 0 where the file ends."""
        self.check()
        done = self.files.readv(self.number, buffers, offset, self.opened.is_direct)
        return await done if isinstance(done, Future) else done

    def writev(self, buffers: Sequence[ReadableBuffer], offset: int) -> int | Future[int]:
        """Write the buffers at `offset`; how many bytes went, which may be fewer."""
        self.check()
        self.was_written = True
        return self.files.writev(self.number, buffers, offset, self.opened.is_direct)

    async def sync(self, datasync: bool) -> None:
        """Have everything that was written, or with `datasync` what is needed to read it, on the disk."""
        self.check()
        done = self.files.fsync(self.number, datasync)
        if done is not None:
            await done

    async def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes."""
        self.check()
        self.was_written = True
        done = self.files.ftruncate(self.number, size)
        if done is not None:
            await done

    # -- the end ---------------------------------------------------------------------------------

    def watch(self, future: Future[Any]) -> None:
        """Keep the number open until this operation has ended."""
        if self._flying is None:
            self._flying = set()
        self._flying.add(future)
        self.watched = len(self._flying)
        future.add_done_callback(self._has_landed)

    def _has_landed(self, future: Future[Any]) -> None:
        if self._flying is not None:
            self._flying.discard(future)
            self.watched = len(self._flying)
        if not future.cancelled():
            # Whoever waited has it from the future; a cancelled waiter wants it no more.
            future.exception()

    async def wait_quiet(self) -> None:
        """Wait until nothing is under way."""
        while self._flying:
            await undisturbed(next(iter(self._flying)))

    def close_number(self) -> Future[None] | None:
        number, self.number = self.number, -1
        if not self.opened.is_owner:
            return None
        return self.files.close(number, not self.was_written)
