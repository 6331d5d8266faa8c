"""`SyncPool`: what makes `ConnectionPool` and its proxies ours: requests of green threads and of plain code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.compat.httpcores.bodies import TracedSyncBody
from oneloop.compat.httpcores.handling import Handling
from oneloop.compat.httpcores.settings import is_patched_by_another
from oneloop.http.client.callers import Caller, Callers, PlainCaller, watch_end
from oneloop.http.client.carrier import send_body
from oneloop.http.client.httpx_bodies import SyncBody

if TYPE_CHECKING:
    from oneloop.http.client.carrier import Place
    from oneloop.http.client.tracing import Trace

__all__ = ["SyncPool"]


class SyncPool(Handling):
    """A mixin for a pool of the original, which serves what the native client does not."""

    _is_async = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._carrier = None if is_patched_by_another() else self._package.carrier(self._signature, args, kwargs)
        self._callers = Callers()
        self._package.shortcut.install()

    def _place(self, caller: Caller) -> Place:
        assert self._carrier is not None
        place = self._carrier.place(caller.loop)
        if isinstance(caller, PlainCaller):
            watch_end(caller, self._carrier.forget)
        return place

    def handle_request(self, request: Any) -> Any:
        """Send a request. Returns the response when its head has arrived."""
        if self._carrier is None:
            return super().handle_request(request)  # type: ignore[misc]
        caller = self._callers.here()
        return caller.run(self._handle(self._place(caller), caller.number, caller, request))

    async def _send_body(self, exchange: Any, later: int, stream: Any) -> None:
        await send_body(exchange, later, stream)

    def _opened(self, exchange: Any, where: Any, request: Any, trace: Trace | None) -> tuple[Any, Any]:
        stream = self._package.sync_stream(exchange, where)
        if trace is None:
            return SyncBody(exchange, self._package, stream, where), stream
        return TracedSyncBody(exchange, self._package, stream, where, request, trace), stream

    def close(self) -> None:
        """Close all connections."""
        super().close()  # type: ignore[misc]
        if self._carrier is not None:
            self._callers.finish(self._carrier.close)
