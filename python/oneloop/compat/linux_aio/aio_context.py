"""`linux_aio.aio_context`: submits blocks and returns events."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Literal

from oneloop import aio
from oneloop.compat.linux_aio.aio_event import AIOEvent
from oneloop.compat.linux_aio.room import check_limit, room_for

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from oneloop.compat.linux_aio.block import AIOBlock

__all__ = ["AIOContext"]


def _invalid() -> OSError:
    return OSError(errno.EINVAL, os.strerror(errno.EINVAL))


class AIOContext:
    """A queue of operations in the kernel."""

    __slots__ = ("_context", "_in_flight")

    def __init__(self, max_jobs: int, *, engine: Literal["ring", "aio"] | None = None) -> None:
        """Open a queue for at least `max_jobs` operations. It accepts as many as the kernel has slots for.

        Args:
            max_jobs: the number of operations.
            engine: "ring" for io_uring, "aio" for kernel AIO; None uses io_uring if it works.

        Raises:
            OSError: the kernel refuses. EAGAIN: more jobs than `fs.aio-max-nr`; on kernel AIO, together with those of
                all other contexts of the machine. EINVAL: more jobs than any context accepts, or less than 1.
        """
        self._in_flight: dict[aio.Request, AIOBlock] = {}
        """References to the blocks in flight, so that they outlive the program's own references."""
        if max_jobs < 1:
            raise _invalid()
        room = room_for(max_jobs)
        check_limit(max_jobs)
        self._context = aio.Context._as_kernel_aio(max_jobs, room, engine)

    def __del__(self) -> None:
        if hasattr(self, "_context"):
            self._context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, t: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._context.closed

    def close(self) -> None:
        """Close the queue, including operations in flight. A second call has no effect."""
        self._context.close()
        self._in_flight.clear()

    def submit(self, *blocks: AIOBlock) -> int:
        """Submit blocks to the kernel in order, and return the number of accepted blocks.

        Buffered files are read and written in this order: the last write to a position wins, a read sees the writes
        before it, a sync covers them. A block waits here for blocks in flight that it must not overtake: for writes to
        the same file and, if it writes, for reads of that file.

        Raises:
            ValueError: a block was replaced by `change_cmd()`.
            OSError: the kernel accepted no block; the error of the first one.
        """
        for block in blocks:
            if block._is_converted:
                raise ValueError(f"{block!r} was replaced by change_cmd(): submit the block that it returned")
        if self.closed:
            raise _invalid()
        requests = [block._request() for block in blocks]
        # Before the submission, because another thread may receive the event before this thread continues.
        self._in_flight.update(zip(requests, blocks, strict=True))
        taken = 0
        try:
            taken = self._context.submit(*requests)
        finally:
            for request in requests[taken:]:
                del self._in_flight[request]
        return taken

    def get_events(self, min_jobs: int, max_jobs: int, timeout_ns: int | None = None) -> tuple[AIOEvent, ...]:
        """Return the events of blocks that have ended.

        Args:
            min_jobs: wait for at least this many events.
            max_jobs: return at most this many events.
            timeout_ns: the maximum time to wait, in nanoseconds. 0 does not wait, None waits without a limit. (In
                linux_aio, the default 0 also waits without a limit.)

        Raises:
            OSError: EINVAL: the numbers are invalid, or the context is closed.
        """
        if self.closed or not 0 <= min_jobs <= max_jobs:
            raise _invalid()
        timeout_s = None if timeout_ns is None else timeout_ns / 1e9
        events = self._context.get_events(min_jobs, max_jobs, timeout_s)
        return tuple(AIOEvent(self._in_flight.pop(event.request), event.response, event.response2) for event in events)

    def cancel(self, block: AIOBlock) -> AIOEvent:
        """Ask the kernel to cancel a block.

        Returns:
            An event whose response is -EINPROGRESS. `get_events()` later returns the block's own event. Its response is
            -ECANCELED, or the normal response if it was too late to cancel.

        Raises:
            ValueError: the block was replaced by `change_cmd()`.
            OSError: EINVAL: the block is not in flight in this context.
        """
        if block._is_converted:
            raise ValueError(f"{block!r} was replaced by change_cmd(): cancel the block that it returned")
        found = [request for request, its in list(self._in_flight.items()) if its is block]
        if self.closed or not found:
            raise _invalid()
        for request in found:
            if request.in_flight:
                self._context.cancel(request)
        return AIOEvent(block, -errno.EINPROGRESS)
