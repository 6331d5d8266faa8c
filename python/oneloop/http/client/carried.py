"""`CarrierRoute`: how a `Carrier` opens connections: with attempts, socket options, and somebody who is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from oneloop.http.client.errors import ConnectError, ConnectTimeout
from oneloop.http.client.network_streams import OpenedStream
from oneloop.http.client.routes import Route, attach

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.http.client.resolving import Resolver
    from oneloop.http.client.tracing import Trace

__all__ = ["CarrierRoute", "Wishes"]

_FIRST_DELAY_S = 0.5


class Wishes:
    """What a traced request wants of its connection."""

    __slots__ = ("timeout_s", "trace")

    def __init__(self, timeout_s: float | None, trace: Trace) -> None:
        self.timeout_s = timeout_s
        self.trace = trace


@dataclass(frozen=True)
class CarrierRoute(Route):
    """One way to one origin.

    Attributes:
        shown_scheme: the program's scheme, which may be ws or wss.
        retries: how often it is tried again: at once, after 0.5 s, 1 s, 2 s…
        socket_options: arguments for `socket.setsockopt`.
        trace: of one opening.
        timeout_s: of one opening, for the trace.
    """

    shown_scheme: str = "http"
    retries: int = 0
    socket_options: tuple[tuple[Any, ...], ...] = ()
    trace: Trace | None = field(default=None, compare=False)
    timeout_s: float | None = field(default=None, compare=False)

    @property
    def is_forwarded(self) -> bool:
        """Requests go to the proxy itself, with the whole URL. WebSocket needs a tunnel."""
        return self.shown_scheme == "http" and super().is_forwarded

    @property
    def origin(self) -> str:
        """The origin as httpcore shows it."""
        return f"{self.shown_scheme}://{self.host}:{self.port}"

    def is_direct(self, wishes: Any) -> bool:
        """Whether a connection is nothing but one to the host; see `Route.is_direct`."""
        is_plain = not self.retries and not self.socket_options and not isinstance(wishes, Wishes)
        return is_plain and super().is_direct(wishes)

    async def open(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, resolver: Resolver, protocol: Callable[[], Any], tls: Any, wishes: Any, local_address: str | None
    ) -> None:
        """Open a connection; see `Route.open`. `wishes` is a time in seconds, None, or `Wishes`."""
        route: CarrierRoute = self
        if isinstance(wishes, Wishes):
            route = replace(self, trace=wishes.trace, timeout_s=wishes.timeout_s)
            wishes = wishes.timeout_s
        delay_s = 0.0
        for attempt in range(self.retries + 1):
            try:
                await super(CarrierRoute, route).open(resolver, protocol, tls, wishes, local_address)
                return
            except (ConnectError, ConnectTimeout):
                if attempt == self.retries:
                    raise
            await asyncio.sleep(delay_s)
            delay_s = 2 * delay_s or _FIRST_DELAY_S

    async def _open(self, resolver: Resolver, protocol: Callable[[], Any], tls: Any, local_address: str | None) -> None:
        loop = resolver.loop
        trace = self.trace
        if trace is None and not self.socket_options:
            await super()._open(resolver, protocol, tls, local_address)
            return
        if self.proxy is not None:
            assert trace is not None
            async with trace.phase("connection", "connect_tcp", {"host": self.proxy.host, "port": self.proxy.port}):
                await super()._open(resolver, protocol, tls, local_address)
            return
        transport = await self._connect(resolver, trace, local_address)
        try:
            secured = {"ssl": tls, "server_hostname": self.sni or self.host} if self.scheme == "https" else {}
            if not secured or trace is None:
                await attach(loop, transport, protocol, secured)
                return
            told = {"ssl_context": tls, "server_hostname": self.sni or self.host, "timeout": self.timeout_s}
            async with trace.phase("connection", "start_tls", told) as phase:
                phase.result = OpenedStream(await attach(loop, transport, protocol, secured))
        except BaseException:
            transport.abort()
            raise

    async def _connect(self, resolver: Resolver, trace: Trace | None, local_address: str | None) -> Any:
        if trace is None:
            return await self._transport(resolver, local_address)
        told: dict[str, Any] = {"timeout": self.timeout_s, "socket_options": self.socket_options or None}
        if self.uds is not None:
            name, told = "connect_unix_socket", {"path": self.uds, **told}
        else:
            name, told = "connect_tcp", {"host": self.host, "port": self.port, "local_address": local_address, **told}
        async with trace.phase("connection", name, told) as phase:
            transport = await self._transport(resolver, local_address)
            phase.result = OpenedStream(transport)
        return transport

    async def _transport(self, resolver: Resolver, local_address: str | None) -> Any:
        loop = resolver.loop
        if self.uds is not None:
            transport, _ = await loop.create_unix_connection(_Still, self.uds)
        else:
            sock = await self._dial(resolver, local_address, (self.host, self.port))
            transport, _ = await loop.create_connection(_Still, sock=sock)
        sock = transport.get_extra_info("socket")
        for option in self.socket_options:
            sock.setsockopt(*option)
        return transport


class _Still(asyncio.Protocol):
    """Holds a connection until its protocol is there."""

    def connection_made(self, transport: Any) -> None:
        transport.pause_reading()
