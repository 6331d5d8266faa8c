"""`AsyncHttpxTransport` and `HttpxTransport`: httpx and httpx2 on the native client, as their `transport` argument.

Differences from their own transports are those of `oneloop.compat.httpcore`. They do not work with trio.
"""

from __future__ import annotations

from asyncio.events import _get_running_loop
from typing import TYPE_CHECKING, Any, Self

from oneloop.http.client.callers import Callers, PlainCaller, caller_of_here, watch_end
from oneloop.http.client.carrier import Carrier, Place
from oneloop.http.client.httpx_kinds import kind_of
from oneloop.http.client.protocols import http2_of
from oneloop.http.client.proxies import Proxy
from oneloop.http.client.settings import DEFAULT_LIMITS, Limits
from oneloop.http.client.trust import context_for, needs_files

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["AsyncHttpxTransport", "HttpxTransport"]


class _Transport:
    """What both have in common: the settings."""

    def __init__(
        self,
        verify: Any = True,
        cert: Any = None,
        trust_env: bool = True,
        http1: bool = True,
        http2: bool = False,
        limits: Any = DEFAULT_LIMITS,
        proxy: Any = None,
        uds: str | None = None,
        local_address: str | None = None,
        retries: int = 0,
        socket_options: Iterable[tuple[Any, ...]] | None = None,
    ) -> None:
        made: list[Any] = []

        spoken = http2_of(http1, http2)

        def tls(http2: int) -> Any:
            if not made:
                made.append(context_for(verify, cert, http2))
            return made[0]

        if needs_files(verify, cert):
            tls(spoken)
        chosen = _proxy(proxy)
        fields = [] if chosen is None else [(name.encode(), value.encode()) for name, value in chosen.fields()]
        self._carrier = Carrier(
            tls=tls,
            limits=_limits(limits),
            proxy=chosen,
            proxy_fields=fields,
            retries=retries,
            local_address=local_address,
            uds=uds,
            socket_options=socket_options,
            http2=spoken,
        )

    def statistics(self) -> dict[str, int]:
        """Return counters: `open` and `idle` connections now; `opened`, `requests` and `repeated` in all."""
        sums: dict[str, int] = dict.fromkeys(("open", "idle", "opened", "requests", "repeated"), 0)
        for place in self._carrier.places():
            for name, count in place.pool.native.counters().items():
                sums[name] += count
        return sums


class AsyncHttpxTransport(_Transport):
    """A transport for `httpx.AsyncClient` and `httpx2.AsyncClient` on a oneloop loop.

    `httpx.AsyncClient(transport=AsyncHttpxTransport())`; with `mounts`, it serves some URLs only.

    Args:
        verify: True: the system's certificate authorities; False: no check; a path; or a context.
        cert: a client certificate: a path, or (path, key), or (path, key, password).
        trust_env: has no effect; httpx's argument.
        http1: speak HTTP/1.1.
        http2: speak HTTP/2 if the server agrees in the TLS handshake; without `http1`, always.
        limits: `httpx.Limits`, or `oneloop.http.Limits`.
        proxy: a URL, `httpx.Proxy`, or `oneloop.http.Proxy`.
        uds: the path of a Unix socket for all connections.
        local_address: the address to connect from.
        retries: how often a connection that cannot be opened is tried again.
        socket_options: arguments for `socket.setsockopt`.
    """

    _place: Place | None = None

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request. Returns the response when its head has arrived.

        Raises:
            RuntimeError: the loop is not oneloop's.
            TypeError: it is not a request of httpx or httpx2.
        """
        place = self._place
        if place is None or place.loop is not _get_running_loop() or place.pool.native.is_shut:
            place = self._place = self._carrier.place(caller_of_here().loop)
        return await kind_of(request).of_coroutine(self._carrier, place, request)

    async def aclose(self) -> None:
        """Close all connections."""
        here = _get_running_loop()
        for pool in self._carrier.close():
            if pool.loop is here:
                await pool.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class HttpxTransport(_Transport):
    """A transport for `httpx.Client` and `httpx2.Client` in green threads and in plain code.

    The arguments are those of `AsyncHttpxTransport`. In plain code each thread has its own connections.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._callers = Callers()

    def handle_request(self, request: Any) -> Any:
        """Send a request. Returns the response when its head has arrived.

        Raises:
            TypeError: it is not a request of httpx or httpx2.
        """
        caller = self._callers.here()
        place = self._carrier.place(caller.loop)
        if isinstance(caller, PlainCaller):
            watch_end(caller, self._carrier.forget)
        return caller.run(kind_of(request).of_caller(self._carrier, place, caller, request))

    def close(self) -> None:
        """Close all connections."""
        self._callers.finish(self._carrier.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _limits(given: Any) -> Limits:
    if isinstance(given, Limits):
        return given
    # Those of httpx have no limit for an origin.
    return Limits(given.max_connections, given.max_keepalive_connections, given.keepalive_expiry)


def _proxy(given: Any) -> Proxy | None:
    if given is None or isinstance(given, Proxy):
        return given
    if hasattr(given, "raw_auth"):
        return Proxy(
            str(given.url), auth=given.auth, headers=given.headers.multi_items(), ssl_context=given.ssl_context
        )
    return Proxy(str(given))
