"""`Descriptor`: the one owner of an open file's descriptor (S4).

Every operation on the number goes through here; it is closed once, after the last of them has ended. It has no cursor
and no buffer: `file.py` and its kinds do.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from oneloop._native import Files

__all__ = ["Descriptor", "undisturbed"]

T = TypeVar("T")

# What must not be found in `asyncio.events` anew for each operation.
_running_loop = asyncio._get_running_loop

CLOSED = "I/O operation on closed file."


@final
class Descriptor:
    """An open descriptor, its loop, and the operations on it that have not ended.

    Args:
        number: the descriptor; from now on this object closes it, unless `closefd` is false.
        engine: the file operations of `loop`.
        is_direct: it was opened with O_DIRECT.

    Operations return their value, or a future of it where they have to wait. Cancelling the future lets the kernel go
    on; the number stays open until it has ended, whatever is closed meanwhile.
    """

    __slots__ = ("_flying", "_was_written", "engine", "is_direct", "is_owner", "loop", "number")

    def __init__(
        self,
        number: int,
        engine: Files,
        loop: asyncio.AbstractEventLoop,
        *,
        closefd: bool = True,
        is_direct: bool = False,
    ) -> None:
        self.number = number
        self.is_direct = is_direct
        self.engine = engine
        self.loop = loop
        self.is_owner = closefd
        self._was_written = False
        # Futures of others that use the number, and of transfers whose errors nobody may hear of.
        self._flying: set[Future[Any]] = set()

    @property
    def is_closed(self) -> bool:
        return self.number < 0

    @property
    def is_busy(self) -> bool:
        """Something is under way that must end before the number may be closed."""
        return bool(self._flying)

    def check(self) -> None:
        """Raise unless the running loop is the file's own, and the file is open.

        Raises:
            ValueError: the file is closed.
            RuntimeError: another loop or thread uses it.
        """
        if self.number < 0:
            raise ValueError(CLOSED)
        if _running_loop() is not self.loop:
            self._refuse_stranger()

    def _refuse_stranger(self) -> None:
        whose = "whose loop is closed" if self.loop.is_closed() else "that belongs to another event loop"
        raise RuntimeError(
            f"use of a file {whose}: open it in the loop that uses it, or send the work there with "
            "asyncio.run_coroutine_threadsafe(coroutine, loop)"
        )

    # -- operations ------------------------------------------------------------------------------

    def read(self, size: int, offset: int) -> bytes | Future[bytes]:
        """Up to `size` bytes from `offset` on; fewer where the file ends, and where less is there."""
        self.check()
        return self.engine.read(self.number, size, offset, self.is_direct)

    def readv(self, buffers: list[WriteableBuffer], offset: int) -> int | Future[int]:
        """Fill the buffers from `offset` on; returns how many bytes came, 0 where the file ends."""
        self.check()
        return self.engine.readv(self.number, buffers, offset, self.is_direct)

    def writev(self, buffers: list[ReadableBuffer], offset: int) -> int | Future[int]:
        """Write the buffers at `offset`; returns how many bytes went, which may be fewer."""
        self.check()
        self._was_written = True
        return self.engine.writev(self.number, buffers, offset, self.is_direct)

    def fsync(self, datasync: bool) -> Future[None] | None:
        """Have everything that was written, or with `datasync` what is needed to read it, on the disk."""
        self.check()
        return self.engine.fsync(self.number, datasync)

    def truncate(self, size: int) -> Future[None] | None:
        """Cut or extend the file to `size` bytes."""
        self.check()
        self._was_written = True
        return self.engine.ftruncate(self.number, size)

    def watch(self, future: Future[T]) -> None:
        """Keep the number open until this operation has ended."""
        self._flying.add(future)
        future.add_done_callback(self._land)

    def _land(self, future: Future[T]) -> None:
        self._flying.discard(future)
        if not future.cancelled():
            # Whoever waited has it from the future; a cancelled waiter wants it no more.
            future.exception()

    # -- the end ---------------------------------------------------------------------------------

    async def wait_quiet(self) -> None:
        """Wait until nothing is under way."""
        while self._flying:
            await undisturbed(next(iter(self._flying)))

    def close(self) -> Future[None] | None:
        """Close the number when what is under way on it has ended, or only forget it (`closefd=False`).

        Raises:
            OSError: the kernel says so; the number is free nevertheless.
        """
        number, self.number = self.number, -1
        if not self.is_owner:
            return None
        return self.engine.close(number, not self._was_written)

    def abandon(self) -> None:
        """Close without a loop: the file was left open, and its loop may be gone."""
        number, self.number = self.number, -1
        if self.is_owner and number >= 0:
            self.engine.forsake(number)


def _wake(waiter: Future[None], _: Future[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def undisturbed(future: Future[Any]) -> None:
    """Wait until `future` is done; cancelling the waiter leaves it alone."""
    waiter = future.get_loop().create_future()
    wake = partial(_wake, waiter)
    future.add_done_callback(wake)
    try:
        await waiter
    finally:
        future.remove_done_callback(wake)
