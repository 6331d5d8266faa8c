"""Servers: the running Python version's own code, plus what it leaves undone when it is cancelled.

`create_server()` starts to listen and then awaits one iteration of the loop. If it is cancelled there, asyncio leaves a
listening server behind that the caller has no reference to. Here the server is closed.

gh-123720 (CPython 3.12.1 to 3.14.6): `serve_forever()` that is cancelled waits for the end of every client.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from asyncio import base_events, unix_events
from typing import Any

_Stock: Any = unix_events._UnixSelectorEventLoop


class ServingMixin:
    """`create_server` and `create_unix_server` of `oneloop.Loop`."""

    __slots__ = ()

    async def create_server(self: Any, *args: Any, start_serving: bool = True, **kwargs: Any) -> base_events.Server:
        return await _started(_Stock.create_server(self, *args, start_serving=False, **kwargs), start_serving)

    async def create_unix_server(
        self: Any, *args: Any, start_serving: bool = True, **kwargs: Any
    ) -> base_events.Server:
        return await _started(_Stock.create_unix_server(self, *args, start_serving=False, **kwargs), start_serving)


def context_of(server: Any) -> contextvars.Context | None:
    """The context in which a server was created: its connections run in copies of it, whoever has started it later.

    From Python 3.15 on asyncio does this itself. None for a server that this loop has not made.
    """
    return getattr(server, "_oneloop_context", None)


class _Server(base_events.Server):
    """A server that has served for ever when it is cancelled, also if a client does not end."""

    async def serve_forever(self: Any) -> None:
        """Serve until it is closed or cancelled. Then close the connections, too.

        Raises:
            RuntimeError: it is served already, or closed.
            asyncio.CancelledError: it was cancelled, or closed.
        """
        if self._serving_forever_fut is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        if self._sockets is None:
            raise RuntimeError(f"server {self!r} is closed")
        self._start_serving()
        served = self._loop.create_future()
        self._serving_forever_fut = served
        try:
            await served
        except asyncio.CancelledError:
            self.close()
            if sys.version_info >= (3, 13):
                self.close_clients()
                await self.wait_closed()
            # Before 3.13 it does not know its clients. 3.11 does not wait for them either.
            raise
        finally:
            self._serving_forever_fut = None


# Its name is in the server's repr.
_Server.__name__ = "Server"
_WAITS_FOR_CLIENTS = (3, 12) <= sys.version_info < (3, 14, 7)


async def _started(making: Any, start_serving: bool) -> base_events.Server:
    server: base_events.Server = await making
    if _WAITS_FOR_CLIENTS and type(server) is base_events.Server:
        server.__class__ = _Server
    server._oneloop_context = contextvars.copy_context()  # type: ignore[attr-defined]
    if start_serving:
        try:
            await server.start_serving()
        except BaseException:
            server.close()
            raise
    return server
