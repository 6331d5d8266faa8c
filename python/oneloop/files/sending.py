"""Our files to sockets: sendfile(2) out of the page cache, or read and written where there is no such call (TLS).

`oneloop.sockets` calls this. sendfile(2) would block the loop on what is not cached, so
that what is sent next is looked at first, and read if it is not all there.
"""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from oneloop.files.positional import PositionalFile

__all__ = ["copied", "sent"]

BLOCK_BYTES = 1 << 20
"""Per sendfile(2): large enough to cost nothing, small enough to keep the loop answering."""

COPY_BYTES = 64 * 1024

PROBE_STEP_BYTES = 128 * 1024
"""As far apart as disks read ahead."""


async def sent(
    file: PositionalFile, sock: socket.socket, offset: int, count: int | None, wait: Callable[[], Awaitable[object]]
) -> int:
    """Send with sendfile(2); the file's cursor is behind what was sent, also after an error.

    Args:
        file: of this loop; what it has buffered is flushed first.
        sock: non-blocking.
        offset: where to begin.
        count: how many bytes, or None for all.
        wait: gives something to await until the socket is writable.

    Raises:
        asyncio.SendfileNotAvailableError: not for this file; nothing was sent.
        OSError: the kernel says so.
    """
    file._check_reading("read")
    await file.flush()
    number = file._descriptor.number
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        raise asyncio.SendfileNotAvailableError("not a regular file")
    end = status.st_size if count is None else offset + count
    # The number stays open until this is done.
    sending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    file._descriptor.watch(sending)
    at = offset
    try:
        while at < end:
            block = min(end - at, BLOCK_BYTES)
            await _warm(file, at, block)
            done = await _send_block(sock, number, at, block, wait, at == offset)
            if not done:
                break
            at += done
        return at - offset
    finally:
        sending.set_result(None)
        await file.seek(at)


async def _send_block(
    sock: socket.socket, number: int, at: int, size: int, wait: Callable[[], Awaitable[object]], is_first: bool
) -> int:
    while True:
        try:
            return os.sendfile(sock.fileno(), number, at, size)
        except (BlockingIOError, InterruptedError):
            await wait()
        except ConnectionError:
            raise
        except OSError as exc:
            if is_first:
                raise asyncio.SendfileNotAvailableError("os.sendfile call failed") from exc
            raise


async def _warm(file: PositionalFile, at: int, size: int) -> None:
    """Have what is sent next in the page cache."""
    probe = bytearray(1)
    number = file._descriptor.number
    try:
        for place in (*range(at, at + size, PROBE_STEP_BYTES), at + size - 1):
            os.preadv(number, [probe], place, os.RWF_NOWAIT)
    except OSError:
        # Not there (EAGAIN), or the file system cannot say; what is read now comes from there soon.
        await file.pread(size, at)


async def copied(
    file: PositionalFile, offset: int, count: int | None, put: Callable[[bytes], Awaitable[object]]
) -> int:
    """Read from `offset` on, and await `put(data)` for each piece; returns the number of bytes.

    The file's cursor is behind what was put, also after an error. A file without a position is read on.
    """
    file._check_reading("read")
    is_seekable = file.seekable()
    if is_seekable:
        await file.seek(offset)
    total = 0
    try:
        while count is None or total < count:
            data = await file.read(COPY_BYTES if count is None else min(COPY_BYTES, count - total))
            if not data:
                break
            await put(data)
            total += len(data)
        return total
    finally:
        if is_seekable and not file.closed:
            await file.seek(offset + total)
