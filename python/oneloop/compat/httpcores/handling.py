"""`Handling`: one request of a pool, written once for coroutines, green threads and plain code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop._native import parse_response_head
from oneloop.http.client.errors import TransportError
from oneloop.http.client.protocols import HTTP2, extensions_of

if TYPE_CHECKING:
    import inspect

    from oneloop.compat.httpcores.package import Package
    from oneloop.http.client.carrier import Carrier, Place
    from oneloop.http.client.tracing import Trace

__all__ = ["Handling"]


class Handling:
    """What both kinds of pools have in common. A mixin for a pool of the original, which serves the rest."""

    _package: Package
    _signature: inspect.Signature
    _carrier: Carrier | None
    _is_async: bool

    async def _send_body(self, exchange: Any, later: int, stream: Any) -> None:
        """Send a request's body that was not sent with its head."""
        raise NotImplementedError

    def _opened(self, exchange: Any, where: Any, request: Any, trace: Trace | None) -> tuple[Any, Any]:
        """Return the body of an answer, and its network stream."""
        raise NotImplementedError

    async def _handle(self, place: Place, number: int, where: Any, request: Any) -> Any:
        """Send a request. Returns the response when its head has arrived.

        Args:
            place: the connections.
            number: who waits, as the native core calls it.
            where: what `_opened` needs: a loop or a caller.
            request: the original's request.
        """
        package = self._package
        trace = package.trace(request, is_async=self._is_async)
        url = request.url
        exchange = None
        try:
            exchange, later = self._carrier.start(  # type: ignore[union-attr]
                place,
                number,
                request.method,
                (url.scheme, url.host, url.port, url.target),
                request.headers,
                request.stream,
                request.extensions,
                trace,
            )
            if trace is not None:
                await self._talk_traced(exchange, later, request, trace)
            else:
                if later is not None:
                    await self._send_body(exchange, later, request.stream)
                await exchange.answered()
            reason, version, fields = parse_response_head(exchange.response_head)
            body, stream = self._opened(exchange, where, request, trace)
            extensions = extensions_of(exchange, version, reason, stream)
            return package.answer(exchange.status, fields, body, extensions)
        except TransportError as error:
            if exchange is not None:
                exchange.close()
            raise package.error(error) from error
        except BaseException:
            if exchange is not None:
                exchange.close()
            raise

    async def _talk_traced(self, exchange: Any, later: int | None, request: Any, trace: Trace) -> None:
        told: dict[str, Any] = {"request": request}
        # Its connection is told by the route that opens it. Without one nothing was sent.
        if not await exchange.drained() and exchange.status is None:
            await exchange.answered()
        prefix = "http11"
        if stream_id := exchange.stream_id:
            prefix = "http2"
            if stream_id == 1:
                async with trace.phase(prefix, "send_connection_init", {"request": request}):
                    pass
            told["stream_id"] = stream_id
        async with trace.phase(prefix, "send_request_headers", told):
            pass
        async with trace.phase(prefix, "send_request_body", told):
            if later is not None:
                await self._send_body(exchange, later, request.stream)
        async with trace.phase(prefix, "receive_response_headers", told) as phase:
            await exchange.answered()
            if exchange.stream_id == 1:
                # They come first. The event of the library h2, which httpcore tells, does not exist here.
                async with trace.phase(prefix, "receive_remote_settings", {}):
                    pass
            reason, version, fields = parse_response_head(exchange.response_head)
            if version == HTTP2:
                phase.result = (exchange.status, fields)
            else:
                phase.result = (b"HTTP/1.1" if version else b"HTTP/1.0", exchange.status, reason, fields)

    @property
    def connections(self) -> list[Any]:
        """The connections that are open."""
        of_original: list[Any] = super().connections  # type: ignore[misc]
        return of_original + self._package.connections.of(self._carrier, is_async=self._is_async)

    def __repr__(self) -> str:
        if self._carrier is None:
            return super().__repr__()
        return self._package.connections.shown(type(self).__name__, self._carrier)
