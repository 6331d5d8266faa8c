"""`Route`: how a connection to an origin is opened: directly, by a Unix socket, through a proxy."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oneloop.http.client.dialing import dial
from oneloop.http.client.errors import ConnectError, ConnectTimeout, TransportError
from oneloop.http.client.protocols import NEVER
from oneloop.http.client.proxies import Proxy, open_tunnel

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.http.client.resolving import Resolver
    from oneloop.loop import Loop

__all__ = ["Route", "attach"]


@dataclass(frozen=True)
class Route:
    """One way to one origin.

    Attributes:
        scheme: http or https.
        host: a name or an address.
        port: its port.
        proxy: None: directly.
        uds: the path of a Unix socket, in place of host and port.
        sni: the name for TLS; None: the host.
        http2: when HTTP/2 is spoken; see `protocols`.
        is_tunnelled: a proxy does not see the requests, also for http, such as those of a WebSocket (RFC 6455 section
            4.1).
    """

    scheme: str
    host: str
    port: int
    proxy: Proxy | None = None
    uds: str | None = None
    sni: str | None = None
    http2: int = NEVER
    is_tunnelled: bool = False

    @property
    def is_forwarded(self) -> bool:
        """Requests go to the proxy itself, with the whole URL."""
        return self.proxy is not None and self.scheme == "http" and self.proxy.is_http and not self.is_tunnelled

    def is_direct(self, wishes: Any) -> bool:
        """Whether a connection is nothing but one to the host: no proxy, and nobody is told of its steps."""
        return self.proxy is None and self.uds is None and 0 < self.port < 65536

    async def open(
        self,
        resolver: Resolver,
        protocol: Callable[[], Any],
        tls: Any,
        timeout_s: float | None,
        local_address: str | None,
    ) -> None:
        """Open a connection.

        Args:
            resolver: knows the addresses of names, and the loop.
            protocol: makes the client's protocol, which gets the connection.
            tls: the context for https.
            timeout_s: for all of it; None: no limit.
            local_address: the address to connect from.

        Raises:
            ConnectTimeout: it took too long.
            ConnectError: it failed.
            ProxyError: the proxy refused.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._open(resolver, protocol, tls, local_address)
        except Exception as error:  # noqa: BLE001 - another one may be raised
            raise self.failure(error, timeout_s)  # noqa: B904 - it has its cause

    def failure(self, error: Exception, timeout_s: float | None) -> Exception:
        """Return the client's exception for one of the attempt to connect."""
        made: Exception
        if isinstance(error, TransportError):
            return error
        if isinstance(error, TimeoutError):
            # connect(2) can time out by itself.
            text = f"no connection to {self._shown()} within {timeout_s} s" if timeout_s is not None else str(error)
            made = ConnectTimeout(text)
        elif isinstance(error, ssl.SSLError):
            made = ConnectError(str(error))
        elif isinstance(error, (OSError, ValueError, OverflowError)):
            # Those that are no OSError: a name or a port that cannot be one.
            made = ConnectError(str(error) or f"no connection to {self._shown()}")
        else:
            return error
        made.__cause__ = error
        return made

    async def _open(self, resolver: Resolver, protocol: Callable[[], Any], tls: Any, local_address: str | None) -> None:
        loop = resolver.loop
        secured: dict[str, Any] = {}
        if self.scheme == "https":
            secured = {"ssl": tls, "server_hostname": self.sni or self.host}
        if self.uds is not None:
            await loop.create_unix_connection(protocol, self.uds, **secured)
            return
        if self.proxy is not None:
            await self._open_by_proxy(resolver, protocol, secured)
            return
        sock = await self._dial(resolver, local_address, (self.host, self.port))
        await _put_on(loop, sock, protocol, secured)

    async def _dial(self, resolver: Resolver, local_address: str | None, where: tuple[str, int]) -> socket.socket:
        if not 0 < where[1] < 65536:
            raise OverflowError(f"there is no port {where[1]}")
        addresses = await resolver.addresses(*where)
        try:
            return await dial(resolver.loop, addresses, local_address)
        except OSError:
            resolver.forget(*where)
            raise

    async def _open_by_proxy(self, resolver: Resolver, protocol: Any, secured: dict[str, Any]) -> None:
        loop = resolver.loop
        # A name is resolved by the proxy; an address may be one that is not allowed.
        resolver.at_once(self.host, self.port)
        proxy = self.proxy
        assert proxy is not None
        # Not by `create_connection` from the name on: cancelled at some moments, it leaves its socket open.
        sock = await self._dial(resolver.of_proxies, None, (proxy.host, proxy.port))
        if self.is_forwarded:
            await _put_on(loop, sock, protocol, proxy.secured())
            return
        transport = await open_tunnel(loop, proxy, sock, self.host, self.port)
        try:
            await attach(loop, transport, protocol, secured)
        except BaseException:
            transport.abort()
            raise

    def _shown(self) -> str:
        if self.uds is not None:
            return self.uds
        where = f"{self.host}:{self.port}"
        return where if self.proxy is None else f"{where} through {self.proxy.host}:{self.proxy.port}"


async def _put_on(loop: Loop, sock: socket.socket, protocol: Callable[[], Any], secured: dict[str, Any]) -> None:
    """Put the client's protocol on a connected socket."""
    try:
        connection = protocol()
    except BaseException:
        sock.close()
        raise
    await loop.create_connection(lambda: connection, sock=sock, **secured)


async def attach(loop: Loop, transport: Any, protocol: Any, secured: dict[str, Any]) -> Any:
    """Put the client's protocol on a tunnel, with TLS in it for https. Returns the transport of the protocol."""
    connection = protocol()
    if secured:
        return await loop.start_tls(transport, connection, secured["ssl"], server_hostname=secured["server_hostname"])
    transport.set_protocol(connection)
    connection.connection_made(transport)
    transport.resume_reading()
    return transport
