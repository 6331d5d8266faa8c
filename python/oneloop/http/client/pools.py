"""`Pool`: the connections of a client on one loop. Its limits and queues are native; this opens connections."""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from oneloop._native import ClientConnection, ClientOrigin, ClientPool
from oneloop.http.client.errors import ConnectError, PrivateAddress, TransportError
from oneloop.http.client.openings import GIVEN_UP, Opening
from oneloop.http.client.protocols import NEVER
from oneloop.http.client.resolving import Resolver
from oneloop.http.client.routes import Route
from oneloop.waiting import wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.http.client.settings import Limits
    from oneloop.loop import Loop

__all__ = ["CLOSING_TICKS", "Pool", "counters_of"]

CLOSING_TICKS = 8
"""So many ticks after `close` all connections are closed."""


_all: set[weakref.ref[Pool]] = set()


def counters_of(loop: Loop) -> dict[str, int] | None:
    """Return the sums of the counters of the pools on a loop, from any thread; None if there are none."""
    sums: dict[str, int] | None = None
    # The set is copied in one step: other threads may change it meanwhile.
    for pool in [place() for place in set(_all)]:
        if pool is not None and pool.loop is loop:
            counts = pool.counters()
            sums = counts if sums is None else {name: sums[name] + counts[name] for name in counts}
    return sums


class _Attempt:
    """A task that opens a connection, as far as the pool must know it."""

    __slots__ = ("is_given_back", "task")

    def __init__(self) -> None:
        # Once it has begun.
        self.task: asyncio.Task[Any] | None = None
        # An exception came in between, and the native core has given the place to others.
        self.is_given_back = False


class Pool:
    """The connections of a client on one loop.

    Args:
        loop: the loop.
        limits: how many connections there may be.
        tls: returns the context for https, from when HTTP/2 is spoken.
        local_address: the address to connect from; None: the system's choice.
        dns_cache_s: how long the addresses of a name are kept, in seconds.
        blocks_private: refuse to connect to addresses outside of the public Internet.
    """

    def __init__(
        self,
        loop: Loop,
        limits: Limits,
        tls: Callable[[int], Any],
        local_address: str | None = None,
        dns_cache_s: float = 0.0,
        blocks_private: bool = False,
    ) -> None:
        self.loop = loop
        self.tls = tls
        self.local_address = local_address
        self.resolver = Resolver(loop, dns_cache_s, blocks_private)
        self._openings: set[asyncio.Task[None] | Opening] = set()
        # Those that somebody uses: a connection, an exchange, or who knows their requests.
        self._origins: weakref.WeakValueDictionary[Route, ClientOrigin] = weakref.WeakValueDictionary()
        self.native = ClientPool(
            loop,
            self._start_opening,
            limits.max_connections,
            limits.max_connections_per_origin,
            limits.max_keepalive_connections,
            limits.keepalive_expiry,
        )
        self._place: weakref.ref[Pool] = weakref.ref(self, _all.discard)
        _all.add(self._place)

    def origin(self, route: Route) -> ClientOrigin:
        """Return the connections of a route."""
        origin = self._origins.get(route)
        if origin is None:
            origin = self._origins[route] = ClientOrigin(
                self.native, route, NEVER if route.is_forwarded else route.http2
            )
        return origin

    def counters(self) -> dict[str, int]:
        """Return `open`, `idle` and `waiting` as they are now; `opened`, `requests` and `repeated` in all."""
        return {**self.native.counters(), "waiting": self.waiting}

    @property
    def waiting(self) -> int:
        """How many requests wait for a connection."""
        # In one step: in another thread a new one may come meanwhile.
        origins = [origin() for origin in self._origins.valuerefs()]
        return sum(origin.waiting for origin in origins if origin is not None)

    def _start_opening(self, origin: ClientOrigin, exchange: Any) -> asyncio.Task[None] | Opening | BaseException:
        """Begin to open a connection. Returns what can be cancelled if nobody wants it any more.

        What it raises, such as KeyboardInterrupt, makes the native core give the connection's place back. What is
        raised when the place is taken already, or given back, by a run of the loop within a signal handler, is
        returned.
        """
        route: Route = origin.route
        addresses = None
        if route.is_direct(exchange.wishes):
            # What is not allowed is said by the task.
            with suppress(OSError, PrivateAddress):
                addresses = self.resolver.at_once(route.host, route.port)
        if addresses is not None and len(addresses) == 1:
            opening = Opening(self, origin, exchange, addresses[0])
            try:
                self._openings.add(opening)
                opening.start()
                return opening
            except BaseException as error:
                if not opening.end():
                    return error
                raise
        attempt = _Attempt()

        def ended(task: asyncio.Task[None]) -> None:
            self._openings.discard(task)
            if attempt.task is None and not attempt.is_given_back:
                # Cancelled before its first step, by somebody who cancels all tasks.
                self._tell(origin, exchange, [], ConnectError(GIVEN_UP))

        try:
            task = self.loop.create_task(self._open(origin, exchange, attempt))
            self._openings.add(task)
            task.add_done_callback(ended)
            return task
        except BaseException as error:
            if attempt.task is not None:
                try:
                    attempt.task.cancel()
                except BaseException as second:  # noqa: BLE001 - of a handler behind the call; it is returned
                    return second
                return error
            attempt.is_given_back = True
            raise

    def opening_ended(self, opening: Opening) -> None:
        """Called by an opening."""
        self._openings.discard(opening)

    async def _open(self, origin: ClientOrigin, exchange: Any, attempt: _Attempt) -> None:
        attempt.task = asyncio.current_task()
        if attempt.is_given_back:
            return
        # What ends the task has this frame.
        del attempt
        route: Route = origin.route
        made: list[ClientConnection] = []

        def connection() -> ClientConnection:
            made.append(origin.new_connection(exchange))
            return made[-1]

        try:
            tls = self.tls(route.http2) if route.scheme == "https" else None
            await route.open(self.resolver, connection, tls, exchange.wishes, self.local_address)
        except Exception as error:
            is_told = self._tell(origin, exchange, made, error)
            if not is_told and not isinstance(error, OSError | TransportError):
                # A signal handler's, when the connection was there already. The loop is told.
                raise
        except BaseException:
            self._tell(origin, exchange, made, ConnectError(GIVEN_UP))
            raise
        for one in made:
            # One that failed before the one that did not.
            if not one.was_open:
                one.connection_lost(None)

    def _tell(self, origin: ClientOrigin, exchange: Any, made: list[ClientConnection], error: Exception) -> bool:
        """A connection could not be opened for an exchange. Returns False if it was open already."""
        # One that was open reports its own end. The others never had one to report.
        has_failed = not any(connection.was_open for connection in made)
        if has_failed:
            origin.opening_failed(exchange, error)
        for connection in made:
            if not connection.was_open:
                connection.connection_lost(None)
        return has_failed

    def close(self) -> None:
        """Close all connections. From another thread than that of the running loop, it only begins now."""
        ident = self.loop._thread_id
        if ident is not None and ident != threading.get_ident():
            with suppress(RuntimeError):  # closed meanwhile
                self.loop.call_soon_threadsafe(self.close)
            return
        _all.discard(self._place)
        if self.loop.is_closed():
            self._openings.clear()
            self._origins.clear()
            return
        connections = self.native.connections
        self.native.shut()
        # Requests that wait for a connection are told that the client was closed, before it is given up.
        for origin in list(self._origins.values()):
            origin.shut()
        for opening in list(self._openings):
            opening.cancel()
        self.resolver.close()
        if connections:
            self.loop.call_soon(self._end, connections, CLOSING_TICKS // 2)
        self._origins.clear()

    def _end(self, connections: list[ClientConnection], ticks: int) -> None:
        """After some ticks, end connections that are still open: TLS waits for the server's end."""
        if ticks:
            self.loop.call_soon(self._end, connections, ticks - 1)
            return
        for connection in connections:
            connection.drop_now()

    async def wait_closed(self) -> None:
        """Wait until connections that were being opened are given up, and the others closed."""
        tasks = [opening for opening in self._openings if isinstance(opening, asyncio.Task)]
        if tasks:
            await wait(tasks)
        for _ in range(CLOSING_TICKS):
            await asyncio.sleep(0)
