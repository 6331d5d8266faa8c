"""`socket`: the standard library's socket class, with blocking methods that let other green threads and coroutines run.

The descriptor is always in non-blocking mode; the timeout that a program sets is stored in the object only. Names that
are not defined here come from the standard library's module.
"""

from __future__ import annotations

import builtins
import os
import select as _select
import socket as _stock
import weakref
from errno import EAGAIN, EBADF, EINPROGRESS, EWOULDBLOCK
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.green import selectors as _selectors
from oneloop.green.hub import Countdown, has_hub, sleep
from oneloop.green.readiness import note_closing, wait_for_any
from oneloop.green.resolver import is_numeric, resolver_here
from oneloop.green.seconds import checked_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

__implements__ = [
    "getaddrinfo",
    "gethostbyaddr",
    "gethostbyname",
    "gethostbyname_ex",
    "getnameinfo",
    "socket",
]
"""The names that patching replaces. Functions built on them (`create_connection`) then use the replacements."""
__extensions__ = ["cancel_wait", "wait_read", "wait_readwrite", "wait_write"]

_originals: dict[str, Any] = dict(vars(_stock))
"""The original names of the standard library's module, even if patching replaces them later."""
_GLOBAL_DEFAULT_TIMEOUT: Any = _originals["_GLOBAL_DEFAULT_TIMEOUT"]
_poll = _select.poll

_SHORTEST_S = 1e-9
_FULL_BACKLOG_PAUSE_S = 0.01


def rebound(function: Callable[..., Any], names: dict[str, Any]) -> Any:
    """Return a copy of a Python function whose globals are the dictionary `names` itself.

    Functions of the standard library that are built on sockets (`create_connection`, `ssl.create_default_context`) are
    so rebuilt on green sockets. They behave as in the running version of Python, whether or not anything is patched.
    """
    assert isinstance(function, FunctionType)
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__doc__ = function.__doc__
    copy.__qualname__ = function.__qualname__
    return copy


def _kept(items: Any) -> Any:
    """Return a sequence that can be iterated twice. Non-iterables pass unchanged: the standard library reports them."""
    return items if isinstance(items, list | tuple) or not hasattr(items, "__iter__") else list(items)


class cancel_wait_ex(_stock.error):  # noqa: N801 - gevent's name
    """A socket was closed while a green thread waited for it."""

    def __init__(self) -> None:
        super().__init__(EBADF, "File descriptor was closed in another greenlet")


_by_number: dict[int, weakref.ref[socket]] = {}
"""The green sockets by their descriptors, the newest ones; they may be closed. Any thread."""


def is_blocking(fd: int) -> bool:
    """Whether a descriptor is that of a green socket without a timeout: it is a blocking one for its program."""
    known = _by_number.get(fd)
    sock = None if known is None else known()
    return sock is not None and sock.fileno() == fd and sock.gettimeout() is None


class socket(_stock.socket):  # noqa: N801 - the standard library's name
    """Like `socket.socket`. Use it in the green threads of one OS thread, the one that uses it first."""

    __slots__ = ("_timeout_s",)

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:  # noqa: A002
        super().__init__(family, type, proto, fileno)
        self._timeout_s: float | None = super().gettimeout()
        super().setblocking(False)
        _by_number[self.fileno()] = weakref.ref(self)

    # -- timeouts ------------------------------------------------------------------------------------

    def gettimeout(self) -> float | None:
        """The timeout in seconds. None means no limit, 0 means that methods do not wait."""
        return self._timeout_s

    def settimeout(self, value: Any) -> None:
        """Set the timeout of the blocking methods.

        Args:
            value: the timeout in seconds; None means no limit, 0 means that methods do not wait.

        Raises:
            ValueError: the timeout is negative or NaN.
            OverflowError: the timeout is more than 292 years.
            TypeError: the timeout is not a number.
        """
        if value is not None:
            value = float(checked_seconds(value))
            if value < 0:
                raise ValueError("Timeout value out of range")
            if value:
                # Shorter ones would count as 0, with which methods raise BlockingIOError.
                value = max(value, _SHORTEST_S)
        super().setblocking(False)
        self._timeout_s = value

    def setblocking(self, flag: bool) -> None:
        """Wait without a limit if `flag` is true, otherwise never wait."""
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        """Whether methods wait."""
        return self._timeout_s != 0.0

    timeout = property(gettimeout)  # pyright: ignore[reportIncompatibleMethodOverride]

    # -- receiving and sending -----------------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Like `socket.recv`."""
        if not flags:
            return _native.green_recv(self, bufsize, self._timeout_s)
        if self._waits_for_all(flags):
            buffer = bytearray(bufsize)
            return bytes(buffer[: self._receive_all(buffer, flags)])
        data: bytes = self._persist(False, flags, super().recv, bufsize, flags)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Like `socket.recv_into`."""
        if not flags and not nbytes:
            return _native.green_recv_into(self, buffer, self._timeout_s)
        if self._waits_for_all(flags):
            with memoryview(buffer) as view, view.cast("B") as wanted:
                return self._receive_all(wanted[: nbytes or len(wanted)], flags)
        count: int = self._persist(False, flags, super().recv_into, buffer, nbytes, flags)
        return count

    def _waits_for_all(self, flags: int) -> bool:
        """Whether the kernel would fill the buffer, if the descriptor were a blocking one (recv(2), MSG_WAITALL)."""
        is_asked = flags & _stock.MSG_WAITALL and not flags & (_stock.MSG_PEEK | _stock.MSG_DONTWAIT)
        return bool(is_asked) and self._timeout_s is None and bool(self.type & _stock.SOCK_STREAM)

    def _receive_all(self, buffer: Any, flags: int) -> int:
        """Receive until the buffer is full, or to the end of the stream."""
        count = 0
        with memoryview(buffer) as view:
            while count < len(view):
                try:
                    more = self._persist(False, flags, super().recv_into, view[count:], 0, flags)
                except OSError:
                    if not count:
                        raise
                    # As with the kernel, what was received comes first. The next call sees the error or the end.
                    return count
                if not more:
                    break
                count += more
        return count

    def recvfrom(self, bufsize: int, flags: int = 0, /) -> Any:
        """Like `socket.recvfrom`."""
        return self._persist(False, flags, super().recvfrom, bufsize, flags)

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> Any:
        """Like `socket.recvfrom_into`."""
        return self._persist(False, flags, super().recvfrom_into, buffer, nbytes, flags)

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Like `socket.recvmsg`."""
        return self._persist(False, flags, super().recvmsg, bufsize, ancbufsize, flags)

    def recvmsg_into(self, buffers: Any, ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Like `socket.recvmsg_into`."""
        return self._persist(False, flags, super().recvmsg_into, _kept(buffers), ancbufsize, flags)

    def send(self, data: Any, flags: int = 0, timeout: Any = ...) -> int:
        """Like `socket.send`. `timeout`, in seconds, applies instead of the socket's; None means no limit."""
        if timeout is not ...:
            before, self._timeout_s = self._timeout_s, timeout
            try:
                return self.send(data, flags)
            finally:
                self._timeout_s = before
        if not flags:
            return _native.green_send(self, data, self._timeout_s)
        count: int = self._persist(True, flags, super().send, data, flags)
        return count

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Like `socket.sendall`. The timeout applies to the whole call."""
        if not flags:
            _native.green_send_all(self, data, self._timeout_s)
            return
        end = Countdown(self._timeout_s)
        with memoryview(data) as view, view.cast("B") as left:
            sent = 0
            while sent < len(left):
                sent += self._persist(True, flags, super().send, left[sent:], flags, left=end)

    def sendto(self, data: Any, *args: Any) -> int:
        """Like `socket.sendto`."""
        flags = args[0] if len(args) == 2 else 0
        if args:
            args = (*args[:-1], self._resolved(args[-1]))
        count: int = self._persist(True, flags, super().sendto, data, *args)
        return count

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None, /) -> int:
        """Like `socket.sendmsg`."""
        args = (_kept(buffers), _kept(ancdata), flags, self._resolved(address))
        count: int = self._persist(True, flags, super().sendmsg, *args)
        return count

    def sendmsg_afalg(self, msg: Any = (), **how: Any) -> int:
        """Like `socket.sendmsg_afalg`."""
        send = partial(super().sendmsg_afalg, _kept(msg), **how)
        count: int = self._persist(True, how.get("flags", 0), send)
        return count

    def _persist(self, for_writing: bool, flags: Any, method: Any, *args: Any, left: Countdown | None = None) -> Any:
        """Call a method of the standard library; call it again each time the socket may be ready."""
        if left is None:
            left = Countdown(self._timeout_s)
        while True:
            try:
                return method(*args)
            except BlockingIOError:
                if self._timeout_s == 0.0 or flags & _stock.MSG_DONTWAIT:
                    raise
                if flags & _stock.MSG_ERRQUEUE and self._timeout_s is None and self.family != _stock.AF_UNIX:
                    # The kernel does not wait for errors (recv(2)); a Unix socket has none, and waits for data.
                    raise
            if for_writing and self.family == _stock.AF_UNIX and _is_ready(self, _select.POLLOUT):
                # The receiver's queue is full. The kernel tells nobody who is not connected to it (unix(7)).
                _pause(left)
            else:
                _native.green_wait(self, for_writing, left.seconds())

    # -- connections ---------------------------------------------------------------------------------

    def connect(self, address: Any, /) -> None:
        """Like `socket.connect`.

        Raises:
            TimeoutError: the timeout expired.
            OSError: the connection cannot be made.
        """
        error = self._connect(address)
        if error:
            raise OSError(error, os.strerror(error))

    def connect_ex(self, address: Any, /) -> int:
        """Like `socket.connect_ex`."""
        try:
            return self._connect(address)
        except TimeoutError:
            return EWOULDBLOCK

    def _connect(self, address: Any) -> int:
        """Connect, and return the error number; 0 means success."""
        address = self._resolved(address)
        left = Countdown(self._timeout_s)
        error = super().connect_ex(address)
        while error == EAGAIN and self._timeout_s != 0.0 and self.family == _stock.AF_UNIX:
            # The backlog is full. The kernel reports free room only to callers that block in connect(2) (unix(7)).
            _pause(left)
            error = super().connect_ex(address)
        if error != EINPROGRESS or self._timeout_s == 0.0:
            return error
        # A local peer may be connected already. Otherwise wait: the peer may be a coroutine in this thread.
        while not _is_ready(self, _select.POLLOUT):
            _native.green_wait(self, True, left.seconds())
        return self.getsockopt(_stock.SOL_SOCKET, _stock.SO_ERROR)

    def _resolved(self, address: Any) -> Any:
        """Return the address with the host name replaced by an IP address. The lookup does not block the event loop."""
        if self.family not in (_stock.AF_INET, _stock.AF_INET6) or not isinstance(address, tuple) or len(address) < 2:
            return address
        host = address[0]
        if not isinstance(host, str) or not host or host == "<broadcast>" or is_numeric(host):
            return address
        if not isinstance(address[1], int) or not 0 <= address[1] <= 65_535:
            return address  # the standard library's method raises the error
        found = getaddrinfo(host, address[1], self.family, self.type, self.proto)
        sockaddr = found[0][4]
        return sockaddr if len(address) == 2 else (sockaddr[0], *address[1:])

    def accept(self) -> tuple[Any, Any]:
        """Like `socket.accept`."""
        number, address = self._persist(False, 0, super()._accept)  # type: ignore[misc]
        return socket(self.family, self.type, self.proto, fileno=number), address

    def _real_close(self, *args: Any) -> None:
        # `close()` calls this once the last file object made from the socket is closed.
        _end_waits(self)
        super()._real_close(*args)  # type: ignore[misc]

    def detach(self) -> int:
        """Like `socket.detach`. The descriptor stays in non-blocking mode."""
        _end_waits(self)
        return super().detach()


def _end_waits(sock: Any) -> None:
    """End what this OS thread's green threads wait for on a socket that is about to be closed, also by its number."""
    cancel_wait(sock)
    if sock.fileno() >= 0:
        note_closing(sock.fileno())


def _import(name: str, *args: Any) -> Any:
    return _selectors if name == "selectors" else __import__(name, *args)


_green = {
    **_originals,
    "selectors": _selectors,
    # Python 3.14 and later import selectors inside the function.
    "__builtins__": {**vars(builtins), "__import__": _import},
}
for _name in ("_sendfile_use_sendfile", "_sendfile_zerocopy"):
    # The code of the running Python version, but with selectors that let other green threads run.
    if hasattr(_stock.socket, _name):
        setattr(socket, _name, rebound(getattr(_stock.socket, _name), _green))


# -- waiting -----------------------------------------------------------------------------------------


def wait_read(sock: Any, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until a socket is readable.

    Args:
        sock: a socket, a file descriptor, or an object with `fileno()`.
        timeout: the maximum time in seconds; None means no limit.
        timeout_exc: the exception or exception class to raise when the timeout expires.

    Raises:
        TimeoutError: the timeout expired and there is no `timeout_exc`.
        OSError: the descriptor is closed.
    """
    _wait_ready(sock, _select.POLLIN, timeout, timeout_exc)


def wait_write(sock: Any, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until a socket is writable. The arguments and exceptions are those of `wait_read`."""
    _wait_ready(sock, _select.POLLOUT, timeout, timeout_exc)


def wait_readwrite(sock: Any, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until a socket is readable or writable. The arguments and exceptions are those of `wait_read`."""
    _wait_ready(sock, _select.POLLIN | _select.POLLOUT, timeout, timeout_exc)


def _pause(left: Countdown) -> None:
    """Wait before another attempt of a call that the kernel will not report as possible."""
    seconds = left.seconds()
    if seconds == 0.0:
        raise TimeoutError("timed out")
    sleep(_FULL_BACKLOG_PAUSE_S if seconds is None else min(seconds, _FULL_BACKLOG_PAUSE_S))


def _is_ready(sock: Any, mask: int) -> bool:
    polled = _poll()
    polled.register(sock, mask)
    found = polled.poll(0)
    if found and found[0][1] & _select.POLLNVAL:
        raise OSError(EBADF, os.strerror(EBADF))
    return bool(found)


def _wait_ready(sock: Any, mask: int, timeout: float | None, timeout_exc: Any) -> None:
    try:
        # The loop reports changes only. Ask the kernel whether the socket is ready already.
        if _is_ready(sock, mask):
            return
        if isinstance(sock, _stock.socket) and mask in (_select.POLLIN, _select.POLLOUT):
            _native.green_wait(sock, mask == _select.POLLOUT, timeout)
        elif wait_for_any({sock if isinstance(sock, int) else sock.fileno(): mask}, timeout) is None:
            raise TimeoutError("timed out")
    except TimeoutError:
        if timeout_exc is None:
            raise
        raise timeout_exc from None


def cancel_wait(sock: Any, error: type[BaseException] | BaseException = cancel_wait_ex) -> None:
    """Raise an exception in the green threads of this thread's hub that wait for a socket."""
    if has_hub() and sock.fileno() >= 0:
        _native.green_cancel_wait(sock, error() if isinstance(error, type) else error)


# -- names -------------------------------------------------------------------------------------------


def getaddrinfo(
    host: Any,
    port: Any,
    family: int = 0,
    type: int = 0,  # noqa: A002 - its name
    proto: int = 0,
    flags: int = 0,
) -> Any:
    """Like `socket.getaddrinfo`, with the hub's resolver."""
    return resolver_here().getaddrinfo(host, port, family, type, proto, flags)


def getnameinfo(sockaddr: Any, flags: int, /) -> tuple[str, str]:
    """Like `socket.getnameinfo`, with the hub's resolver."""
    return resolver_here().getnameinfo(sockaddr, flags)


def gethostbyname(hostname: str, /) -> str:
    """Like `socket.gethostbyname`, with the hub's resolver."""
    return resolver_here().gethostbyname(hostname)


def gethostbyname_ex(hostname: str, /) -> tuple[str, list[str], list[str]]:
    """Like `socket.gethostbyname_ex`, with the hub's resolver."""
    return resolver_here().gethostbyname_ex(hostname)


def gethostbyaddr(ip_address: str, /) -> tuple[str, list[str], list[str]]:
    """Like `socket.gethostbyaddr`, with the hub's resolver."""
    return resolver_here().gethostbyaddr(ip_address)


# -- standard library functions, rebuilt on these -----------------------------------------------------

_names: dict[str, Any] = {**_originals, **{name: globals()[name] for name in __implements__}}


def _rebuilt(name: str) -> Any:
    _names[name] = rebound(_originals[name], _names)
    return _names[name]


fromfd: Any = _rebuilt("fromfd")
socketpair: Any = _rebuilt("socketpair")
getfqdn: Any = _rebuilt("getfqdn")
create_connection: Any = _rebuilt("create_connection")
has_dualstack_ipv6: Any = _rebuilt("has_dualstack_ipv6")
create_server: Any = _rebuilt("create_server")

__all__ = list(_stock.__all__)
__all__ += ["cancel_wait", "wait_read", "wait_readwrite", "wait_write"]


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
