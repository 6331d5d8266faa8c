"""`Descriptor`: the only owner of an open file's descriptor (S4). It has the file's lock and its running operations.

Every operation on the descriptor goes through this class. The descriptor is closed once, after the last operation has
ended. The position and the buffers are in `handle.py`.
"""

from __future__ import annotations

import io
from asyncio import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from oneloop import _native
from oneloop.files.borrowed import PIECE_BYTES, copied
from oneloop.files.engine import running_loop, undisturbed
from oneloop.files.views import advance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import WriteableBuffer

    from oneloop.files.coding import Style
    from oneloop.files.request import Mode

__all__ = ["CLOSED", "SEEK_TEXT", "Descriptor", "Opened"]

CLOSED = "I/O operation on closed file."
SEEK_TEXT = "File or stream is not seekable."


class Opened(NamedTuple):
    """The properties of a new handle, besides the descriptor. The native half reads some of them by their index."""

    # The `file` argument of `open()`.
    name: str | bytes | int
    mode: Mode
    # The position, or -1 if it is the kernel's.
    offset: int
    # The file's size in bytes.
    size: int
    # A regular file or a block device.
    is_file: bool
    # The descriptor has a position.
    is_seekable: bool
    # The filesystem is local: it answers without asking a server.
    is_local: bool
    # Writes go to the end, wherever the position is (O_APPEND).
    is_appending: bool
    # It was opened with O_DIRECT.
    is_direct: bool
    # Closing the file closes the descriptor.
    is_owner: bool
    # Size of the write buffer and initial size of the read-ahead, in bytes; 0: unbuffered.
    buffer_bytes: int
    # The read-ahead may grow while the program reads on, because the program has not set a size.
    may_grow: bool
    # How text is coded; None: it is a binary file.
    style: Style | None

    def described(self) -> str:
        """Return the repr of the file object, which may not exist any more."""
        if self.style is not None:
            kind, mode, rest = "TextFile", self.mode.given, f" encoding={self.style.encoding!r}"
        else:
            kind, mode, rest = "BinaryFile" if self.buffer_bytes else "UnbufferedFile", self.mode.of_bytes, ""
        return f"<oneloop.files.{kind} name={self.name!r} mode={mode!r}{rest}>"


class Descriptor(_native.FileHandle):
    """An open descriptor and its loop. Internal: programs call `open()`.

    `number` is -1 once the descriptor is closed. Operations in progress keep it open. If a transfer is cancelled, the
    kernel still completes it. `take_turn()` and `pending` are defined in the native base class.
    """

    __slots__ = ("__weakref__",)

    # -- checks ----------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise ValueError if the file is closed."""
        if self.number < 0:
            raise ValueError(CLOSED)

    def check(self) -> None:
        """Raise unless the file is open and belongs to the running loop.

        Raises:
            ValueError: the file is closed.
            RuntimeError: another loop, another thread, or code without a running loop uses the file.
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
        """Like `check`, but also raise io.UnsupportedOperation if the file was not opened for reading."""
        self.check()
        if not self.opened.mode.is_reading:
            raise io.UnsupportedOperation(name)

    def check_writing(self, name: str) -> None:
        """Like `check`, but also raise io.UnsupportedOperation if the file was not opened for writing."""
        self.check()
        if not self.opened.mode.is_writing:
            raise io.UnsupportedOperation(name)

    def check_seekable(self, text: str = SEEK_TEXT) -> None:
        """Raise io.UnsupportedOperation if the file cannot seek."""
        if not self.opened.is_seekable:
            raise io.UnsupportedOperation(text)

    # -- the turn ----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Take the turn, in the order of the calls.

        A transfer that a cancelled call has left in progress ends first and takes effect. If operations in memory have
        used enough time of this tick, wait for a later tick.
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
                # The turn was given and the task cancelled in the same tick.
                self.leave()
            else:
                self.dequeue(waiter)
            raise

    async def _settle(self) -> None:
        """Wait for a transfer that a cancelled call has left in progress."""
        raise NotImplementedError

    # -- operations ------------------------------------------------------------------------------

    async def readv(self, buffers: Sequence[WriteableBuffer], offset: int) -> int:
        """Fill the buffers from `offset` on. Return the number of bytes, 0 at the end of the file."""
        self.check()
        if not self.lends:
            return await self._read_copied([memoryview(buffer) for buffer in buffers], offset)
        done = self.files.readv(self.number, buffers, offset, self.opened.is_direct)
        return await done if isinstance(done, Future) else done

    async def _read_copied(self, views: list[memoryview], offset: int) -> int:
        """Like `readv`, into memory that belongs to the operation; see `borrowed`."""
        total = 0
        while views:
            self.check()
            wanted = min(sum(map(len, views)), PIECE_BYTES)
            data = self.files.read(self.number, wanted, offset + total, False)
            if isinstance(data, Future):
                data = await data
            rest = memoryview(data)
            for view in views:
                part = rest[: len(view)]
                view[: len(part)] = part
                rest = rest[len(part) :]
            advance(views, len(data))
            total += len(data)
            if len(data) < wanted:
                break
        return total

    @property
    def lends(self) -> bool:
        """True if transfers may use the memory of the program; see `borrowed`."""
        opened = self.opened
        return opened.is_direct or (opened.is_local and opened.is_file)

    def writev(self, views: list[memoryview], offset: int) -> int | Future[int]:
        """Write the views at `offset`. Return the number of bytes, which can be fewer than given."""
        self.check()
        self.was_written = True
        lent = [*views] if self.lends else copied(views)
        return self.files.writev(self.number, lent, offset, self.opened.is_direct)

    async def sync(self, datasync: bool) -> None:
        """Wait until the file is on the disk: fsync(2), or with `datasync` fdatasync(2)."""
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

    # -- closing ---------------------------------------------------------------------------------

    def watch(self, future: Future[Any]) -> None:
        """Keep the descriptor open until this operation has ended."""
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
            # Mark the exception as retrieved: the waiter has it from the future, or was cancelled.
            future.exception()

    async def wait_quiet(self) -> None:
        """Wait until no operation is in progress."""
        while self._flying:
            await undisturbed(next(iter(self._flying)))

    def close_number(self) -> Future[None] | None:
        number, self.number = self.number, -1
        if not self.opened.is_owner:
            return None
        return self.files.close(number, not self.was_written)
