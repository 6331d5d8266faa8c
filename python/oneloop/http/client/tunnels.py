"""`Tunnel`: the bytes in both directions after a response that ended HTTP: 101, or 2xx to CONNECT.

It takes the transport over from the client's connection, which is only told when the transport is gone. Every wait may
time out, and the tunnel can be used afterwards.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from oneloop.http.client.errors import ConnectError, ConnectTimeout, ReadError, ReadTimeout, WriteError, WriteTimeout
from oneloop.waiting import wait

if TYPE_CHECKING:
    from oneloop.loop import Loop

__all__ = ["Tunnel"]

# Reading is paused when this much was received and not read.
_HIGH_BYTES = 256 * 1024


class Tunnel(asyncio.Protocol):
    """The tunnel of an exchange.

    Args:
        loop: the loop of the exchange.
        exchange: with a response that makes it a tunnel.
    """

    def __init__(self, loop: Loop, exchange: Any) -> None:
        self._loop = loop
        self._received = bytearray(exchange.take())
        self._is_over = self._is_full = self._is_paused = False
        # It may have failed already.
        self._error: Exception | None = exchange.error
        self._waiter: asyncio.Future[None] | None = None
        self._connection = exchange.protocol
        self._transport: Any = exchange.transport
        if self._transport is None or self._connection is None:
            self._is_over = True
        else:
            self._transport.set_protocol(self)
            self._limit_buffer()
            self._transport.resume_reading()

    def _limit_buffer(self) -> None:
        # What `write` has returned from is the kernel's: a connection that is closed then loses nothing of it.
        self._transport.set_write_buffer_limits(high=0)

    # -- the protocol ----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > _HIGH_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._is_over = True
        self._wake()
        # The program may still send.
        return self._transport.get_extra_info("ssl_object") is None

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._is_full = False
        self._error = exc
        self._wake()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        """Wait until something has happened: the caller looks whether it is what it waits for."""
        if self._waiter is not None:
            # Somebody else reads or writes.
            await wait([self._waiter])
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # -- for the program -------------------------------------------------------------------------

    async def read(self, most_bytes: int, timeout_s: float | None = None) -> bytes:
        """Return some bytes; b"" at the end.

        Raises:
            ReadTimeout: none came in time.
            ReadError: the connection failed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not self._received and not self._is_over:
                    await self._wait()
        except TimeoutError as error:
            raise ReadTimeout("the server did not send in time") from error
        if not self._received and self._error is not None:
            raise ReadError(str(self._error)) from self._error
        data = bytes(self._received[:most_bytes])
        del self._received[:most_bytes]
        if self._is_paused and len(self._received) <= _HIGH_BYTES // 2:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes, timeout_s: float | None = None) -> None:
        """Send bytes.

        Raises:
            WriteTimeout: the server did not read them in time.
            WriteError: the connection failed, or is closed.
        """
        if self._transport is None or self._transport.is_closing():
            raise WriteError("the connection is closed")
        self._transport.write(data)
        try:
            async with asyncio.timeout(timeout_s):
                while self._is_full:
                    await self._wait()
        except TimeoutError as error:
            raise WriteTimeout("the server did not read in time") from error
        if self._error is not None:
            raise WriteError(str(self._error)) from self._error

    async def start_tls(self, context: Any, server_hostname: str | None, timeout_s: float | None) -> None:
        """Continue in TLS.

        Raises:
            ConnectTimeout: the handshake took too long.
            ConnectError: it failed.
        """
        if self._received or self._is_over or self._transport is None:
            self.close()
            # Anybody on the way could have put them there, and it would look as if they came through TLS.
            why = "the other side sent bytes before TLS began" if self._received else "the connection is closed"
            raise ConnectError(why)
        self._transport.set_protocol(_Held(self))
        try:
            async with asyncio.timeout(timeout_s):
                self._transport = await self._loop.start_tls(
                    self._transport, self, context, server_hostname=server_hostname
                )
            if self._transport is None:
                # Closed by another one meanwhile.
                raise ConnectError("the connection is closed")
            self._limit_buffer()
        except BaseException as error:
            try:
                self.close()
            finally:
                # TLS does not tell a protocol that it has not begun with.
                self.connection_lost(None)
            if isinstance(error, TimeoutError):
                raise ConnectTimeout("the TLS handshake took too long") from error
            if isinstance(error, OSError):
                raise ConnectError(str(error)) from error
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort() if self._error else self._transport.close()

    def extra_info(self, name: str) -> Any:
        """Return what the transport knows; see `asyncio.BaseTransport.get_extra_info`."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    @property
    def is_readable(self) -> bool:
        """Whether `read` would return at once."""
        return bool(self._received) or self._is_over


class _Held(asyncio.Protocol):
    """The protocol of the transport below, if the handshake fails before TLS has taken it over."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    def connection_lost(self, exc: Exception | None) -> None:
        self._tunnel.connection_lost(exc)
