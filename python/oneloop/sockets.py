"""Descriptors and sockets of the program's own: readers, writers, and the `sock_*` methods.

`sock_recv`, `sock_recv_into` and `sock_sendall` are native; what runs once per connection or moves
an address with each message is here, on the native waits.

Files of `oneloop.files` are sent with sendfile(2) out of the page cache, or read and written where there is no such
call (TLS). sendfile(2) would block the loop on what is not cached, so that what is sent next is looked at first, and
read if it is not all there.
"""

from __future__ import annotations

import _socket
import asyncio
import contextlib
import os
import select
import socket
import stat
import sys
from asyncio import base_events
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oneloop.files.binary import File

# Bytes per sendfile(2): large enough to cost nothing, small enough to keep the loop answering.
SENDFILE_BLOCK_BYTES = 1 << 20
# Bytes per piece that is read and written, where there is no sendfile(2) (TLS).
COPY_BYTES = 64 * 1024
# As far apart as disks read ahead.
PROBE_STEP_BYTES = 128 * 1024


class SocketMixin:
    """`add_reader`, `add_writer` and the `sock_*` methods of `oneloop.Loop`."""

    __slots__ = ()

    def _init_sockets(self: Any) -> None:
        # Objects given to add_reader() and add_writer(), by their numbers then. Kept alive while they are watched, as
        # asyncio's selector does.
        self._watched_objects: dict[int, Any] = {}

    def add_reader(self: Any, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        """Call callback(*args) whenever `fd` (a number or an object with `fileno()`) is readable.

        Replaces a reader that was there. RuntimeError if a transport uses the descriptor, OSError
        if it cannot be watched (a regular file: PermissionError).
        """
        self._watch(fd, False, callback, args)

    def remove_reader(self: Any, fd: Any) -> bool:
        """Stop watching; True if there was a reader. An object that is closed by now will do."""
        return bool(self._unwatch(fd, False))

    def add_writer(self: Any, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        """Call callback(*args) whenever `fd` is writable; otherwise like `add_reader`."""
        self._watch(fd, True, callback, args)

    def remove_writer(self: Any, fd: Any) -> bool:
        """Stop watching; True if there was a writer."""
        return bool(self._unwatch(fd, True))

    def _watch(self: Any, fileobj: Any, is_write: bool, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        number = _fileno(fileobj)
        self._add_callback_for(number, is_write, callback, args)
        if not isinstance(fileobj, int):
            self._watched_objects[number] = fileobj

    def _unwatch(self: Any, fileobj: Any, is_write: bool) -> bool:
        number = _number(fileobj)
        if number < 0:
            # Closed by now: the number that it was added with.
            known = (number for number, watched in self._watched_objects.items() if watched is fileobj)
            number = next(known, number)
        _check_number(number)
        self._ensure_fd_no_transport(number)
        removed = bool(self._remove_callback_for(number, is_write))
        if not self._has_callbacks_for(number):
            self._watched_objects.pop(number, None)
        return removed

    # For the loop's own descriptors: no look at transports.
    def _add_reader(self: Any, fd: int, callback: Callable[..., Any], *args: Any) -> None:
        self._add_callback_for(fd, False, callback, args)

    def _remove_reader(self: Any, fd: int) -> bool:
        return bool(self._remove_callback_for(fd, False))

    def _add_writer(self: Any, fd: int, callback: Callable[..., Any], *args: Any) -> None:
        self._add_callback_for(fd, True, callback, args)

    def _remove_writer(self: Any, fd: int) -> bool:
        return bool(self._remove_callback_for(fd, True))

    async def sock_recvfrom(self: Any, sock: socket.socket, bufsize: int) -> tuple[bytes, Any]:
        """Receive a datagram; returns its bytes and its sender's address."""
        self._check_sock(sock)
        while True:
            try:
                return sock.recvfrom(bufsize, *_dont_wait(sock))
            except (BlockingIOError, InterruptedError):
                await self._wait_readable(sock)

    async def sock_recvfrom_into(self: Any, sock: socket.socket, buf: Any, nbytes: int = 0) -> tuple[int, Any]:
        """Receive a datagram into a writable buffer; returns its length and its sender's address."""
        self._check_sock(sock)
        if not nbytes:
            nbytes = len(buf)
        while True:
            try:
                return sock.recvfrom_into(buf, nbytes, *_dont_wait(sock))
            except (BlockingIOError, InterruptedError):
                await self._wait_readable(sock)

    async def sock_sendto(self: Any, sock: socket.socket, data: Any, address: Any) -> int:
        """Send a datagram; returns the number of bytes sent."""
        self._check_sock(sock)
        any_socket: Any = sock
        while True:
            try:
                return int(any_socket.sendto(data, *_dont_wait(sock), address))
            except (BlockingIOError, InterruptedError):
                await self._wait_writable(sock)

    async def _sock_recv_any(self: Any, sock: Any, n: int) -> Any:
        """sock_recv() for an object that is no `socket.socket` and has its methods."""
        while True:
            try:
                return sock.recv(n)
            except (BlockingIOError, InterruptedError):
                await self._wait_readable(sock)

    async def _sock_recv_into_any(self: Any, sock: Any, buf: Any) -> Any:
        """sock_recv_into(), likewise."""
        while True:
            try:
                return sock.recv_into(buf)
            except (BlockingIOError, InterruptedError):
                await self._wait_readable(sock)

    async def _sock_sendall_any(self: Any, sock: Any, data: Any) -> None:
        """sock_sendall(), likewise."""
        rest = memoryview(data).cast("B")
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except (BlockingIOError, InterruptedError):
                await self._wait_writable(sock)

    async def sock_accept(self: Any, sock: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection; returns a non-blocking socket and the peer's address."""
        self._check_sock(sock)
        while True:
            # With a timeout (also None: for ever) accept() would wait for the peer itself.
            if _may_block(sock) and not _is_readable(sock):
                await self._wait_readable(sock)
            try:
                conn, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                await self._wait_readable(sock)
            else:
                conn.setblocking(False)
                return conn, address

    async def sock_connect(self: Any, sock: socket.socket, address: Any) -> None:
        """Connect a non-blocking socket; a host name in `address` is resolved first."""
        self._check_sock(sock)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            resolved = await self._ensure_resolved(
                address, family=sock.family, type=sock.type, proto=sock.proto, loop=self
            )
            _, _, _, _, address = resolved[0]
        try:
            sock.connect(address)
        except (BlockingIOError, InterruptedError):
            await self._wait_writable(sock)
            err = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if err != 0:
                raise OSError(err, f"Connect call failed {address}") from None

    async def _sock_sendfile_native(self: Any, sock: socket.socket, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sock_sendfile()'s hook: sendfile(2), from a regular file to a stream socket."""
        return int(await self._sendfile(sock, file, offset, count, lambda: self._wait_writable(sock)))

    async def _sendfile_native(self: Any, transport: Any, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sendfile()'s hook: what is queued goes first, then the file."""
        resume = transport.is_reading()
        transport.pause_reading()
        await transport._make_empty_waiter()
        try:
            sock = transport.get_extra_info("socket")
            return int(await self._sendfile(sock, file, offset, count, transport._wait_writable))
        finally:
            transport._reset_empty_waiter()
            if resume:
                transport.resume_reading()

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
        block = min(count if count is not None else size, SENDFILE_BLOCK_BYTES)
        if not block:
            return 0  # an empty file
        start, end = offset, None if count is None else offset + count
        try:
            while end is None or offset < end:
                want = block if end is None else min(end - offset, block)
                try:
                    sent = os.sendfile(sock.fileno(), source, offset, want)
                except (BlockingIOError, InterruptedError):
                    await wait()
                    continue
                except OSError as exc:
                    if offset == start and not isinstance(exc, ConnectionError):
                        raise asyncio.SendfileNotAvailableError("os.sendfile call failed") from exc
                    raise
                if sent == 0:
                    break  # end of file
                offset += sent
            return offset - start
        finally:
            with contextlib.suppress(OSError):  # a pipe has no position
                os.lseek(source, offset, os.SEEK_SET)

    async def _sock_sendfile_fallback(self: Any, sock: socket.socket, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sock_sendfile()'s hook: reading and writing, where the file is one of oneloop's."""
        ours = _ours(file)
        if ours is None:
            return int(await super()._sock_sendfile_fallback(sock, file, offset, count))  # type: ignore[misc]
        return await _copy_ours(ours, offset, count, lambda data: self.sock_sendall(sock, data))

    async def _sendfile_fallback(self: Any, transport: Any, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sendfile()'s hook: the same, to a transport, as fast as it takes it."""
        ours = _ours(file)
        if ours is None:
            return int(await super()._sendfile_fallback(transport, file, offset, count))  # type: ignore[misc]
        protocol = base_events._SendfileFallbackProtocol(transport)  # type: ignore[attr-defined]

        async def put(data: bytes) -> None:
            await protocol.drain()
            transport.write(data)

        try:
            return await _copy_ours(ours, offset, count, put)
        finally:
            await protocol.restore()

    def _check_sock(self: Any, sock: socket.socket) -> None:
        _check_ssl_socket(sock)
        if self._debug and sock.gettimeout() != 0:
            raise ValueError("the socket must be non-blocking")


def _dont_wait(sock: Any) -> tuple[int, ...]:
    """Return the flag of a call that must not block; none for other classes, whose methods asyncio calls without."""
    return (socket.MSG_DONTWAIT,) if type(sock) in (socket.socket, _socket.socket) else ()


def _may_block(sock: Any) -> bool:
    # What has no timeout has no accept() either, and the call says so.
    return hasattr(sock, "gettimeout") and sock.gettimeout() != 0


def _is_readable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _ours(file: Any) -> File | None:
    """A file of `oneloop.files`; nobody has one who has not imported that."""
    module = sys.modules.get("oneloop.files.binary")
    return file if module is not None and isinstance(file, module.File) else None


async def _send_ours(
    file: File, sock: socket.socket, offset: int, count: int | None, wait: Callable[[], Awaitable[object]]
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
    handle = file.handle
    handle.check_reading("read")
    await file.flush()
    mode, size, is_near = await handle.look()
    if not stat.S_ISREG(mode):
        raise asyncio.SendfileNotAvailableError("not a regular file")
    if not is_near:
        raise asyncio.SendfileNotAvailableError("sendfile(2) would wait for the server that has this file")
    handle.check()
    number = handle.number
    end = size if count is None else offset + count
    # The number stays open until this is done.
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
    """Have what is sent next in the page cache."""
    probe = bytearray(1)
    number = file.handle.number
    try:
        for place in (*range(at, at + size, PROBE_STEP_BYTES), at + size - 1):
            os.preadv(number, [probe], place, os.RWF_NOWAIT)
    except OSError:
        # Not there (EAGAIN), or the file system cannot say; what is read now comes from there soon.
        await file.pread(size, at)


async def _copy_ours(file: File, offset: int, count: int | None, put: Callable[[bytes], Awaitable[object]]) -> int:
    """Read from `offset` on, and await `put(data)` for each piece; returns the number of bytes.

    The file's cursor is behind what was put, also after an error. A file without a position is read on.
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
        return total
    finally:
        if is_seekable and not file.closed:
            await file.seek(offset + total)


def _check_ssl_socket(sock: Any) -> None:
    # Builds of Python without the module ssl, and programs that do not import it, have no such sockets.
    ssl = sys.modules.get("ssl")
    if ssl is not None and isinstance(sock, ssl.SSLSocket):
        raise TypeError("Socket cannot be of type SSLSocket")


def _fileno(fileobj: Any) -> int:
    """Return the number of a descriptor, as `selectors` does. ValueError for anything else."""
    number = _number(fileobj)
    _check_number(number)
    return number


def _number(fileobj: Any) -> int:
    """Return what an object says its number is; sockets that are closed say -1."""
    if isinstance(fileobj, int):
        return fileobj
    try:
        return int(fileobj.fileno())
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"Invalid file object: {fileobj!r}") from None


def _check_number(number: int) -> None:
    if number < 0:
        raise ValueError(f"Invalid file descriptor: {number}")
