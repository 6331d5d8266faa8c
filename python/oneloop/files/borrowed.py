"""Transfers from and into memory of the program that can change: bytearray, memoryview, array, mmap.

After a call has returned or raised, its buffer is the program's again, as with the built-in `open()`. A transfer in the
kernel cannot be ended at any time, so a cancelled call has two ways to keep this promise:

- On a local filesystem, and with O_DIRECT, CancelledError is raised when the kernel has finished with the buffer
  (`BorrowingFuture`). That takes as long as the transfer.
- On other filesystems, pipes and devices, the kernel may need it forever. There the data of a transfer is copied, at
  most `PIECE_BYTES` at a time, and CancelledError is raised immediately.

`bytes`, and memoryviews of them, cannot change and need neither.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from oneloop.files.views import first

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PIECE_BYTES", "BorrowingFuture", "copied", "is_mutable", "owned"]

PIECE_BYTES = 1024 * 1024
"""Copying this much takes about 100 µs."""


class BorrowingFuture(asyncio.Future[Any]):
    """The future of a transfer that uses memory of the program. It cannot be cancelled.

    A task that is cancelled while it waits for this future gets its CancelledError when the transfer has ended.
    """

    withdraw: Callable[[], None] | None = None
    """Asks the engine to end the transfer early. Set by the native `Files`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask the transfer to end early. Return False: it has not ended yet."""
        if not self.done() and self.withdraw is not None:
            self.withdraw()
        return False


def is_mutable(view: memoryview) -> bool:
    """Return True if the program could change the bytes."""
    return type(view.obj) is not bytes


def owned(views: list[memoryview]) -> list[memoryview]:
    """Return the views with copies of the mutable ones."""
    return [memoryview(bytes(view)) if is_mutable(view) else view for view in views]


def copied(views: list[memoryview]) -> list[memoryview]:
    """Return the views for one write; if they are mutable, copies of the first `PIECE_BYTES` of them."""
    if not any(map(is_mutable, views)):
        return [*views]
    return owned(first(views, PIECE_BYTES))
