"""`CopyProtocol`: the protocol of a transport while a file is read and written to it.

It stands in front of the program's protocol only to notice when the transport takes more, and passes everything on.
The program's protocol is therefore always told what is true of the transport, and nothing has to be made up for at the
end. asyncio's `_SendfileFallbackProtocol` passes on neither data nor the pauses of writing: it resumes the protocol at
the end although the transport is paused, fails if the program resumes reading, and if two files are sent at once, the
first that ends takes the other's protocol away, which then waits for ever.

It knows any transport with asyncio's flow control, not only those of `oneloop`.
"""

from __future__ import annotations

import asyncio
from asyncio import transports
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Buffer


class ReadingPause:
    """The transport does not read, until `end`."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._was_reading = transport.is_reading()
        if self._was_reading:
            transport.pause_reading()
        # Transports of other packages do not count.
        self._count: int | None = getattr(transport, "_pauses", None)

    def end(self) -> None:
        """Let the transport read again, if it did before and the program has not paused it since."""
        if self._was_reading and getattr(self._transport, "_pauses", None) == self._count:
            self._transport.resume_reading()


class CopyProtocol(asyncio.Protocol):
    """Install it with `hold`, write after `drain`, and give the transport back with `give_back`."""

    def __init__(self, transport: Any, protocol: Any) -> None:
        self._transport = transport
        self._next = protocol
        self._pause = ReadingPause(transport)
        self._is_paused = transport._protocol_paused
        self._is_lost = False
        self._error: Exception | None = None
        # Of `drain`, if it waits.
        self._changed: asyncio.Future[None] | None = None

    @classmethod
    def hold(cls, transport: Any) -> CopyProtocol:
        """Pause reading and stand in front of the transport's protocol.

        Raises:
            TypeError: the transport has no flow control.
        """
        if not isinstance(transport, transports._FlowControlMixin):
            raise TypeError("transport should be _FlowControlMixin instance")
        protocol: Any = transport.get_protocol()
        kind = _BufferedCopyProtocol if isinstance(protocol, asyncio.BufferedProtocol) else cls
        made = kind(transport, protocol)
        transport.set_protocol(made)
        return made

    async def drain(self) -> None:
        """Wait until the transport takes more.

        Raises:
            OSError: the connection was lost, or the transport is closing.
        """
        while True:
            if self._is_lost:
                raise self._error or ConnectionError("Connection is closed by peer")
            if self._transport.is_closing():
                raise ConnectionError("Connection closed by peer")
            if not self._is_paused:
                return
            changed: asyncio.Future[None] = self._transport._loop.create_future()
            self._changed = changed
            try:
                await changed
            finally:
                self._changed = None

    def give_back(self) -> None:
        """Leave the transport, which reads again if it did before."""
        above = self._transport.get_protocol()
        if above is self:
            self._transport.set_protocol(self._next)
        # Another file is being sent too, or the program has set another protocol.
        while isinstance(above, CopyProtocol):
            if above._next is self:
                above._next = self._next
            above = above._next
        self._pause.end()

    def _change(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Fail: it has been made."""
        raise RuntimeError("Invalid state: connection should have been established already.")

    def pause_writing(self) -> None:
        """Note it and pass it on."""
        self._is_paused = True
        self._next.pause_writing()

    def resume_writing(self) -> None:
        """Note it and pass it on."""
        self._is_paused = False
        self._change()
        self._next.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note it and pass it on."""
        self._is_lost, self._error = True, exc
        self._change()
        self._next.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass it on: the program has resumed reading."""
        self._next.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._next.eof_received()  # type: ignore[no-any-return]


class _BufferedCopyProtocol(CopyProtocol, asyncio.BufferedProtocol):
    """The same for a protocol that provides the buffers."""

    def get_buffer(self, sizehint: int) -> Buffer:
        return self._next.get_buffer(sizehint)  # type: ignore[no-any-return]

    def buffer_updated(self, nbytes: int) -> None:
        self._next.buffer_updated(nbytes)
