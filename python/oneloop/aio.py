"""File operations that a program submits and polls for itself, without an event loop.

For programs that have no asyncio, or that want the kernel's queue in their own hands: a `Context` takes
requests, the kernel works on them, `get_events()` tells how they ended. In a coroutine use
`oneloop.files`, which waits for nothing.

The engine is io_uring or Linux kernel AIO; the latter is asynchronous for files opened with O_DIRECT
only. Buffers belong to their requests, and requests to their context, until their events are returned.
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
    """Classes of I/O priorities, ioprio_set(2). Within a class 0 is the highest value, 7 the lowest."""

    NONE = 0
    """Whatever the process has."""
    REALTIME = 1
    """Before all others; needs CAP_SYS_NICE."""
    BEST_EFFORT = 2
    IDLE = 3
    """Only when nobody else wants the disk."""
