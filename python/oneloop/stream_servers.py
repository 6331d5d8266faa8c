"""`guarded`: servers of `asyncio.start_server` without the faults of its protocol in older releases.

- gh-113538 (until CPython 3.11.7 and 3.12.1): if the task of a handler is cancelled, the connection stays open and its
  peer waits. The callback that should close it raises CancelledError.
- gh-155941 (until 3.14.7): if a handler that is a plain function raises, the connection stays open, and
  `Server.wait_closed()` waits for its end.

Both leave a peer that waits for ever. The handler is called here as CPython 3.14.8 calls it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGE = "Unhandled exception in client_connected_cb"
# 3.15.0 is older than 3.14.8. The message is there only where the function itself reports what the handler has raised.
_IS_NEEDED = MESSAGE not in asyncio.StreamReaderProtocol.connection_made.__code__.co_consts


def guarded(protocol_factory: Callable[[], Any]) -> Callable[[], Any]:
    """Return the factory of a server's protocols, for those of `asyncio.start_server` with a guard for their handlers.

    Others are returned as they are.
    """
    if not _IS_NEEDED or getattr(protocol_factory, "__module__", None) != "asyncio.streams":
        return protocol_factory

    def factory() -> Any:
        protocol = protocol_factory()
        handler = getattr(protocol, "_client_connected_cb", None)
        if handler is not None:
            protocol._client_connected_cb = _Handler(handler)
        return protocol

    return factory


class _Handler:
    """A `client_connected_cb` that starts its own task."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        self._handler = handler

    def __call__(self, reader: asyncio.StreamReader, writer: Any) -> None:
        loop, protocol, transport = writer._loop, writer._protocol, writer.transport

        def report(error: BaseException) -> None:
            loop.call_exception_handler({"message": MESSAGE, "exception": error, "transport": transport})
            transport.close()

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                transport.close()
                return
            error = task.exception()
            if error is not None:
                report(error)

        try:
            handling = self._handler(reader, writer)
        except Exception as error:  # noqa: BLE001 - it is reported
            report(error)
            return
        if asyncio.iscoroutine(handling):
            # The protocol keeps the task alive.
            protocol._task = loop.create_task(handling)
            protocol._task.add_done_callback(ended)
