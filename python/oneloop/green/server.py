"""`StreamServer` and `DatagramServer`: servers that run a green thread for each connection or datagram."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from oneloop.green import socket as _socket
from oneloop.green.baseserver import BaseServer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DatagramServer", "StreamServer"]


class StreamServer(BaseServer):
    """Calls `handle(socket, address)` in a green thread for each connection, and closes the socket afterwards.

    Args:
        listener: see `BaseServer`.
        handle: see `BaseServer`.
        backlog: the maximum number of connections that wait in the kernel to be accepted. Only if `listener` is an
            address.
        spawn: see `BaseServer`.
        ssl_args: if there are any, the server uses TLS and the handler gets a TLS socket. Pass `ssl_context`; or
            `keyfile`, `certfile`, `ca_certs`, `cert_reqs`, `ciphers` and `ssl_version` to create one. Other arguments,
            such as `do_handshake_on_connect`, are passed to its `wrap_socket`.
    """

    backlog = 256
    """The maximum number of connections that wait in the kernel to be accepted."""
    reuse_addr = True
    """Set SO_REUSEADDR: the address can be reused while old connections are in TIME_WAIT."""
    handshake_timeout: float | None = 60.0
    """The time limit of the TLS handshake, in seconds; None means no limit."""

    def __init__(
        self,
        listener: Any,
        handle: Callable[[Any, Any], object] | None = None,
        backlog: int | None = None,
        spawn: Any = "default",
        **ssl_args: Any,
    ) -> None:
        if backlog is not None:
            if hasattr(listener, "accept"):
                raise TypeError("backlog must be None when a socket instance is passed")
            self.backlog = backlog
        super().__init__(listener, handle, spawn)
        self.ssl_args: dict[str, Any] | None = None
        """The arguments for TLS sockets; None if the server does not use TLS."""
        if ssl_args:
            self._set_ssl(ssl_args)

    def _set_ssl(self, given: dict[str, Any]) -> None:
        context = given.pop("ssl_context", None)
        if context is None:
            context = _context(given)
        self.ssl_args = {"server_side": True, **given}
        self.wrap_socket: Callable[..., Any] = _wrapping(context)

    @property
    def ssl_enabled(self) -> bool:
        """Whether the server uses TLS."""
        return self.ssl_args is not None

    @classmethod
    def get_listener(cls, address: Any, backlog: int | None = None, family: int | None = None) -> Any:
        """Create a socket that listens on an address."""
        chosen: int = _socket.AF_INET if family is None else family
        sock = _socket.socket(chosen, _socket.SOCK_STREAM)
        try:
            if cls.reuse_addr and chosen != _socket.AF_UNIX:
                sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            _bind(sock, address)
            sock.listen(cls.backlog if backlog is None else backlog)
        except BaseException:
            sock.close()
            raise
        return sock

    def init_socket(self) -> None:
        if self.socket is None:
            self.socket = self.get_listener(self.address, self.backlog, self.family)

    def do_read(self) -> tuple[Any, ...]:
        connection, address = self.socket.accept()
        return connection, address

    def do_close(self, *args: Any) -> None:
        args[0].close()

    def _handle_closing(self, *args: Any) -> None:
        if self.ssl_args is None:
            super()._handle_closing(*args)
            return
        try:
            self.wrap_socket_and_handle(*args)
        finally:
            self.do_close(*args)

    def wrap_socket_and_handle(self, client_socket: Any, address: Any) -> None:
        """Call the handler with a TLS socket, in the connection's green thread.

        Raises:
            OSError: the handshake failed.
        """
        assert self.ssl_args is not None
        client_socket.settimeout(self.handshake_timeout)
        sock = self.wrap_socket(client_socket, **self.ssl_args)
        sock.settimeout(None)
        try:
            self._handle(sock, address)
        finally:
            sock.close()


class DatagramServer(BaseServer):
    """Calls `handle(data, address)` in a green thread for each datagram."""

    reuse_addr = False
    """Set SO_REUSEADDR: the address can be shared with other servers on this machine."""
    longest = 8192
    """The maximum size in bytes; longer datagrams are truncated."""

    @classmethod
    def get_listener(cls, address: Any, family: int | None = None) -> Any:
        """Create a socket that is bound to an address."""
        sock = _socket.socket(_socket.AF_INET if family is None else family, _socket.SOCK_DGRAM)
        try:
            if cls.reuse_addr:
                sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            _bind(sock, address)
        except BaseException:
            sock.close()
            raise
        return sock

    def init_socket(self) -> None:
        if self.socket is None:
            self.socket = self.get_listener(self.address, self.family)

    def do_read(self) -> tuple[Any, ...]:
        data, address = self.socket.recvfrom(self.longest)
        return data, address

    def sendto(self, *args: Any) -> int:
        """Send a datagram from the server's socket; see `socket.sendto`."""
        count: int = self.socket.sendto(*args)
        return count


def _bind(sock: Any, address: Any) -> None:
    try:
        sock.bind(address)
    except OSError as error:
        if error.strerror is not None:
            error.strerror = f"{error.strerror}: {address!r}"
        raise


def _wrapping(context: Any) -> Callable[..., Any]:
    """Return a function that creates green TLS sockets. With a standard library context, its own would block."""
    import ssl as stock

    from oneloop.green import ssl

    if not isinstance(context, stock.SSLContext) or issubclass(context.sslsocket_class, ssl.SSLSocket):
        wrap: Callable[..., Any] = context.wrap_socket
        return wrap
    return partial(ssl.SSLSocket._create, context=context)


def _context(given: dict[str, Any]) -> Any:
    """Create a context from the arguments of the former `ssl.wrap_socket`, and remove these from `given`."""
    from oneloop.green import ssl

    context = ssl.SSLContext(given.pop("ssl_version", ssl.PROTOCOL_TLS_SERVER))
    if "ciphers" in given:
        context.set_ciphers(given.pop("ciphers"))
    if "ca_certs" in given:
        context.load_verify_locations(given.pop("ca_certs"))
    if "cert_reqs" in given:
        context.verify_mode = given.pop("cert_reqs")
    certfile, keyfile = given.pop("certfile", None), given.pop("keyfile", None)
    if certfile is None:
        raise ValueError("a TLS server requires a certificate: pass certfile or ssl_context")
    context.load_cert_chain(certfile, keyfile)
    return context
