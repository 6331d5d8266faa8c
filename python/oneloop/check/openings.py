"""`Opener`: opens connections for the native client, measures the phases, and checks each address before connecting."""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from oneloop.addresses import address_of, is_public
from oneloop.check.descriptors import TooManyFilesError
from oneloop.check.failures import Failure, words_of
from oneloop.check.resolver import NameNotFoundError, Resolver
from oneloop.check.trust import context
from oneloop.http.client.dialing import dial
from oneloop.http.client.errors import TransportError
from oneloop.http.client.proxies import Proxy, open_tunnel
from oneloop.http.client.resolving import Resolver as SystemResolver
from oneloop.http.client.routes import attach

if TYPE_CHECKING:
    import socket

    from oneloop._native import ClientConnection, ClientOrigin
    from oneloop.check.options import Options
    from oneloop.check.phases import Phases
    from oneloop.loop import Loop

__all__ = ["Opener", "Times", "Way"]

_PROXY_KEPT_S = 10.0


class Way(NamedTuple):
    """Where the connections of an origin lead."""

    scheme: str
    host: str
    port: int


class Times(NamedTuple):
    """How long the phases of an opening took, in seconds."""

    dns_s: float | None
    connect_s: float | None
    tls_s: float | None


class Opener:
    """Called by the native pool when a request needs a new connection.

    Args:
        options: how to check.
        loop: the loop.
        resolver: resolves the names.
    """

    def __init__(self, options: Options, loop: Loop, resolver: Resolver) -> None:
        self._loop = loop
        self._resolver = resolver
        # For the proxy's name.
        self._system = SystemResolver(loop, _PROXY_KEPT_S, False)
        self._is_insecure = options.insecure
        self._blocks_private = options.block_private
        self.proxy = None if options.proxy is None else Proxy(options.proxy)
        self._tasks: set[asyncio.Task[None]] = set()
        self.opened: WeakKeyDictionary[ClientConnection, Times] = WeakKeyDictionary()
        """The times of connections that have carried no response yet."""
        self.certificate_ends: WeakKeyDictionary[ClientConnection, str] = WeakKeyDictionary()

    def __call__(self, origin: ClientOrigin, exchange: Any) -> None:
        """Begin to open a connection; an error ends the exchange."""
        task = self._loop.create_task(self._open(origin, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up the connections that are being opened."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        self._system.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self, origin: ClientOrigin, exchange: Any) -> None:
        phases: Phases = exchange.wishes
        connection: ClientConnection = origin.new_connection(exchange)
        try:
            async with asyncio.timeout_at(phases.deadline) as phases.timer:
                await self._connect(origin.route, phases, connection)
        except Exception as error:  # noqa: BLE001 - it is raised where the response is awaited
            self._tell(origin, exchange, connection, _failure(error, phases))
        except BaseException:
            self._tell(origin, exchange, connection, Failure("connect", "the connection is not opened any more"))
            raise

    def _tell(self, origin: ClientOrigin, exchange: Any, connection: ClientConnection, error: Exception) -> None:
        # A connection that was open reports its own end.
        if not connection.was_open:
            origin.opening_failed(exchange, error)
            connection.connection_lost(None)

    async def _connect(self, way: Way, phases: Phases, connection: ClientConnection) -> None:
        is_tls = way.scheme == "https"
        if self.proxy is None:
            sock = await self._dial(way, phases)
        else:
            phases.begin("connect")
            sock = None
        began = time.monotonic()

        def connected() -> Any:
            if is_tls:
                phases.begin("tls")
            return connection

        secured: dict[str, Any] = {}
        if is_tls:
            secured = {"ssl": context(self._is_insecure), "server_hostname": way.host.rstrip(".")}
        transport: Any
        if sock is not None:
            self.opened[connection] = Times(phases.dns_s, phases.connect_s, None)
            transport, _ = await self._loop.create_connection(connected, sock=sock, **secured)
        else:
            transport = await self._connect_by_proxy(way, connected, secured)
        if is_tls and connection.opened_s is not None:
            # Not the time by now: the request was sent in the same step, and its server's answer may be here.
            phases.tls_s = connection.opened_s - began
            self.opened[connection] = Times(phases.dns_s, phases.connect_s, phases.tls_s)
            end = _certificate_end(transport)
            if end is not None:
                self.certificate_ends[connection] = end

    async def _dial(self, way: Way, phases: Phases) -> socket.socket:
        addresses = await self._resolver.resolve(way.host, way.port, phases)
        phases.begin("connect")
        if self._blocks_private:
            # The addresses themselves: no name is resolved after this.
            public = [(family, where) for family, where in addresses if _is_public(where[0])]
            if not public:
                raise Failure("blocked", f"{addresses[-1][1][0]} is not a public address")
            addresses = public
        began = time.monotonic()
        sock = await dial(self._loop, addresses)
        phases.connect_s = time.monotonic() - began
        return sock

    async def _connect_by_proxy(self, way: Way, connected: Any, secured: dict[str, Any]) -> Any:
        proxy = self.proxy
        assert proxy is not None
        sock = await dial(self._loop, await self._system.addresses(proxy.host, proxy.port))
        if not secured:
            to_proxy: dict[str, Any] = {}
            if proxy.is_tls:
                to_proxy = {"ssl": context(self._is_insecure), "server_hostname": proxy.host}
            transport, _ = await self._loop.create_connection(connected, sock=sock, **to_proxy)
            return transport
        tunnel = await open_tunnel(self._loop, proxy, sock, way.host, way.port)
        try:
            return await attach(self._loop, tunnel, connected, secured)
        except BaseException:
            tunnel.abort()
            raise


def _failure(error: Exception, phases: Phases) -> Exception:
    """The error for the exchange."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return TooManyFilesError()
    made: Failure
    if isinstance(error, TimeoutError) and phases.timer is not None and phases.timer.expired():
        made = Failure("timeout", phases.said())
    elif phases.phase == "tls":
        made = Failure("tls", words_of(error))
    elif phases.phase == "dns" and isinstance(error, (OSError, ValueError)):
        made = Failure("dns", str(error.args[-1]), is_final=isinstance(error, NameNotFoundError))
    elif isinstance(error, ssl.SSLError):
        made = Failure("tls", words_of(error))
    elif isinstance(error, (OSError, ValueError, TransportError)):
        made = Failure("connect", words_of(error))
    else:
        return error
    made.__cause__ = error
    return made


def _is_public(text: str) -> bool:
    address = address_of(text)
    return address is not None and is_public(address)


def _certificate_end(transport: Any) -> str | None:
    certificate = transport.get_extra_info("peercert")
    if not certificate or "notAfter" not in certificate:
        return None
    end_s = ssl.cert_time_to_seconds(certificate["notAfter"])
    return datetime.fromtimestamp(end_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
