"""Datagram endpoints: the running Python version's own code, plus a cleanup when the protocol factory raises.

The socket that the loop has made for them stays open then in asyncio, until the garbage collector runs
(python/cpython#156400; 3.15.0 still). What the program has passed as `sock` stays the program's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

_Stock: Any = asyncio.BaseEventLoop


class EndpointMixin:
    """`create_datagram_endpoint` of `oneloop.Loop`."""

    __slots__ = ()

    async def create_datagram_endpoint(
        self: Any, protocol_factory: Callable[[], Any], *args: Any, sock: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        # The code that calls the factory knows the socket, and passes it to `_make_datagram_transport`: with the
        # failure in the place of the protocol.
        def factory() -> Any:
            try:
                return protocol_factory()
            except BaseException as exc:
                if sock is not None:
                    raise
                return Failed(exc)

        made: tuple[Any, Any] = await _Stock.create_datagram_endpoint(self, factory, *args, sock=sock, **kwargs)
        return made


class Failed:
    """What a protocol factory has raised, in the place of a protocol, for a socket that is the loop's own."""

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error

    def reraise(self) -> NoReturn:
        """Raise it, and keep no reference: its traceback leads here."""
        error, self._error = self._error, None
        assert error is not None
        try:
            raise error
        finally:
            del error
