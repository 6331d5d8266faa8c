"""The bodies of responses that somebody follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.http.client.httpx_bodies import AsyncBody, SyncBody

if TYPE_CHECKING:
    from oneloop.compat.httpcores.package import Package
    from oneloop.http.client.callers import Caller
    from oneloop.http.client.tracing import Trace

__all__ = ["TracedAsyncBody", "TracedSyncBody"]


def _phases(trace: Trace, request: Any, stream_id: int) -> tuple[Any, Any]:
    """Return the steps of reading and of closing."""
    if not stream_id:
        return trace.phase("http11", "receive_response_body", {"request": request}), trace.phase(
            "http11", "response_closed"
        )
    told = {"stream_id": stream_id}
    return trace.phase("http2", "receive_response_body", {"request": request, **told}), trace.phase(
        "http2", "response_closed", told
    )


class TracedAsyncBody(AsyncBody):
    """The body of an answer that somebody follows."""

    def __init__(self, exchange: Any, package: Package, stream: Any, request: Any, trace: Trace) -> None:
        super().__init__(exchange, package, stream)
        self._reading, self._closing = _phases(trace, request, exchange.stream_id)
        self._is_begun = False

    async def __anext__(self) -> bytes:
        if not self._is_begun:
            self._is_begun = True
            await self._reading.__aenter__()  # pyright: ignore[reportOptionalMemberAccess]
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            await self._told(None)
            raise
        except BaseException as error:
            await self._told(error)
            raise

    async def _told(self, error: BaseException | None) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            await reading.__aexit__(None if error is None else type(error), error, None)

    async def aclose(self) -> None:
        closing, self._closing = self._closing, None
        if closing is not None:
            async with closing:
                await super().aclose()


class TracedSyncBody(SyncBody):
    """The body of an answer that somebody follows."""

    def __init__(
        self, exchange: Any, package: Package, stream: Any, caller: Caller, request: Any, trace: Trace
    ) -> None:
        super().__init__(exchange, package, stream, caller)
        self._reading, self._closing = _phases(trace, request, exchange.stream_id)
        self._is_begun = False

    def __next__(self) -> bytes:
        if not self._is_begun:
            self._is_begun = True
            self._caller.run(self._reading.__aenter__())  # pyright: ignore[reportOptionalMemberAccess]
        try:
            return super().__next__()
        except StopIteration:
            self._told(None)
            raise
        except BaseException as error:
            self._told(error)
            raise

    def _told(self, error: BaseException | None) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            self._caller.run(reading.__aexit__(None if error is None else type(error), error, None))

    def close(self) -> None:
        closing, self._closing = self._closing, None
        if closing is not None:
            self._caller.run(closing.__aenter__())
            super().close()
            self._caller.run(closing.__aexit__(None, None, None))
