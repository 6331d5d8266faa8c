"""The bodies of answers: iterables for one use, which are closed by their end, by an error, or by the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.http.client.errors import TransportError

if TYPE_CHECKING:
    from oneloop.compat.httpcores.package import Package
    from oneloop.http.client.callers import Caller
    from oneloop.http.client.tracing import Trace

__all__ = ["AsyncBody", "SyncBody", "TracedAsyncBody", "TracedSyncBody"]


class AsyncBody:
    """The body of an answer for coroutines.

    Args:
        exchange: the exchange.
        package: whose exceptions are raised.
        stream: the answer's `network_stream`.
    """

    def __init__(self, exchange: Any, package: Package, stream: Any) -> None:
        self._exchange = exchange
        self._package = package
        self._stream = stream

    def __aiter__(self) -> AsyncBody:
        return self

    async def __anext__(self) -> bytes:
        exchange = self._exchange
        try:
            piece: bytes = await exchange.piece()
        except TransportError as error:
            exchange.close()
            raise self._package.error(error) from error
        if piece:
            return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the answer; its connection is closed if there is more of it."""
        self._stream._leave()
        self._exchange.close()


class SyncBody:
    """The body of an answer for green threads and plain code.

    Args:
        exchange: the exchange.
        package: whose exceptions are raised.
        stream: the answer's `network_stream`.
        caller: how it waits.
    """

    def __init__(self, exchange: Any, package: Package, stream: Any, caller: Caller) -> None:
        self._exchange = exchange
        self._package = package
        self._stream = stream
        self._caller = caller

    def __iter__(self) -> SyncBody:
        return self

    def __next__(self) -> bytes:
        exchange = self._exchange
        try:
            piece: bytes = self._caller.run(exchange.piece())
        except TransportError as error:
            exchange.close()
            raise self._package.error(error) from error
        if piece:
            return piece
        raise StopIteration

    def close(self) -> None:
        """End the answer; its connection is closed if there is more of it."""
        try:
            self._stream._leave()
        finally:
            # Native, and not by the caller: a signal handler may raise where a function of Python begins.
            is_ending = self._exchange.close()
        if is_ending:
            self._caller.let_end()


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
