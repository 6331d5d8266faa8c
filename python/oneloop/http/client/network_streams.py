"""`network_stream` of httpcore and httpx: what a response's extensions know about its connection, and a tunnel's bytes.

The tunnel takes the connection over with the first read or write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.http.client.errors import TransportError
from oneloop.http.client.tunnels import Tunnel

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from oneloop.http.client.callers import Caller
    from oneloop.loop import Loop

__all__ = ["AsyncStream", "OpenedStream", "SyncStream"]

# httpcore's name -> asyncio's.
_INFORMATION = {
    "client_addr": "sockname",
    "server_addr": "peername",
    "socket": "socket",
    "ssl_object": "ssl_object",
}


class OpenedStream:
    """A connection that was just opened, for those who are told of it."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def get_extra_info(self, info: str) -> Any:
        """Return `client_addr`, `server_addr`, `socket` or `ssl_object`; None for other names."""
        name = _INFORMATION.get(info)
        return None if name is None else self._transport.get_extra_info(name)


class _Stream:
    """What both kinds have in common."""

    # Has a method `error`, which returns the package's exception for one of ours.
    _package: Any
    _exchange: Any
    _loop: Loop
    _tunnel: Tunnel | None = None

    def _taken(self) -> Tunnel:
        if self._tunnel is None:
            if not self._exchange.is_tunnel:
                raise RuntimeError("the answer is HTTP: read it from the response")
            self._tunnel = Tunnel(self._loop, self._exchange)
        return self._tunnel

    def _leave(self) -> None:
        """The response was closed by the program."""
        if self._tunnel is not None:
            self._tunnel.close()

    def _end(self) -> None:
        if self._tunnel is not None:
            self._tunnel.close()
        else:
            self._exchange.close()

    def get_extra_info(self, info: str) -> Any:
        """Return `client_addr`, `server_addr`, `socket`, `ssl_object` or `is_readable`; None for other names."""
        if info == "is_readable":
            return self._tunnel.is_readable if self._tunnel is not None else self._exchange.transport is None
        name = _INFORMATION.get(info)
        if name is None:
            return None
        if self._tunnel is not None:
            return self._tunnel.extra_info(name)
        transport = self._exchange.transport
        return None if transport is None else transport.get_extra_info(name)


class AsyncStream(_Stream):
    """The `network_stream` for coroutines."""

    def __init__(self, exchange: Any, loop: Loop) -> None:
        self._exchange = exchange
        self._loop = loop

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return some bytes; b"" at the end."""
        try:
            return await self._taken().read(max_bytes, timeout)
        except TransportError as error:
            raise self._package.error(error) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes."""
        if not buffer:
            return
        try:
            await self._taken().write(buffer, timeout)
        except TransportError as error:
            raise self._package.error(error) from error

    async def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncStream:
        """Continue in TLS. Returns itself."""
        try:
            await self._taken().start_tls(ssl_context, server_hostname, timeout)
        except TransportError as error:
            raise self._package.error(error) from error
        return self

    async def aclose(self) -> None:
        """Close the connection."""
        self._end()


class SyncStream(_Stream):
    """The `network_stream` for green threads and plain code."""

    def __init__(self, exchange: Any, caller: Caller) -> None:
        self._exchange = exchange
        self._caller = caller

    @property
    def _loop(self) -> Loop:  # type: ignore[override]
        return self._caller.loop

    def _run(self, steps: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._caller.run_task(steps)
        except TransportError as error:
            self._caller.let_end()
            raise self._package.error(error) from error

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return some bytes; b"" at the end."""
        data: bytes = self._run(self._taken().read(max_bytes, timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes."""
        if buffer:
            self._run(self._taken().write(buffer, timeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> SyncStream:
        """Continue in TLS. Returns itself."""
        self._run(self._taken().start_tls(ssl_context, server_hostname, timeout))
        return self

    def close(self) -> None:
        """Close the connection."""
        self._end()
        self._caller.let_end()
