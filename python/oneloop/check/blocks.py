"""Bytes of an input, block by block, without blocking the loop: files, standard input, gzip.

Knows nothing of lines. On a oneloop loop, files are read by `oneloop.files`; on others on a thread. What can be waited
for (pipes, terminals, FIFOs, sockets) is waited for by the loop, and its descriptor stays in the mode that it was in.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import zlib
from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ["BLOCK_BYTES", "DamagedError", "blocks_of", "unpacked"]

BLOCK_BYTES = 128 * 1024
"""What is read, and unpacked, at a time."""

_GZIP = b"\x1f\x8b"
_STANDARD_INPUT = 0
_OPENING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO that nobody writes to yet is opened at once


class DamagedError(Exception):
    """The compressed data ends too early, or is none."""


async def blocks_of(location: str) -> AsyncGenerator[bytes, None]:
    """The content of a file, or of standard input for `-`, as it comes.

    Raises:
        OSError: as `open(location, "rb")` and its `read` raise it.
    """
    own = location != "-"
    fd = await _opened(location) if own else _STANDARD_INPUT
    try:
        if _is_endless(fd):
            source = _waited_for(fd)
        elif _has_own_files():
            source = _read_by_oneloop(fd)
        else:
            source = _read_on_thread(fd)
        async with aclosing(source):
            async for block in source:
                yield block
    finally:
        if own:
            os.close(fd)


async def _opened(path: str) -> int:
    opening = asyncio.get_running_loop().run_in_executor(None, _open, path)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_late)
        raise


def _open(path: str) -> int:
    fd = os.open(path, _OPENING)
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return fd


def _close_late(opening: asyncio.Future[int]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result())


def _is_endless(fd: int) -> bool:
    """Whether a read may wait for somebody: pipes, sockets, devices."""
    mode = os.fstat(fd).st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISBLK(mode))


def _has_own_files() -> bool:
    from oneloop.loop import Loop

    return isinstance(asyncio.get_running_loop(), Loop)


async def _read_by_oneloop(fd: int) -> AsyncGenerator[bytes, None]:
    from oneloop import files

    async with files.open(fd, "rb", buffering=0, closefd=False) as file:
        while block := await file.read(BLOCK_BYTES):
            yield block


async def _read_on_thread(fd: int) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    while True:
        reading = loop.run_in_executor(None, os.read, fd, BLOCK_BYTES)
        try:
            block = await asyncio.shield(reading)
        except asyncio.CancelledError:
            # The descriptor is closed next: not before the thread is done with it. A disk's read ends.
            await asyncio.wait([reading])
            raise
        if not block:
            return
        yield block


async def _waited_for(fd: int) -> AsyncGenerator[bytes, None]:
    """Read when there is something to be read; O_NONBLOCK would hold for everybody who shares the terminal."""
    loop = asyncio.get_running_loop()
    while True:
        ready = loop.create_future()
        try:
            loop.add_reader(fd, _resolve, ready)
        except PermissionError:
            # It cannot be waited for, for it never makes anybody wait: /dev/null (epoll_ctl(2)).
            async with aclosing(_read_on_thread(fd)) as source:
                async for block in source:
                    yield block
            return
        try:
            await ready
        finally:
            loop.remove_reader(fd)
        try:
            block = os.read(fd, BLOCK_BYTES)
        except BlockingIOError:
            continue
        if not block:
            return
        yield block


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def unpacked(blocks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The blocks, none of them empty, decompressed if they begin as gzip does; then at most BLOCK_BYTES at a time.

    Raises:
        DamagedError: it begins as gzip, and does not go on so.
    """
    start = b""
    async for block in blocks:
        start += block
        if len(start) >= len(_GZIP):
            break
    if not start.startswith(_GZIP):
        if start:
            yield start
        async for block in blocks:
            yield block
        return
    async for block in _members(start, blocks):
        yield block


async def _members(packed: bytes, blocks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    while packed:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            packed = packed or await anext(blocks, b"")
            if not packed:
                raise DamagedError("the gzip data ends too early")
            before = member.copy()
            try:
                block = member.decompress(packed, BLOCK_BYTES)
            except zlib.error as error:
                if whole := _whole_part(before, packed):
                    yield whole
                raise DamagedError(f"the gzip data is damaged: {error}") from error
            packed = member.unconsumed_tail
            if block:
                yield block
        # Another member may follow, or zeros that fill up a tape's block.
        packed = member.unused_data.lstrip(b"\0")
        while not packed and (block := await anext(blocks, b"")):
            packed = block.lstrip(b"\0")


def _whole_part(member: zlib._Decompress, packed: bytes) -> bytes:
    """What can be unpacked before the damage; the call that fails gives nothing."""
    found = bytearray()
    try:
        for place in range(len(packed)):
            found += member.decompress(packed[place : place + 1])
    except zlib.error:
        return bytes(found)
    return bytes(found)
