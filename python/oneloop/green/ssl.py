"""`ssl`: TLS over green sockets. The classes of the standard library, which let other green threads and coroutines run.

Names that are not defined here come from the standard library's module. Classes that need no descriptor (`MemoryBIO`,
`SSLObject`) are the standard library's own.
"""

from __future__ import annotations

import ssl as _stock
from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.green import socket as _socket
from oneloop.green.hub import Countdown
from oneloop.green.lock import Semaphore
from oneloop.green.socket import rebound
from oneloop.green.steps import wait_here

if TYPE_CHECKING:
    from collections.abc import Callable

__implements__ = ["SSLContext", "SSLSocket"]

_originals: dict[str, Any] = dict(vars(_stock))
"""The original names of the standard library's module, even if patching replaces them later."""

_READ = "The read operation timed out"
_WRITE = "The write operation timed out"
_HANDSHAKE = "The handshake operation timed out"


class SSLSocket(_stock.SSLSocket, _socket.socket):  # type: ignore[misc]
    """Like `ssl.SSLSocket`. Created by `SSLContext.wrap_socket`.

    One green thread may read while another writes. If several write, they take turns.
    """

    # The next base class is the green socket. So methods without TLS (connect, accept, data before the handshake) wait
    # as the green socket does.

    _sslobj: Any
    _check_connected: Any
    suppress_ragged_eofs: bool
    _writing: Semaphore | None = None
    """Held by the current writer: OpenSSL must finish a write that it has started before the next one."""

    _create: Any = classmethod(rebound(_stock.SSLSocket._create.__func__, _originals))  # type: ignore[attr-defined]

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - its name
        """Like `ssl.SSLSocket.read`.

        Raises:
            TimeoutError: the timeout expired.
            SSLWantReadError, SSLWantWriteError: the timeout is 0, and the call would have to wait.
        """
        sslobj = self._sslobj
        if sslobj is None:
            raise ValueError("Read on closed or unwrapped SSL socket.")
        args = (len,) if buffer is None else (len, buffer)
        try:
            return self._persist_tls(sslobj.read, args, _READ, self._timeout_s)
        except _stock.SSLError as error:
            if error.args[0] == _stock.SSL_ERROR_EOF and self.suppress_ragged_eofs:
                return b"" if buffer is None else 0
            raise

    def write(self, data: Any) -> int:
        """Like `ssl.SSLSocket.write`. Raises the same errors as `read`."""
        sslobj = self._sslobj
        if sslobj is None:
            raise ValueError("Write on closed or unwrapped SSL socket.")
        timeout_s = self._timeout_s
        if timeout_s == 0.0 or self._writing is None or not self._writing.locked():
            try:
                count: int = sslobj.write(data)
            except (_stock.SSLWantReadError, _stock.SSLWantWriteError):
                if timeout_s == 0.0:
                    raise
            else:
                return count
        end = Countdown(timeout_s)
        if self._writing is None:
            self._writing = Semaphore(1)
        if not wait_here(self._writing.acquire, timeout=timeout_s):
            raise TimeoutError(_WRITE)
        try:
            count = self._persist_tls(sslobj.write, (data,), _WRITE, timeout_s, end)
        finally:
            self._writing.release()
        return count

    def send(self, data: Any, flags: int = 0, timeout: Any = ...) -> int:
        """Like `ssl.SSLSocket.send`; `timeout` as in a plain socket. Raises the same errors as `read`."""
        if self._sslobj is None or timeout is not ...:
            return _socket.socket.send(self, data, flags, timeout)
        if flags:
            raise ValueError(f"non-zero flags not allowed in calls to send() on {self.__class__}")
        return self.write(data)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Like `ssl.SSLSocket.sendfile`."""
        if self._sslobj is None:
            return _socket.socket.sendfile(self, file, offset, count)
        sent: int = self._sendfile_use_send(file, offset, count)  # type: ignore[attr-defined]
        return sent

    def do_handshake(self, block: bool = False) -> None:
        """Like `ssl.SSLSocket.do_handshake`. Raises the same errors as `read`."""
        self._check_connected()
        timeout_s = None if block and self._timeout_s == 0.0 else self._timeout_s
        self._persist_tls(self._sslobj.do_handshake, (), _HANDSHAKE, timeout_s)

    def unwrap(self) -> Any:
        """Like `ssl.SSLSocket.unwrap`. Raises the same errors as `read`."""
        sslobj = self._sslobj
        if not sslobj:
            raise ValueError(f"No SSL wrapper around {self}")
        sock = self._persist_tls(sslobj.shutdown, (), _READ, self._timeout_s)
        self._sslobj = None
        return sock

    def _persist_tls(
        self,
        operation: Callable[..., Any],
        args: tuple[Any, ...],
        too_late: str,
        timeout_s: float | None,
        left: Countdown | None = None,
    ) -> Any:
        """Call an OpenSSL operation; call it again each time the socket may be ready."""
        while True:
            try:
                return operation(*args)
            except _stock.SSLWantReadError:
                if timeout_s == 0.0:
                    raise
                for_writing = False
            except _stock.SSLWantWriteError:
                if timeout_s == 0.0:
                    raise
                for_writing = True
            if left is None:
                left = Countdown(timeout_s)
            try:
                _native.green_wait(self, for_writing, left.seconds())
            except TimeoutError:
                raise TimeoutError(too_late) from None


_settings: dict[str, property] = {
    name: value
    for name, value in vars(_stock.SSLContext).items()
    if isinstance(value, property) and value.fset and "SSLContext" in value.fset.__code__.co_names
}
"""The properties whose setters in the standard library call the setter of `ssl.SSLContext`'s base class."""

_Behind: Any = type(
    "_Behind",
    (),
    {
        "__slots__": (),
        "__doc__": """The base class of our SSLContext. If that replaces `ssl.SSLContext`, the standard library's
        setters call this class; without it they would call themselves forever.""",
        **{name: getattr(_originals["_SSLContext"], name) for name in _settings},
    },
)


class SSLContext(_Behind, _stock.SSLContext):  # type: ignore[misc]
    """Like `ssl.SSLContext`. It creates green sockets."""

    sslsocket_class = SSLSocket


for _name, _setting in _settings.items():
    _set = rebound(_setting.fset, _originals) if _setting.fset else None
    setattr(SSLContext, _name, property(_setting.fget, _set, doc=_setting.__doc__))

__patched_attributes__ = [(_stock.SSLContext, "sslsocket_class", SSLSocket)]
"""Attributes that patching replaces in the standard library's classes, for contexts that exist already."""

_names = {
    **_originals,
    "SSLContext": SSLContext,
    "SSLSocket": SSLSocket,
    "create_connection": _socket.create_connection,
}
create_default_context: Any = rebound(_stock.create_default_context, _names)
_create_default_https_context = create_default_context
_create_unverified_context: Any = rebound(_stock._create_unverified_context, _names)
_create_stdlib_context = _create_unverified_context
_names["_create_stdlib_context"] = _names["_create_unverified_context"] = _create_unverified_context
get_server_certificate: Any = rebound(_stock.get_server_certificate, _names)
if hasattr(_stock, "wrap_socket"):  # until 3.11
    wrap_socket: Any = rebound(vars(_stock)["wrap_socket"], _names)

__all__ = [name for name in _originals if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
