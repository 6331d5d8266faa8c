"""`AsyncPool`: what makes `AsyncConnectionPool` and its proxies ours: requests of coroutines on a oneloop loop."""

from __future__ import annotations

from asyncio.events import _get_running_loop
from typing import TYPE_CHECKING, Any, cast

from oneloop._native import LoopCore
from oneloop.compat.httpcores.bodies import TracedAsyncBody
from oneloop.compat.httpcores.handling import Handling
from oneloop.http.client.carrier import send_body_of_coroutines
from oneloop.http.client.httpx_bodies import AsyncBody

if TYPE_CHECKING:
    from oneloop.http.client.carrier import Place
    from oneloop.http.client.tracing import Trace
    from oneloop.loop import Loop

__all__ = ["COROUTINE", "AsyncPool"]

COROUTINE = 0


class AsyncPool(Handling):
    """A mixin for a pool of the original, which serves what the native client does not."""

    _is_async = True
    _place: Place | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._carrier = self._package.carrier(self._signature, args, kwargs)
        self._package.shortcut.install()

    def _place_here(self) -> Place | None:
        """Return the connections on the running loop; None if the original has to serve it."""
        loop: Any = _get_running_loop()
        place = self._place
        if place is not None and place.loop is loop and not place.pool.native.is_shut:
            return place
        if self._carrier is None or not isinstance(loop, LoopCore):
            return None
        place = self._place = self._carrier.place(cast("Loop", loop))
        return place

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request. Returns the response when its head has arrived."""
        place = self._place_here()
        if place is None:
            return await super().handle_async_request(request)  # type: ignore[misc]
        return await self._handle(place, COROUTINE, place.loop, request)

    async def _send_body(self, exchange: Any, later: int, stream: Any) -> None:
        await send_body_of_coroutines(exchange, later, stream)

    def _opened(self, exchange: Any, where: Any, request: Any, trace: Trace | None) -> tuple[Any, Any]:
        stream = self._package.async_stream(exchange, where)
        if trace is None:
            return AsyncBody(exchange, self._package, stream), stream
        return TracedAsyncBody(exchange, self._package, stream, request, trace), stream

    async def aclose(self) -> None:
        """Close all connections."""
        await super().aclose()  # type: ignore[misc]
        if self._carrier is not None:
            here = _get_running_loop()
            self._place = None
            for pool in self._carrier.close():
                if pool.loop is here:
                    await pool.wait_closed()
