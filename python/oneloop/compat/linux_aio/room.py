"""The number of operations that io_setup(2) has slots for, and its limits (`ioctx_alloc` in the kernel's fs/aio.c)."""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path

__all__ = ["check_limit", "room_for"]

_EVENT_BYTES = 32
_HEADER_BYTES = 32
_MAX_EVENTS = 0x10000000 // _EVENT_BYTES
_LIMIT = Path("/proc/sys/fs/aio-max-nr")
_POSSIBLE_CPUS = Path("/sys/devices/system/cpu/possible")


@functools.cache
def _possible_cpus() -> int:
    """The number of CPUs that the kernel supports on this machine; the number of CPUs if that is unknown."""
    try:
        ranges = [part.split("-") for part in _POSSIBLE_CPUS.read_text().strip().split(",")]
    except OSError:
        return os.cpu_count() or 1
    return sum(int(ends[-1]) - int(ends[0]) + 1 for ends in ranges)


def room_for(max_jobs: int) -> int:
    """Return the number of operations that can be in flight in a context created for `max_jobs`.

    The kernel has event slots for each CPU. It doubles the requested number for that reason, and fills whole pages with
    slots.

    Raises:
        OSError: EINVAL: no context can be that large.
    """
    slots = 2 * max(max_jobs, 4 * _possible_cpus())
    if slots > _MAX_EVENTS:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    page_bytes = os.sysconf("SC_PAGESIZE")
    pages = -(-(_HEADER_BYTES + (slots + 2) * _EVENT_BYTES) // page_bytes)
    # One slot stays empty, to tell a full ring of events from an empty one.
    return (pages * page_bytes - _HEADER_BYTES) // _EVENT_BYTES - 1


def check_limit(max_jobs: int) -> None:
    """Raise an error if `max_jobs` exceeds the machine's limit. A kernel without AIO has no limit.

    Raises:
        OSError: EAGAIN: `max_jobs` is more than `fs.aio-max-nr`.
    """
    try:
        limit = int(_LIMIT.read_text())
    except OSError:
        return
    if max_jobs > limit:
        raise OSError(errno.EAGAIN, f"{os.strerror(errno.EAGAIN)}: {max_jobs} jobs, fs.aio-max-nr is {limit}")
