"""Servers: the running Python version's own code, plus a cleanup when the call is cancelled.

`create_server()` starts to listen and then awaits one iteration of the loop. If it is cancelled there, asyncio leaves a
listening server behind that the caller has no reference to. Here the server is closed.
"""

from __future__ import annotations

import contextvars
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


async def _started(making: Any, start_serving: bool) -> base_events.Server:
    server: base_events.Server = await making
    server._oneloop_context = contextvars.copy_context()  # type: ignore[attr-defined]
    if start_serving:
        try:
            await server.start_serving()
        except BaseException:
            server.close()
            raise
    return server
