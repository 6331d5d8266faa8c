"""Direct I/O: what an O_DIRECT file asks of buffers, offsets and lengths, and buffers that fit."""

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
    """What direct I/O on a file must be aligned to.

    Attributes:
        memory: the buffer's address is a multiple of it, in bytes.
        offset: the position in the file and the length are multiples of it, in bytes.
        is_told: the kernel has said so; else these are the page size, which is a guess that most
            disks accept (kernels before 6.1, some filesystems).
    """

    memory: int
    offset: int
    is_told: bool


@bounded
async def direct_alignment(path: FdOrPath, *, timeout: float | None = None) -> DirectAlignment | None:
    """What O_DIRECT asks of this file; None if the kernel says that it has no direct I/O.

    Args:
        path: str, bytes, PathLike, or an open descriptor.
        timeout: seconds, or None.

    Raises:
        OSError: with `filename`.
        TimeoutError: the time is up.
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
    """A writable buffer of zeros for direct I/O, at an address that is a multiple of `alignment`.

    Args:
        size: in bytes; for O_DIRECT a multiple of the file's `offset` alignment.
        alignment: a power of two, in bytes; None is the page size, which is enough for
            `DirectAlignment.memory` of every disk known.

    Returns:
        A memoryview, which owns the memory.

    Raises:
        ValueError: `size` is not positive, or `alignment` no power of two.
        OSError: ENOMEM.
    """
    if alignment is None:
        alignment = mmap.PAGESIZE
    if size <= 0:
        raise ValueError("size must be positive")
    if alignment <= 0 or alignment & (alignment - 1):
        raise ValueError("alignment must be a power of two")
    if alignment <= mmap.PAGESIZE:
        return memoryview(mmap.mmap(-1, size))[:size]
    whole = memoryview(mmap.mmap(-1, size + alignment - mmap.PAGESIZE))
    import ctypes

    start = -ctypes.addressof(ctypes.c_char.from_buffer(whole)) % alignment
    return whole[start : start + size]
