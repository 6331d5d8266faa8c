"""The program's own descriptors and sockets: `add_reader`, `add_writer`, and the `sock_*` methods.

`sock_recv`, `sock_recv_into` and `sock_sendall` are native. The methods that run once per connection, or that pass an
address with each message, are here; they use the native waits. `sock_sendfile` is in `sendfile.py`.
"""

from __future__ import annotations

import _socket
import asyncio
import errno
import select
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Between two attempts to connect to a Unix socket whose backlog is full, or to send a datagram to one whose queue is
# full, in seconds.
FULL_BACKLOG_PAUSE_S = 0.01


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
        """Remove the reader. Return True if there was one.

        `fd` can be an object that has been closed meanwhile. What has its number by now stays; asyncio removes it.
        """
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
        else:
            self._forget_closed(number)

    def _forget_closed(self: Any, number: int) -> None:
        """Forget the object that had the number, if it was closed: the number is another's now."""
        watched = self._watched_objects.get(number)
        if watched is not None and not _has_number(watched, number):
            del self._watched_objects[number]

    def _unwatch(self: Any, fileobj: Any, is_write: bool) -> bool:
        number = _number(fileobj)
        if number < 0:
            # The object has been closed: look up the descriptor that it was added with.
            known = (number for number, watched in self._watched_objects.items() if watched is fileobj)
            number = next(known, number)
            try:
                self._ensure_fd_no_transport(number)
            except RuntimeError:
                # The number is that of a transport now.
                del self._watched_objects[number]
                return False
        _check_number(number)
        self._ensure_fd_no_transport(number)
        removed = bool(self._remove_callback_for(number, is_write))
        if not self._has_callbacks_for(number):
            self._watched_objects.pop(number, None)
        return removed

    # For the loop's own descriptors. These do not check whether a transport uses the descriptor.
    def _add_reader(self: Any, fd: int, callback: Callable[..., Any], *args: Any) -> None:
        self._forget_closed(fd)
        self._add_callback_for(fd, False, callback, args)

    def _remove_reader(self: Any, fd: int) -> bool:
        return bool(self._remove_callback_for(fd, False))

    def _add_writer(self: Any, fd: int, callback: Callable[..., Any], *args: Any) -> None:
        self._forget_closed(fd)
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


def _has_number(fileobj: Any, number: int) -> bool:
    try:
        return _number(fileobj) == number
    except ValueError:
        return False


def _check_number(number: int) -> None:
    if number < 0:
        raise ValueError(f"Invalid file descriptor: {number}")
