"""Direct I/O: the alignment that an O_DIRECT file needs, and buffers with that alignment."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oneloop import _native
from oneloop.files.engine import bounded, current, encoded, named

if TYPE_CHECKING:
    from oneloop.files.engine import FdOrPath

__all__ = ["DirectAlignment", "aligned_buffer", "direct_alignment"]


@dataclass(frozen=True, slots=True)
class DirectAlignment:
    """The alignment that direct I/O on a file needs.

    Attributes:
        memory: the buffer's address must be a multiple of this, in bytes.
        offset: the position in the file and the length must be multiples of this, in bytes.
        is_told: True if the kernel reports these values. False (kernels before 6.1, some filesystems): both
            are the page size, a guess that works with most disks.
    """

    memory: int
    offset: int
    is_told: bool


@bounded
async def direct_alignment(path: FdOrPath, *, timeout: float | None = None) -> DirectAlignment | None:
    """Return the alignment that O_DIRECT needs for this file (statx(2), STATX_DIOALIGN).

    Args:
        path: str, bytes, PathLike, or an open descriptor.
        timeout: in seconds, or None.

    Returns:
        None if the kernel reports that the file does not support direct I/O.

    Raises:
        OSError: with `filename`.
        TimeoutError: the timeout has expired.
    """
    return await current().call(_asked, path)


def _asked(path: FdOrPath) -> DirectAlignment | None:
    if isinstance(path, int):
        return _told(path)
    encoded(path)
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return _told(fd)
    except OSError as error:
        raise named(error, path) from None
    finally:
        os.close(fd)


def _told(fd: int) -> DirectAlignment | None:
    told = _native.direct_alignment(fd)
    if told is None:
        return DirectAlignment(mmap.PAGESIZE, mmap.PAGESIZE, is_told=False)
    memory, offset = told
    return DirectAlignment(memory, offset, is_told=True) if memory and offset else None


def aligned_buffer(size: int, *, alignment: int | None = None) -> memoryview:
    """Return a writable, zeroed buffer for direct I/O whose address is a multiple of `alignment`.

    Args:
        size: in bytes; for O_DIRECT a multiple of the file's `offset` alignment.
        alignment: a power of two, in bytes. None: the page size, which is enough for
            `DirectAlignment.memory` of every known disk.

    Returns:
        A memoryview that owns the memory.

    Raises:
        ValueError: `size` is not positive, or `alignment` is not a power of two.
        OSError: ENOMEM.
    """
    if alignment is None:
        alignment = mmap.PAGESIZE
    if size <= 0:
        raise ValueError(f"size must be positive, not {size}")
    if alignment <= 0 or alignment & (alignment - 1):
        raise ValueError(f"alignment must be a power of two, not {alignment}")
    if alignment <= mmap.PAGESIZE:
        return memoryview(mmap.mmap(-1, size))[:size]
    whole = memoryview(mmap.mmap(-1, size + alignment - mmap.PAGESIZE))
    import ctypes

    start = -ctypes.addressof(ctypes.c_char.from_buffer(whole)) % alignment
    return whole[start : start + size]
