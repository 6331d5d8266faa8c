"""`sendfile` and `sock_sendfile`: a file is sent by the kernel, or read and written where that is not possible.

Files of `oneloop.files` are sent from the page cache with sendfile(2). It blocks the loop while it reads uncached data
from the disk. Each block is therefore probed first, and read into the page cache if a part of it is missing.

Where it is not possible (TLS, a pipe), `copy_protocol.py` waits until the transport takes more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import sys
from asyncio import constants, unix_events
from typing import TYPE_CHECKING, Any

from oneloop.copy_protocol import CopyProtocol, ReadingPause
from oneloop.waiting import on_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oneloop.files.file import File

    Put = Callable[[bytes | memoryview], Awaitable[object]]

# Bytes per sendfile(2): large enough that the calls cost little, small enough that other callbacks run in between.
SENDFILE_BLOCK_BYTES = 1 << 20
# Bytes per read and write of a file of `oneloop.files` where sendfile(2) is not possible (TLS).
COPY_BYTES = 64 * 1024
# The same for other files, asyncio's sizes: a read of a pipe may wait until it has so much.
READ_BYTES = 16 * 1024
SOCK_READ_BYTES = constants.SENDFILE_FALLBACK_READBUFFER_SIZE
# Distance between two probes of the page cache: the kernel's usual read-ahead.
PROBE_STEP_BYTES = 128 * 1024
_Stock: Any = unix_events._UnixSelectorEventLoop
# Newer patch releases of CPython move a file's position to the offset even if nothing was sent.
_MOVES_IN_ANY_CASE = "total_sent" not in _Stock._sock_sendfile_update_filepos.__code__.co_varnames


class SendfileMixin:
    """`sendfile` of `oneloop.Loop`, and what `BaseEventLoop.sock_sendfile` calls."""

    __slots__ = ()

    async def sendfile(
        self: Any, transport: Any, file: Any, offset: int = 0, count: int | None = None, *, fallback: bool = True
    ) -> int:
        """Send a file over a transport, with the system call if possible. Return the number of bytes.

        Args:
            transport: a stream transport of this loop.
            file: a file opened in binary mode, or one of `oneloop.files`. Its position moves behind what was sent.
            offset: where in the file to begin, in bytes.
            count: how many bytes to send; None: up to the end of the file.
            fallback: read and write if the kernel cannot send the file, for example over TLS.

        Raises:
            ValueError: `offset` is negative, or `count` is not positive. (asyncio's `sock_sendfile` refuses them too.)
            TypeError: one of them is not an int.
            RuntimeError: the transport is closing, or `fallback` is False and needed.
        """
        if not transport.is_closing():
            # asyncio looks for that before anything else.
            mode = getattr(transport, "_sendfile_compatible", None)
            if mode is constants._SendfileMode.TRY_NATIVE and "b" not in getattr(file, "mode", "b"):
                raise ValueError("file should be opened in binary mode")
            _check_part(offset, count)
        return int(await super().sendfile(transport, file, offset, count, fallback=fallback))  # type: ignore[misc]

    async def _sock_sendfile_native(self: Any, sock: socket.socket, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sock_sendfile()'s hook: sendfile(2), from a regular file to a stream socket."""
        # Before anything is sent between the transport's own bytes.
        self._ensure_fd_no_transport(sock.fileno())
        return int(await self._sendfile(sock, file, offset, count, lambda: self._wait_writable(sock)))

    async def _sendfile_native(self: Any, transport: Any, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sendfile()'s hook: send the queued data first, then the file."""
        drained = transport._make_empty_waiter()
        pause = ReadingPause(transport)
        try:
            # It may be cancelled while earlier writes are sent (python/cpython#157025).
            await drained
            sock = transport.get_extra_info("socket")
            return int(await self._sendfile(sock, file, offset, count, transport._wait_writable))
        finally:
            transport._reset_empty_waiter()
            pause.end()
            # An exception of it has this frame.
            del drained

    async def _sendfile(
        self: Any, sock: Any, file: Any, offset: int, count: int | None, wait: Callable[[], Any]
    ) -> int:
        ours = _ours(file)
        if ours is not None:
            return await _send_ours(ours, sock, offset, count, wait)
        if not hasattr(os, "sendfile"):
            raise asyncio.SendfileNotAvailableError("os.sendfile() is not available")
        try:
            source = file.fileno()
            size = os.fstat(source).st_size
        except (AttributeError, OSError) as exc:
            raise asyncio.SendfileNotAvailableError("not a regular file") from exc
        # Of a file without a size, the kernel does not know how much is in it (pipes, files of /proc).
        block = min(count or size or SENDFILE_BLOCK_BYTES, SENDFILE_BLOCK_BYTES)
        start, end = offset, None if count is None else offset + count
        try:
            while end is None or offset < end:
                want = block if end is None else min(end - offset, block)
                sent = await _send_block(sock, source, offset, want, wait, offset == start)
                if sent == 0:
                    break  # end of file
                offset += sent
            return offset - start
        finally:
            if offset > start or (size and _MOVES_IN_ANY_CASE):
                with contextlib.suppress(OSError):  # a device without a position
                    os.lseek(source, offset, os.SEEK_SET)

    async def _sock_sendfile_fallback(self: Any, sock: socket.socket, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sock_sendfile()'s hook for reads and writes."""

        async def put(data: bytes | memoryview) -> None:
            await self.sock_sendall(sock, data)

        return int(await self._copy(file, offset, count, SOCK_READ_BYTES, put, _no_wait))

    async def _sendfile_fallback(self: Any, transport: Any, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sendfile()'s hook for reads and writes, with the transport's flow control."""
        protocol = CopyProtocol.hold(transport)

        async def put(data: bytes | memoryview) -> None:
            await protocol.drain()
            transport.write(data)

        try:
            # It waits after each piece, too: what returns has not left more than the high-water mark (gh-131325).
            return int(await self._copy(file, offset, count, READ_BYTES, put, protocol.drain))
        finally:
            protocol.give_back()

    async def _copy(
        self: Any,
        file: Any,
        offset: int,
        count: int | None,
        size: int,
        put: Put,
        wait: Callable[[], Awaitable[object]],
    ) -> int:
        """Read from `offset` on. Await `put(data)` for each piece, and then `wait()`. Return the number of bytes.

        A piece that was put counts as sent, whatever happens while it waits.
        """
        ours = _ours(file)
        if ours is not None:
            return await _copy_ours(ours, offset, count, put, wait)
        is_seekable = _is_seekable(file)
        if offset or is_seekable:
            file.seek(offset)
        buffer = memoryview(bytearray(min(count or size, size)))
        total = 0
        try:
            while count is None or total < count:
                room = buffer if count is None else buffer[: count - total]
                # A thread that reads on would move the position later.
                read = await (
                    on_thread(file.readinto, room) if is_seekable else self.run_in_executor(None, file.readinto, room)
                )
                if not read:
                    break
                await put(room[:read])
                total += read
                await wait()
            return total
        finally:
            # asyncio seeks in a pipe too, which fails and leaves the transport paused.
            if is_seekable:
                file.seek(offset + total)


def _check_part(offset: object, count: object) -> None:
    """Refuse what `sock_sendfile` refuses, with the same words."""
    if count is not None:
        if not isinstance(count, int):
            raise TypeError(f"count must be a positive integer (got {count!r})")
        if count <= 0:
            raise ValueError(f"count must be a positive integer (got {count!r})")
    if not isinstance(offset, int):
        raise TypeError(f"offset must be a non-negative integer (got {offset!r})")
    if offset < 0:
        raise ValueError(f"offset must be a non-negative integer (got {offset!r})")


def _is_seekable(file: Any) -> bool:
    seekable = getattr(file, "seekable", None)
    return hasattr(file, "seek") if seekable is None else bool(seekable())


def _ours(file: Any) -> File | None:
    """Return `file` if it is a file of `oneloop.files`, else None. Does not import that package."""
    module = sys.modules.get("oneloop.files.binary")
    return file if module is not None and isinstance(file, module.File) else None


async def _send_ours(
    file: File, sock: socket.socket, offset: int, count: int | None, wait: Callable[[], Awaitable[object]]
) -> int:
    """Send a file with sendfile(2). Afterwards, also after an error, the file's position is after the last byte sent.

    Args:
        file: a file of this loop. Its buffered data is flushed first.
        sock: a non-blocking socket.
        offset: where in the file to begin, in bytes.
        count: how many bytes to send; None: up to the end.
        wait: returns an awaitable that ends when the socket is writable.

    Raises:
        asyncio.SendfileNotAvailableError: sendfile(2) is not possible for this file; nothing was sent.
        OSError: sendfile(2) failed.
    """
    handle = file.handle
    handle.check_reading("read")
    await file.flush()
    mode, size, is_local = await handle.status()
    if not stat.S_ISREG(mode):
        raise asyncio.SendfileNotAvailableError("not a regular file")
    if not is_local:
        raise asyncio.SendfileNotAvailableError("sendfile(2) would block: the file is on a network filesystem")
    handle.check()
    number = handle.number
    end = size if count is None else offset + count
    # The descriptor stays open until this future is done.
    sending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    handle.watch(sending)
    at = offset
    try:
        while at < end:
            block = min(end - at, SENDFILE_BLOCK_BYTES)
            await _warm(file, at, block)
            done = await _send_block(sock, number, at, block, wait, at == offset)
            if not done:
                break
            at += done
        return at - offset
    finally:
        sending.set_result(None)
        if not file.closed:
            await file.seek(at)


async def _send_block(
    sock: socket.socket, number: int, at: int, size: int, wait: Callable[[], Awaitable[object]], is_first: bool
) -> int:
    """Send some bytes of the file `number`, and return how many; 0 at its end. The first error allows a fallback."""
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


async def _warm(file: File, at: int, size: int) -> None:
    """Make sure that the next block is in the page cache."""
    probe = bytearray(1)
    number = file.handle.number
    try:
        for place in (*range(at, at + size, PROBE_STEP_BYTES), at + size - 1):
            os.preadv(number, [probe], place, os.RWF_NOWAIT)
    except OSError:
        # Not cached (EAGAIN), or the filesystem does not support RWF_NOWAIT: read the block, which caches it.
        await file.pread(size, at)


async def _no_wait() -> None:
    """Return at once: `sock_sendall` has waited."""


async def _copy_ours(
    file: File, offset: int, count: int | None, put: Put, wait: Callable[[], Awaitable[object]]
) -> int:
    """Read from `offset` on. Await `put(data)` for each piece, and then `wait()`. Return the number of bytes.

    Afterwards, also after an error, the file's position is after the last piece. A file that cannot seek is read from
    its current position.
    """
    file.handle.check_reading("read")
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
            await wait()
        return total
    finally:
        if is_seekable and not file.closed:
            await file.seek(offset + total)
