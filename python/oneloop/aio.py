"""File operations that a program submits and polls itself, without an event loop.

For programs that do not use asyncio, or that need direct control of the kernel's queue. Submit requests
to a `Context`; the kernel executes them; `get_events()` returns the results. In a coroutine use
`oneloop.files` instead: `get_events()` can block the thread.

The engine is io_uring or Linux kernel AIO. Kernel AIO is asynchronous only for files opened with
O_DIRECT. A request keeps its buffers alive, and the context keeps the request alive, until the request's
event has been returned.
"""

from __future__ import annotations

from enum import IntEnum

from oneloop._native import AioContext as Context
from oneloop._native import AioEvent as Event
from oneloop._native import AioFdsync as Fdsync
from oneloop._native import AioFsync as Fsync
from oneloop._native import AioPoll as Poll
from oneloop._native import AioRead as Read
from oneloop._native import AioReadV as ReadV
from oneloop._native import AioRequest as Request
from oneloop._native import AioWrite as Write
from oneloop._native import AioWriteV as WriteV

__all__ = [
    "Context",
    "Event",
    "Fdsync",
    "Fsync",
    "Poll",
    "PriorityClass",
    "Read",
    "ReadV",
    "Request",
    "Write",
    "WriteV",
]


class PriorityClass(IntEnum):
    """I/O priority classes, see ioprio_set(2). Within a class, priority 0 is the highest and 7 the lowest."""

    NONE = 0
    """Use the priority of the process."""
    REALTIME = 1
    """Before all other classes. Needs CAP_SYS_NICE."""
    BEST_EFFORT = 2
    """The kernel's default class."""
    IDLE = 3
    """Only when no other process uses the disk."""
