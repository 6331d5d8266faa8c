"""`socket`: the standard library's socket whose blocking methods let other green threads and coroutines go on.

The descriptor is always non-blocking; the timeout that a program sets is the object's alone. Names that are not defined
here are those of the standard library's module.
"""

from __future__ import annotations

import operator
import os
import select as _select
import socket as _stock
from errno import EBADF, EINPROGRESS, EWOULDBLOCK
from typing import Any, Self

from oneloop import _native
from oneloop.green.hub import Countdown, get_hub, has_hub

_GLOBAL_DEFAULT_TIMEOUT: Any = _stock._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]


class cancel_wait_ex(_stock.error):  # noqa: N801 - gevent's name
    """A socket was closed while a green thread waited for it."""

    def __init__(self) -> None:
        super().__init__(EBADF, "File descriptor was closed in another greenlet")


class socket(_stock.socket):  # noqa: N801 - the standard library's name
    """See `socket.socket`. For the green threads of the thread that uses it first."""

    __slots__ = ("_timeout_s",)

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:  # noqa: A002
        self._timeout_s: float | None = _stock.getdefaulttimeout()
        super().__init__(family, type, proto, fileno)
        super().setblocking(False)

    # -- timeouts ------------------------------------------------------------------------------------

    def gettimeout(self) -> float | None:
        """The timeout in seconds; None: for ever; 0: it does not wait."""
        return self._timeout_s

    def settimeout(self, value: Any) -> None:
        """Wait for so many seconds at most in each blocking method.

        Raises:
            ValueError: it is less than 0.
            TypeError: it is no number.
        """
        if value is not None:
            value = value if isinstance(value, float) else float(operator.index(value))
            if not 0 <= value < float("inf"):
                raise ValueError("Timeout value out of range")
        self._timeout_s = value

    def setblocking(self, flag: bool) -> None:
        """Wait for ever, or not at all."""
        self._timeout_s = None if flag else 0.0

    def getblocking(self) -> bool:
        """Whether methods wait."""
        return self._timeout_s != 0.0

    timeout = property(gettimeout)

    # -- receiving and sending -----------------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """See `socket.recv`."""
        if not flags:
            return _native.green_recv(self, bufsize, self._timeout_s)
        data: bytes = self._persist(False, super().recv, bufsize, flags)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """See `socket.recv_into`."""
        if not flags and not nbytes:
            return _native.green_recv_into(self, buffer, self._timeout_s)
        count: int = self._persist(False, super().recv_into, buffer, nbytes, flags)
        return count

    def recvfrom(self, bufsize: int, flags: int = 0, /) -> Any:
        """See `socket.recvfrom`."""
        return self._persist(False, super().recvfrom, bufsize, flags)

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> Any:
        """See `socket.recvfrom_into`."""
        return self._persist(False, super().recvfrom_into, buffer, nbytes, flags)

    def recvmsg(self, *args: Any) -> Any:
        """See `socket.recvmsg`."""
        return self._persist(False, super().recvmsg, *args)

    def recvmsg_into(self, *args: Any) -> Any:
        """See `socket.recvmsg_into`."""
        return self._persist(False, super().recvmsg_into, *args)

    def send(self, data: Any, flags: int = 0, /) -> int:
        """See `socket.send`."""
        if not flags:
            return _native.green_send(self, data, self._timeout_s)
        count: int = self._persist(True, super().send, data, flags)
        return count

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """See `socket.sendall`."""
        if not flags:
            _native.green_send_all(self, data, self._timeout_s)
            return
        left = memoryview(data).cast("B")
        while left:
            left = left[self._persist(True, super().send, left, flags) :]

    def sendto(self, *args: Any) -> int:
        """See `socket.sendto`."""
        count: int = self._persist(True, super().sendto, *args)
        return count

    def sendmsg(self, *args: Any) -> int:
        """See `socket.sendmsg`."""
        count: int = self._persist(True, super().sendmsg, *args)
        return count

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """See `socket.sendfile`. Read and sent in pieces."""
        return self._sendfile_use_send(file, offset, count)  # type: ignore[attr-defined,no-any-return]

    def _persist(self, for_writing: bool, method: Any, *args: Any) -> Any:
        """Call a method of the standard library's, again each time that the socket may be ready."""
        left = Countdown(self._timeout_s)
        while True:
            try:
                return method(*args)
            except BlockingIOError:
                if self._timeout_s == 0.0:
                    raise
            _native.green_wait(self, for_writing, left.seconds())

    # -- connections ---------------------------------------------------------------------------------

    def connect(self, address: Any, /) -> None:
        """See `socket.connect`.

        Raises:
            TimeoutError: the time is up.
            OSError: it cannot be connected.
        """
        error = super().connect_ex(self._resolved(address))
        if error == EINPROGRESS and self._timeout_s != 0.0:
            _native.green_wait(self, True, self._timeout_s)
            error = self.getsockopt(_stock.SOL_SOCKET, _stock.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))

    def connect_ex(self, address: Any, /) -> int:
        """See `socket.connect_ex`."""
        try:
            self.connect(address)
        except TimeoutError:
            return EWOULDBLOCK
        except _stock.gaierror:
            raise
        except OSError as error:
            if error.errno is None:
                raise
            return error.errno
        return 0

    def _resolved(self, address: Any) -> Any:
        """The address with a number for the host's name, which is asked for without blocking the others."""
        if self.family not in (_stock.AF_INET, _stock.AF_INET6) or not isinstance(address, tuple) or not address:
            return address
        host = address[0]
        if not isinstance(host, str) or not host or _is_numeric(host):
            return address
        found = getaddrinfo(host, address[1], self.family, self.type, self.proto)
        sockaddr = found[0][4]
        return (sockaddr[0], *address[1:])

    def accept(self) -> tuple[Any, Any]:
        """See `socket.accept`."""
        number, address = self._persist(False, super()._accept)  # type: ignore[misc]
        return socket(self.family, self.type, self.proto, fileno=number), address

    def dup(self) -> Self:
        """See `socket.dup`."""
        copy = super().dup()
        copy.settimeout(self._timeout_s)
        return copy

    def _real_close(self, *args: Any) -> None:
        # `close()` ends here once the last file made of the socket is closed.
        cancel_wait(self)
        super()._real_close(*args)  # type: ignore[misc]

    def detach(self) -> int:
        """See `socket.detach`."""
        cancel_wait(self)
        return super().detach()


def _is_numeric(host: str) -> bool:
    for family in (_stock.AF_INET, _stock.AF_INET6):
        try:
            _stock.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
        return True
    return False


# -- waiting -----------------------------------------------------------------------------------------


def wait_read(sock: Any, timeout: float | None = None) -> None:
    """Wait until a socket may be read from.

    Raises:
        TimeoutError: the time is up.
    """
    _wait_ready(sock, False, timeout)


def wait_write(sock: Any, timeout: float | None = None) -> None:
    """Wait until a socket may be written to; as `wait_read`."""
    _wait_ready(sock, True, timeout)


def _wait_ready(sock: Any, for_writing: bool, timeout: float | None) -> None:
    # The loop tells of changes alone: what is so already, the kernel is asked for.
    poll = _select.poll()
    poll.register(sock, _select.POLLOUT if for_writing else _select.POLLIN)
    if not poll.poll(0):
        _native.green_wait(sock, for_writing, timeout)


def cancel_wait(sock: Any, error: type[BaseException] | BaseException = cancel_wait_ex) -> None:
    """Have an exception raised in the green threads that wait for a socket of this thread's hub."""
    if has_hub() and sock.fileno() >= 0:
        _native.green_cancel_wait(sock, error() if isinstance(error, type) else error)


# -- making sockets ----------------------------------------------------------------------------------


def fromfd(fd: int, family: int, type: int, proto: int = 0) -> socket:  # noqa: A002
    """See `socket.fromfd`."""
    return socket(family, type, proto, fileno=_stock.dup(fd))


def socketpair(
    family: int | None = None,
    type: int = _stock.SOCK_STREAM,  # noqa: A002 - its name
    proto: int = 0,
) -> tuple[socket, socket]:
    """See `socket.socketpair`."""
    one, other = _stock.socketpair(family or _stock.AF_UNIX, type, proto)
    return (
        socket(one.family, one.type, one.proto, fileno=one.detach()),
        socket(other.family, other.type, other.proto, fileno=other.detach()),
    )


def create_connection(
    address: tuple[str | None, int],
    timeout: Any = _GLOBAL_DEFAULT_TIMEOUT,
    source_address: Any = None,
    *,
    all_errors: bool = False,
) -> socket:
    """See `socket.create_connection`."""
    host, port = address
    errors: list[Exception] = []
    for family, kind, proto, _, sockaddr in getaddrinfo(host, port, 0, _stock.SOCK_STREAM):
        sock = None
        try:
            sock = socket(family, kind, proto)
            if timeout is not _GLOBAL_DEFAULT_TIMEOUT:
                sock.settimeout(timeout)
            if source_address:
                sock.bind(source_address)
            sock.connect(sockaddr)
            errors.clear()
            return sock
        except OSError as error:
            if not all_errors:
                errors.clear()
            errors.append(error)
            if sock is not None:
                sock.close()
    if not errors:
        raise OSError("getaddrinfo returns an empty list")
    try:
        if not all_errors:
            raise errors[0]
        raise ExceptionGroup("create_connection failed", errors)
    finally:
        errors.clear()


# -- names -------------------------------------------------------------------------------------------


def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:  # noqa: A002
    """See `socket.getaddrinfo`; a real thread asks, unless the host is a number."""
    if host is None or (isinstance(host, str) and _is_numeric(host)):
        return _stock.getaddrinfo(host, port, family, type, proto, flags)
    return get_hub().threadpool.apply(_stock.getaddrinfo, (host, port, family, type, proto, flags))


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
