"""Reads an input in blocks of bytes without blocking the loop: files, standard input, gzip.

It does not split lines. On a oneloop loop, `oneloop.files` reads files; on other loops a thread does. For pipes,
terminals, FIFOs and sockets the loop waits until they are readable; the descriptor's blocking mode is not changed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import zlib
from contextlib import aclosing
from typing import TYPE_CHECKING

from oneloop.waiting import on_thread, shielded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ["BLOCK_BYTES", "DamagedError", "blocks_of", "unpacked"]

BLOCK_BYTES = 128 * 1024
"""The largest block that is read or decompressed."""

_GZIP = b"\x1f\x8b"
_STANDARD_INPUT = 0
_OPENING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO that has no writer yet is opened immediately


class DamagedError(Exception):
    """The compressed data is damaged or ends too early."""


async def blocks_of(location: str) -> AsyncGenerator[bytes, None]:
    """Yield the content of a file or of standard input, block by block.

    Args:
        location: a path, or `-` for standard input.

    Raises:
        OSError: for the same reasons as `open(location, "rb")` and `read`.
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
        return await shielded(opening)
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
    """Whether a read may wait for another process or a device: pipes, sockets, character devices."""
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
    # The caller closes the descriptor next: no thread may use it after a cancellation. A read from a disk always ends.
    while block := await on_thread(os.read, fd, BLOCK_BYTES):
        yield block


async def _waited_for(fd: int) -> AsyncGenerator[bytes, None]:
    """Read whenever the loop reports that the descriptor is readable.

    O_NONBLOCK is not set, because it would also affect other processes that share the terminal or pipe.
    """
    loop = asyncio.get_running_loop()
    while True:
        ready = loop.create_future()
        try:
            loop.add_reader(fd, _resolve, ready)
        except PermissionError:
            # epoll refuses descriptors whose reads never wait, for example /dev/null (epoll_ctl(2)).
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
    """Decompress blocks if they begin with gzip's magic number; yield them unchanged otherwise.

    Args:
        blocks: the content; no block is empty.

    Returns:
        An iterator of blocks. Decompressed blocks have at most BLOCK_BYTES bytes.

    Raises:
        DamagedError: the data begins as gzip, but is damaged or incomplete.
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
        # Another gzip member may follow, or zero bytes as padding.
        packed = member.unused_data.lstrip(b"\0")
        while not packed and (block := await anext(blocks, b"")):
            packed = block.lstrip(b"\0")


def _whole_part(member: zlib._Decompress, packed: bytes) -> bytes:
    """Decompress the bytes before the damage one by one: a call of `decompress` that fails returns nothing."""
    found = bytearray()
    try:
        for place in range(len(packed)):
            found += member.decompress(packed[place : place + 1])
    except zlib.error:
        return bytes(found)
    return bytes(found)
