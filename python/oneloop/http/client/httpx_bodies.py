"""The bodies of responses for httpx and httpcore: iterables for one use, which an error or the program closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oneloop.http.client.errors import TransportError

if TYPE_CHECKING:
    from oneloop.http.client.callers import Caller

__all__ = ["AsyncBody", "SyncBody"]


class Raising(Protocol):
    """A package that has exceptions of its own."""

    def error(self, error: TransportError, /) -> Exception:
        """Return its exception for one of ours."""
        ...


class AsyncBody:
    """The body of a response for coroutines.

    Args:
        exchange: the exchange.
        package: whose exceptions are raised.
        stream: the response's `network_stream`.
    """

    def __init__(self, exchange: Any, package: Raising, stream: Any) -> None:
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
        """End the response; its connection is closed if there is more of it."""
        self._stream._leave()
        self._exchange.close()


class SyncBody:
    """The body of a response for green threads and plain code.

    Args:
        exchange: the exchange.
        package: whose exceptions are raised.
        stream: the response's `network_stream`.
        caller: how it waits.
    """

    def __init__(self, exchange: Any, package: Raising, stream: Any, caller: Caller) -> None:
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
        """End the response; its connection is closed if there is more of it."""
        try:
            self._stream._leave()
        finally:
            # Native, and not by the caller: a signal handler may raise where a function of Python begins.
            is_ending = self._exchange.close()
        if is_ending:
            self._caller.let_end()
