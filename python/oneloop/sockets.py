"""The program's own descriptors and sockets: `add_reader`, `add_writer`, the `sock_*` methods and `sendfile`.

`sock_recv`, `sock_recv_into` and `sock_sendall` are native. The methods that run once per connection, or that pass an
address with each message, are here; they use the native waits.

Files of `oneloop.files` are sent from the page cache with sendfile(2), or with reads and writes where sendfile(2) is
not possible (TLS). sendfile(2) blocks the loop while it reads uncached data from the disk. Each block is therefore
probed first, and read into the page cache if a part of it is missing.
"""

from __future__ import annotations

import _socket
import asyncio
import contextlib
import errno
import os
import select
import socket
import stat
import sys
from asyncio import base_events, unix_events
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oneloop.files.file import File

# Bytes per sendfile(2): large enough that the calls cost little, small enough that other callbacks run in between.
SENDFILE_BLOCK_BYTES = 1 << 20
# Bytes per read and write where sendfile(2) is not possible (TLS).
COPY_BYTES = 64 * 1024
# Distance between two probes of the page cache: the kernel's usual read-ahead.
PROBE_STEP_BYTES = 128 * 1024
# Between two attempts to connect to a Unix socket whose backlog is full, or to send a datagram to one whose queue is
# full, in seconds.
FULL_BACKLOG_PAUSE_S = 0.01

_Stock: Any = unix_events._UnixSelectorEventLoop
# Newer patch releases of CPython move a file's position to the offset even if nothing was sent.
_MOVES_IN_ANY_CASE = "total_sent" not in _Stock._sock_sendfile_update_filepos.__code__.co_varnames


class _FallbackProtocol(base_events._SendfileFallbackProtocol):  # type: ignore[name-defined, misc]
    """The protocol of a transport while a file is copied to it.

    asyncio's fails if it is told something after a cancellation, and may leave the transport's own protocol in a wrong
    state: neither paused nor resumed.
    """

    _should_resume_writing: bool
    _transport: Any
    _proto: Any

    def resume_writing(self) -> None:
        self._forget_cancelled()
        super().resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._forget_cancelled()
        super().connection_lost(exc)

    async def restore(self) -> None:
        """Give the transport back. Its protocol is told whether it is paused, if that is another state than before."""
        was_paused = self._should_resume_writing
        is_paused = self._transport._protocol_paused
        self._should_resume_writing = was_paused and not is_paused
        await super().restore()
        if is_paused and not was_paused:
            self._proto.pause_writing()

    def _forget_cancelled(self) -> None:
        future: asyncio.Future[object] | None = self._write_ready_fut  # type: ignore[has-type]
        if future is not None and future.cancelled():
            self._write_ready_fut = None


class SocketMixin:
    """`add_reader`, `add_writer` and the `sock_*` methods of `oneloop.Loop`."""

    __slots__ = ()

    def _init_sockets(self: Any) -> None:
        # The objects passed to add_reader() and add_writer(), by their descriptor at that time. They are kept alive
        # while they are watched, as in asyncio's selector.
        self._watched_objects: dict[int, Any] = {}

    def add_reader(self: Any, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        """Call `callback(*args)` whenever `fd` is readable. Replaces an existing reader.

        Args:
            fd: a descriptor, or an object with `fileno()`.
            callback: called in the loop's thread.
            *args: arguments for the callback.

        Raises:
            ValueError: `fd` is not a descriptor.
            RuntimeError: a transport uses the descriptor.
            OSError: the descriptor cannot be watched (PermissionError for a regular file).
        """
        self._watch(fd, False, callback, args)

    def remove_reader(self: Any, fd: Any) -> bool:
        """Remove the reader. Return True if there was one. `fd` can be an object that has been closed meanwhile."""
        return bool(self._unwatch(fd, False))

    def add_writer(self: Any, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        """Call `callback(*args)` whenever `fd` is writable; otherwise like `add_reader`."""
        self._watch(fd, True, callback, args)

    def remove_writer(self: Any, fd: Any) -> bool:
        """Remove the writer. Return True if there was one; otherwise like `remove_reader`."""
        return bool(self._unwatch(fd, True))

    def _watch(self: Any, fileobj: Any, is_write: bool, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        number = _fileno(fileobj)
        self._add_callback_for(number, is_write, callback, args)
        if not isinstance(fileobj, int):
            self._watched_objects[number] = fileobj

    def _unwatch(self: Any, fileobj: Any, is_write: bool) -> bool:
        number = _number(fileobj)
        if number < 0:
            # The object has been closed: look up the descriptor that it was added with.
            known = (number for number, watched in self._watched_objects.items() if watched is fileobj)
            number = next(known, number)
        _check_number(number)
        self._ensure_fd_no_transport(number)
        removed = bool(self._remove_callback_for(number, is_write))
        if not self._has_callbacks_for(number):
            self._watched_objects.pop(number, None)
        return removed

    # For the loop's own descriptors. These do not check whether a transport uses the descriptor.
    def _add_reader(self: Any, fd: int, callback: Callable[..., Any], *args: Any) -> None:
        self._add_callback_for(fd, False, callback, args)

    def _remove_reader(self: Any, fd: int) -> bool:
        return bool(self._remove_callback_for(fd, False))

    def _add_writer(self: Any, fd: int, callback: Callable[..., Any], *args: Any) -> None:
        self._add_callback_for(fd, True, callback, args)

    def _remove_writer(self: Any, fd: int) -> bool:
        return bool(self._remove_callback_for(fd, True))

    async def sock_recvfrom(self: Any, sock: socket.socket, bufsize: int) -> tuple[bytes, Any]:
        """Receive a datagram of up to `bufsize` bytes. Return its data and the sender's address.

        Raises:
            OSError: recvfrom(2) failed.
        """
        self._check_sock(sock)
        while True:
            try:
                return sock.recvfrom(bufsize, *_dont_wait(sock))
            except (BlockingIOError, InterruptedError):
                await self._wait_readable(sock)

    async def sock_recvfrom_into(self: Any, sock: socket.socket, buf: Any, nbytes: int = 0) -> tuple[int, Any]:
        """Receive a datagram into a writable buffer. Return the number of bytes and the sender's address.

        Args:
            sock: a non-blocking socket.
            buf: a writable buffer.
            nbytes: the most bytes to receive; 0 is the size of `buf`.

        Raises:
            OSError: recvfrom(2) failed.
        """
        self._check_sock(sock)
        if not nbytes:
            nbytes = len(buf)
        while True:
            try:
                return sock.recvfrom_into(buf, nbytes, *_dont_wait(sock))
            except (BlockingIOError, InterruptedError):
                await self._wait_readable(sock)

    async def sock_sendto(self: Any, sock: socket.socket, data: Any, address: Any) -> int:
        """Send a datagram to `address`. Return the number of bytes sent.

        Raises:
            OSError: sendto(2) failed.
        """
        self._check_sock(sock)
        any_socket: Any = sock
        while True:
            try:
                return int(any_socket.sendto(data, *_dont_wait(sock), address))
            except (BlockingIOError, InterruptedError):
                if sock.family == socket.AF_UNIX and _is_ready(sock, select.POLLOUT):
                    # The receiver's queue is full. The kernel tells nobody who is not connected to it (unix(7)).
                    await asyncio.sleep(FULL_BACKLOG_PAUSE_S)
                else:
                    await self._wait_writable(sock)

    async def _sock_recv_any(self: Any, sock: Any, n: int) -> Any:
        """sock_recv() for an object that is not a `socket.socket` but has the same methods."""
        while True:
            try:
                return sock.recv(n)
            except (BlockingIOError, InterruptedError):
                await self._wait_readable(sock)

    async def _sock_recv_into_any(self: Any, sock: Any, buf: Any) -> Any:
        """sock_recv_into() for such an object."""
        while True:
            try:
                return sock.recv_into(buf)
            except (BlockingIOError, InterruptedError):
                await self._wait_readable(sock)

    async def _sock_sendall_any(self: Any, sock: Any, data: Any) -> None:
        """sock_sendall() for such an object."""
        rest = memoryview(data).cast("B")
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except (BlockingIOError, InterruptedError):
                await self._wait_writable(sock)

    async def sock_accept(self: Any, sock: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection. Return a non-blocking socket and the peer's address.

        Raises:
            OSError: accept(2) failed.
        """
        self._check_sock(sock)
        while True:
            # On a socket with a timeout (or None, which blocks), accept() would block the loop.
            if _may_block(sock) and not _is_ready(sock, select.POLLIN):
                await self._wait_readable(sock)
            try:
                conn, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                await self._wait_readable(sock)
            else:
                conn.setblocking(False)
                return conn, address

    async def sock_connect(self: Any, sock: socket.socket, address: Any) -> None:
        """Connect a non-blocking socket. A host name in `address` is resolved first.

        If the backlog of a Unix socket is full, wait until the peer accepts. (asyncio reports success.)

        Raises:
            OSError: the connection failed; the message has the address.
            socket.gaierror: the host name cannot be resolved.
        """
        self._check_sock(sock)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            resolved = await self._ensure_resolved(
                address, family=sock.family, type=sock.type, proto=sock.proto, loop=self
            )
            _, _, _, _, address = resolved[0]
        while True:
            try:
                sock.connect(address)
            except (BlockingIOError, InterruptedError) as exc:
                if exc.errno == errno.EAGAIN:
                    # Unlike EINPROGRESS it means that nothing was begun (connect(2)).
                    await _before_another_attempt(sock, address)
                    continue
                await self._wait_writable(sock)
                err = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if err != 0:
                    raise OSError(err, f"Connect call failed {address}") from None
            return

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
        _check_part(offset, count)
        return int(await super().sendfile(transport, file, offset, count, fallback=fallback))  # type: ignore[misc]

    async def _sock_sendfile_native(self: Any, sock: socket.socket, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sock_sendfile()'s hook: sendfile(2), from a regular file to a stream socket."""
        return int(await self._sendfile(sock, file, offset, count, lambda: self._wait_writable(sock)))

    async def _sendfile_native(self: Any, transport: Any, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sendfile()'s hook: send the queued data first, then the file."""
        resume = transport.is_reading()
        drained = transport._make_empty_waiter()
        try:
            # It may be cancelled while earlier writes are sent (python/cpython#157025).
            transport.pause_reading()
            await drained
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
            _move(source, start, offset)

    async def _sock_sendfile_fallback(self: Any, sock: socket.socket, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sock_sendfile()'s hook for reads and writes. Handles files of `oneloop.files` here."""
        ours = _ours(file)
        if ours is None:
            _rewind(file, offset)
            return int(await super()._sock_sendfile_fallback(sock, file, offset, count))  # type: ignore[misc]
        return await _copy_ours(ours, offset, count, lambda data: self.sock_sendall(sock, data))

    async def _sendfile_fallback(self: Any, transport: Any, file: Any, offset: int, count: int | None) -> int:
        """BaseEventLoop.sendfile()'s hook for reads and writes, with the transport's flow control."""
        ours = _ours(file)
        if ours is None:
            _rewind(file, offset)
            return int(await super()._sendfile_fallback(transport, file, offset, count))  # type: ignore[misc]
        protocol = _FallbackProtocol(transport)

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


async def _before_another_attempt(sock: Any, address: Any) -> None:
    """Wait after an EAGAIN of connect(2), which raises it again if another attempt would not help."""
    if sock.family != socket.AF_UNIX:
        raise OSError(errno.EAGAIN, f"Connect call failed {address}")
    # The backlog is full. The kernel reports free room only to callers that block in connect(2) (unix(7)).
    await asyncio.sleep(FULL_BACKLOG_PAUSE_S)


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


def _rewind(file: Any, offset: int) -> None:
    """Go to the beginning of a file that is read from there: asyncio before 3.14.8 goes to other offsets only."""
    seekable = getattr(file, "seekable", None)
    if offset == 0 and (hasattr(file, "seek") if seekable is None else seekable()):
        file.seek(0)


def _move(source: int, start: int, end: int) -> None:
    """Move a file's position to the end of what was sent from it, as the running version's asyncio does."""
    if end > start or _MOVES_IN_ANY_CASE:
        with contextlib.suppress(OSError):  # a pipe has no position
            os.lseek(source, end, os.SEEK_SET)


def _dont_wait(sock: Any) -> tuple[int, ...]:
    """Return MSG_DONTWAIT for real sockets. Methods of other classes are called without flags, as asyncio does."""
    return (socket.MSG_DONTWAIT,) if type(sock) in (socket.socket, _socket.socket) else ()


def _may_block(sock: Any) -> bool:
    # An object without gettimeout() has no accept() either; the call of accept() raises that error.
    return hasattr(sock, "gettimeout") and sock.gettimeout() != 0


def _is_ready(sock: socket.socket, for_what: int) -> bool:
    poll = select.poll()
    poll.register(sock, for_what)
    return bool(poll.poll(0))


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


async def _copy_ours(file: File, offset: int, count: int | None, put: Callable[[bytes], Awaitable[object]]) -> int:
    """Read from `offset` on and await `put(data)` for each piece. Return the number of bytes.

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
    """Return the descriptor of an int or a file object, as `selectors` does. ValueError for anything else."""
    number = _number(fileobj)
    _check_number(number)
    return number


def _number(fileobj: Any) -> int:
    """Return an int, or an object's `fileno()`, which is -1 for a closed socket."""
    if isinstance(fileobj, int):
        return fileobj
    try:
        return int(fileobj.fileno())
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"Invalid file object: {fileobj!r}") from None


def _check_number(number: int) -> None:
    if number < 0:
        raise ValueError(f"Invalid file descriptor: {number}")
