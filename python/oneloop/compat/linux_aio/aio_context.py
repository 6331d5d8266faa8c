"""`linux_aio.aio_context`: blocks go in, events come out."""

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
        """Open a queue for `max_jobs` operations at least; it takes as many as the kernel makes room for.

        Raises:
            OSError: the kernel refuses it. EAGAIN: more jobs than `fs.aio-max-nr`, on kernel AIO with
                those of all other contexts of the machine. EINVAL: more than any context takes, or none.
        """
        self._in_flight: dict[aio.Request, AIOBlock] = {}
        """Keeps the blocks, whatever the program drops."""
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
        """End the queue, and with it what is in flight. A second call does nothing."""
        self._context.close()
        self._in_flight.clear()

    def submit(self, *blocks: AIOBlock) -> int:
        """Hand blocks to the kernel, in order, and return how many it took.

        Buffered files are read and written in this order: the last write to a place wins, a read sees
        the writes before it, a sync covers them. A block waits here for those in flight that it may
        not overtake: for writes to the same file and, if it writes, for reads of it.

        Raises:
            ValueError: a block has become another one by `change_cmd()`.
            OSError: the kernel took none, and this is what it said of the first.
        """
        for block in blocks:
            if block._is_converted:
                raise ValueError(f"{block!r} has become another block by change_cmd(): submit that one")
        if self.closed:
            raise _invalid()
        requests = [block._request() for block in blocks]
        # Before the submission: another thread may have the event before this one goes on.
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
            min_jobs: wait until there are that many.
            max_jobs: return at most that many.
            timeout_ns: nanoseconds after which to return what there is; 0 does not wait, None waits
                for ever. (linux_aio's own default of 0 waits for ever, too.)

        Raises:
            OSError: EINVAL, the numbers do not fit or the context is closed.
        """
        if self.closed or not 0 <= min_jobs <= max_jobs:
            raise _invalid()
        timeout_s = None if timeout_ns is None else timeout_ns / 1e9
        events = self._context.get_events(min_jobs, max_jobs, timeout_s)
        return tuple(AIOEvent(self._in_flight.pop(event.request), event.response, event.response2) for event in events)

    def cancel(self, block: AIOBlock) -> AIOEvent:
        """Ask the kernel to end a block early.

        Returns:
            An event whose response is -EINPROGRESS. The block's own event follows from `get_events()`:
            its response is -ECANCELED, or what it would have been if it was too late.

        Raises:
            ValueError: the block has become another one by `change_cmd()`.
            OSError: EINVAL, the block is not in flight here.
        """
        if block._is_converted:
            raise ValueError(f"{block!r} has become another block by change_cmd(): cancel that one")
        found = [request for request, its in list(self._in_flight.items()) if its is block]
        if self.closed or not found:
            raise _invalid()
        for request in found:
            if request.in_flight:
                self._context.cancel(request)
        return AIOEvent(block, -errno.EINPROGRESS)
