"""Classes for `isinstance()` checks of native transports, and the socket object that transports return.

A native type cannot inherit from asyncio's transport classes, so native transports return these
classes as their `__class__`. The classes are never instantiated.
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
    """TLS over a stream transport. Some programs look for "ssl" in the class name, as in asyncio's."""


# From Python 3.14 on, a TLS transport's is_closing() also checks the transport below it.
TLS_ASKS_BELOW = hasattr(sslproto.SSLProtocol, "_is_transport_closing")


class DatagramTransport(transports._FlowControlMixin, asyncio.Transport, asyncio.DatagramTransport):
    """A datagram socket. It is also a `Transport`, as in asyncio."""


class ReadPipeTransport(asyncio.ReadTransport):
    """The reading end of a pipe."""


class WritePipeTransport(transports._FlowControlMixin, asyncio.WriteTransport):
    """The writing end of a pipe."""


def send_gathered() -> None:
    """Send the data that the current callback has written and the loop has queued. Does nothing outside a loop."""
    loop: Any = events._get_running_loop()
    if isinstance(loop, _native.LoopCore):
        loop._send_gathered()


class TransportSocket(trsock.TransportSocket):
    """The socket of a transport, as `get_extra_info("socket")` returns it.

    Like asyncio's class, except that each method first sends the data that the program has written to the transport,
    so that it takes effect after that data.
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
