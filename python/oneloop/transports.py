"""What `isinstance()` sees of the native transports, and the socket that they show to programs.

A native layout cannot have asyncio's transports as base classes, so that the native types present
these classes as their `__class__`. They are never instantiated.
"""

from __future__ import annotations

import asyncio
from asyncio import events, sslproto, transports, trsock
from typing import TYPE_CHECKING, Any

from oneloop import _native

if TYPE_CHECKING:
    import socket


class StreamTransport(transports._FlowControlMixin, asyncio.Transport):
    """A connected TCP or Unix socket."""


class SSLProtocolTransport(sslproto._SSLProtocolTransport):
    """TLS over a stream transport. Programs look for "ssl" in the name of the class."""


# Python 3.14: a TLS transport is closing when the one below is.
TLS_ASKS_BELOW = hasattr(sslproto.SSLProtocol, "_is_transport_closing")


class DatagramTransport(transports._FlowControlMixin, asyncio.Transport, asyncio.DatagramTransport):
    """A datagram socket. Also a `Transport`, as asyncio's own is."""


class ReadPipeTransport(asyncio.ReadTransport):
    """The reading end of a pipe."""


class WritePipeTransport(transports._FlowControlMixin, asyncio.WriteTransport):
    """The writing end of a pipe."""


def send_gathered() -> None:
    """Send what the callback that is running has written and the loop has gathered; nothing where no loop runs."""
    loop: Any = events._get_running_loop()
    if isinstance(loop, _native.LoopCore):
        loop._send_gathered()


class TransportSocket(trsock.TransportSocket):
    """The socket of a transport, as `get_extra_info("socket")` gives it.

    asyncio's class; what a program does to the socket comes after what it has written before.
    """

    __slots__ = ()

    def fileno(self) -> int:
        send_gathered()
        return super().fileno()

    def dup(self) -> socket.socket:
        send_gathered()
        return super().dup()

    def shutdown(self, how: int) -> None:
        send_gathered()
        super().shutdown(how)

    def setsockopt(self, *args: Any, **kwargs: Any) -> None:
        send_gathered()
        super().setsockopt(*args, **kwargs)
