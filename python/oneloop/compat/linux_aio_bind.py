"""linux_aio_bind's enumerations (those of linux_aio_bind 1.0), which programs on linux_aio import.

Its ctypes structures and calls are not here: nothing in linux_aio's own interface needs them.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "IOCBCMD",
    "IOPRIO_CLASS_SHIFT",
    "IOCBFlag",
    "IOCBPriorityClass",
    "IOCBRWFlag",
    "gen_io_priority",
]

IOPRIO_CLASS_SHIFT = 13
"""Bits of an I/O priority that are its value; the class stands above them."""


class IOCBCMD(IntEnum):
    """What a block does."""

    PREAD = 0
    PWRITE = 1
    FSYNC = 2
    FDSYNC = 3
    POLL = 5
    PREADV = 7
    PWRITEV = 8


class IOCBFlag(IntFlag):
    """Which of a block's fields the kernel looks at."""

    RESFD = 1
    IOPRIO = 2


class IOCBRWFlag(IntFlag):
    """How a read or write is done, as preadv2(2) takes it."""

    HIPRI = 1
    DSYNC = 2
    SYNC = 4
    NOWAIT = 8
    APPEND = 16


class IOCBPriorityClass(IntEnum):
    """Classes of I/O priorities, as ioprio_set(2) takes them."""

    NONE = 0
    RT = 1
    BE = 2
    IDLE = 3


def gen_io_priority(priority_class: int, priority: int) -> int:
    """Return the kernel's word for a class and a value.

    Raises:
        ValueError: there is no such class or value.
    """
    if not 0 <= priority < 1 << IOPRIO_CLASS_SHIFT:
        raise ValueError(f"no such I/O priority: {priority}")
    return IOCBPriorityClass(priority_class) << IOPRIO_CLASS_SHIFT | priority


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"module 'linux_aio_bind' has no attribute {name!r}: oneloop's facade has linux_aio_bind's "
        "enumerations, not its ctypes calls; oneloop.aio does their work"
    )
