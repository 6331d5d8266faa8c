"""`StreamServer` and `DatagramServer`: a green thread for each connection, and for each datagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.green import socket as _socket
from oneloop.green.baseserver import BaseServer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DatagramServer", "StreamServer"]


class StreamServer(BaseServer):
    """Calls `handle(socket, address)` in a green thread for each connection, and closes the socket afterwards."""

    backlog = 256
    """How many connections the kernel keeps that nobody has accepted."""
    reuse_addr = True
    """Listen on an address again whose connections are not forgotten yet."""

    def __init__(
        self,
        listener: Any,
        handle: Callable[[Any, Any], object] | None = None,
        backlog: int | None = None,
        spawn: Any = "default",
    ) -> None:
        if backlog is not None:
            if hasattr(listener, "accept"):
                raise TypeError("backlog must be None when a socket instance is passed")
            self.backlog = backlog
        super().__init__(listener, handle, spawn)

    @classmethod
    def get_listener(cls, address: Any, backlog: int | None = None, family: int | None = None) -> Any:
        """A listening socket on an address."""
        family = _socket.AF_INET if family is None else family
        sock = _socket.socket(family, _socket.SOCK_STREAM)
        try:
            if cls.reuse_addr and family != _socket.AF_UNIX:
                sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            sock.bind(address)
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


class DatagramServer(BaseServer):
    """Calls `handle(data, address)` in a green thread for each datagram."""

    reuse_addr = False
    """Share an address with other servers of this machine."""
    longest = 8192
    """Datagrams are cut to so many bytes."""

    @classmethod
    def get_listener(cls, address: Any, family: int | None = None) -> Any:
        """A bound socket on an address."""
        sock = _socket.socket(_socket.AF_INET if family is None else family, _socket.SOCK_DGRAM)
        try:
            if cls.reuse_addr:
                sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            sock.bind(address)
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
