"""`Opening`: a connection to an address that needs no lookup, opened without a task."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from oneloop._native import StreamTransport
from oneloop.http.client.dialing import begin, raise_failure
from oneloop.http.client.errors import ConnectError

if TYPE_CHECKING:
    import asyncio

    from oneloop._native import ClientConnection, ClientOrigin
    from oneloop.http.client.pools import Pool
    from oneloop.http.client.resolving import Address
    from oneloop.http.client.routes import Route

__all__ = ["GIVEN_UP", "Opening"]

GIVEN_UP = "the connection is not opened any more"


class Opening:
    """A direct connection, from its beginning until it belongs to an origin.

    Args:
        pool: of the connection.
        origin: what it leads to.
        exchange: fails with it.
        address: where to connect to.
    """

    def __init__(self, pool: Pool, origin: ClientOrigin, exchange: Any, address: Address) -> None:
        self._pool = pool
        self._origin = origin
        self._exchange = exchange
        self._address = address
        self._connection: ClientConnection | None = None
        self._sock: socket.socket | None = None
        self._transport: Any = None
        # Nothing is left to tell: it has succeeded, has failed, or the native core gives its place back.
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to connect. A failure is told in the next tick."""
        loop = self._pool.loop
        timeout_s = self._exchange.wishes
        if timeout_s is not None:
            # One that is no number is an error, also where it is not needed.
            timeout_s = max(timeout_s, 0.0)
        try:
            sock, is_connected = begin(self._address, self._pool.local_address)
        except Exception as error:  # noqa: BLE001 - it is raised where the request is awaited
            loop.call_soon(self._fail, error)
            return
        self._sock = sock
        route: Route = self._origin.route
        # A connection that is there needs no time, but for TLS.
        if timeout_s is not None and not (is_connected and route.scheme == "http"):
            self._timer = loop.call_later(timeout_s, self._fail, TimeoutError())
        if is_connected:
            loop.call_soon(self._connected)
        else:
            loop.add_writer(sock, self._writable)

    def _writable(self) -> None:
        try:
            sock = self._sock
            assert sock is not None
            self._pool.loop.remove_writer(sock)
            raise_failure(sock, self._address)
            self._connected()
        except OSError as error:
            self._fail(error)
        except BaseException:
            # Such as KeyboardInterrupt.
            self.cancel()
            raise

    def _connected(self) -> None:
        try:
            if self._is_over:
                return
            loop = self._pool.loop
            route: Route = self._origin.route
            tls = self._pool.tls(route.http2) if route.scheme == "https" else None
            connection = self._connection = self._origin.new_connection(self._exchange)
            sock = self._sock
            assert sock is not None
            if tls is None:
                # What the loop's hook for transports does after it has looked whether it is a TCP socket.
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # From now on the transport owns it.
                self._sock = None
                StreamTransport(loop, sock, connection)  # type: ignore[arg-type]  # a protocol without its class
            else:
                waiter = loop.create_future()
                self._sock = None
                self._transport = loop._make_ssl_transport(
                    sock, connection, tls, waiter, server_hostname=route.sni or route.host
                )
                waiter.add_done_callback(self._secured)
        except Exception as error:  # noqa: BLE001 - it is raised where the request is awaited
            self._fail(error)
        except BaseException:
            self.cancel()
            raise
        else:
            if tls is None:
                self._end()

    def _secured(self, waiter: asyncio.Future[Any]) -> None:
        if waiter.cancelled():
            return
        error = waiter.exception()
        if error is None:
            self._end()
        elif isinstance(error, Exception):
            self._fail(error)
        else:
            self.cancel()
            raise error

    def _end(self) -> None:
        """What happens now is no longer the opening's business."""
        self._is_over = True
        self._leave()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._pool.opening_ended(self)

    def _drop(self) -> None:
        """End what was begun. Called again if it was interrupted."""
        self._leave()
        sock = self._sock
        if sock is not None and sock.fileno() >= 0:
            self._pool.loop.remove_writer(sock)
            sock.close()
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> bool:
        """Give up what was begun, and tell nobody. Returns False if it is over already."""
        if self._is_over:
            return False
        self._is_over = True
        self._drop()
        if self._connection is not None and not self._connection.was_open:
            self._connection.connection_lost(None)
        return True

    def _fail(self, error: Exception) -> None:
        try:
            if self._is_over:
                return
            self._drop()
            route: Route = self._origin.route
            if not isinstance(error, ConnectError):
                # It was not given up: the address may be an old one.
                self._pool.resolver.forget(route.host, route.port)
            self._tell(route.failure(error, self._exchange.wishes))
        except BaseException:
            # Such as KeyboardInterrupt. Its place would be taken for ever, and the socket be the loop's.
            try:
                self._drop()
            finally:
                self._tell(ConnectError(GIVEN_UP))
            raise

    def _tell(self, failure: Exception) -> None:
        if self._is_over:
            return
        connection = self._connection
        # One that was open already reports its own end. The other one never had one to report.
        was_open = connection is not None and connection.was_open
        # Behind this line nothing interrupts before the native core has been told.
        self._is_over = True
        try:
            if not was_open:
                self._origin.opening_failed(self._exchange, failure)
        finally:
            if connection is not None and not was_open:
                connection.connection_lost(None)

    def cancel(self) -> None:
        """End it: the client is closed, or nobody wants the connection any more."""
        self._fail(ConnectError(GIVEN_UP))
