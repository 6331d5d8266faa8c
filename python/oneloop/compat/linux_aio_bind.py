"""linux_aio_bind's enumerations (those of linux_aio_bind 1.0), which programs on linux_aio import.

Its ctypes structures and calls are not included: linux_aio's own interface does not use them.
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
"""The number of bits of an I/O priority's value. The class is stored in the bits above them."""


class IOCBCMD(IntEnum):
    """The operation of a block."""

    PREAD = 0
    PWRITE = 1
    FSYNC = 2
    FDSYNC = 3
    POLL = 5
    PREADV = 7
    PWRITEV = 8


class IOCBFlag(IntFlag):
    """The optional fields of a block that the kernel uses."""

    RESFD = 1
    IOPRIO = 2


class IOCBRWFlag(IntFlag):
    """Flags for reads and writes, as in preadv2(2)."""

    HIPRI = 1
    DSYNC = 2
    SYNC = 4
    NOWAIT = 8
    APPEND = 16


class IOCBPriorityClass(IntEnum):
    """Classes of I/O priorities, as in ioprio_set(2)."""

    NONE = 0
    RT = 1
    BE = 2
    IDLE = 3


def gen_io_priority(priority_class: int, priority: int) -> int:
    """Return the kernel's encoding of a priority class and value.

    Args:
        priority_class: the class, an `IOCBPriorityClass`.
        priority: the value within the class.

    Raises:
        ValueError: the class or the value does not exist.
    """
    if not 0 <= priority < 1 << IOPRIO_CLASS_SHIFT:
        raise ValueError(f"the I/O priority must be from 0 to {(1 << IOPRIO_CLASS_SHIFT) - 1}, not {priority}")
    return IOCBPriorityClass(priority_class) << IOPRIO_CLASS_SHIFT | priority


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"module 'linux_aio_bind' has no attribute {name!r}: oneloop's facade has linux_aio_bind's "
        "enumerations, but not its ctypes calls; use oneloop.aio instead"
    )
