"""`Kind`: the classes of httpx or httpx2, and one of their requests from its start to its response.

Which of the packages it is, the request tells. Neither is imported here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from oneloop.http.client import errors
from oneloop.http.client.carrier import send_body, send_body_of_coroutines
from oneloop.http.client.httpx_bodies import AsyncBody, SyncBody
from oneloop.http.client.httpx_responses import Responses
from oneloop.http.client.network_streams import AsyncStream, SyncStream
from oneloop.http.client.tracing import Trace, loggers_of

if TYPE_CHECKING:
    from oneloop.http.client.callers import Caller
    from oneloop.http.client.carrier import Carrier, Place

__all__ = ["Kind", "kind_of"]

_PACKAGES = ("httpx", "httpx2")
_COROUTINE = 0
# Type of a request -> the kind.
_kinds: dict[type, Kind] = {}


def kind_of(request: Any) -> Kind:
    """Return the kind of a request.

    Raises:
        TypeError: it is a request of neither package.
    """
    known = _kinds.get(type(request))
    if known is None:
        for base in type(request).__mro__:
            name = base.__module__.partition(".")[0]
            if name in _PACKAGES:
                module = sys.modules[name]
                known = _kinds[type(request)] = _kinds.setdefault(module.Request, Kind(module))
                return known
        raise TypeError(f"a request of httpx or httpx2 is needed, not {type(request).__name__}")
    return known


class Kind:
    """One of the packages.

    Args:
        module: the package.
    """

    def __init__(self, module: Any) -> None:
        self.errors: dict[type[BaseException], Any] = {
            getattr(errors, name): getattr(module, name) for name in errors.__all__ if hasattr(module, name)
        }
        self.errors[errors.TotalTimeout] = module.ReadTimeout
        self.async_stream: Any = type("AsyncStream", (AsyncStream,), {"_package": self})
        self.sync_stream: Any = type("SyncStream", (SyncStream,), {"_package": self})
        self.loggers = loggers_of("oneloop.http.client")
        self._async_body: Any = type("AsyncBody", (AsyncBody, module.AsyncByteStream), {})
        self._sync_body: Any = type("SyncBody", (SyncBody, module.SyncByteStream), {})
        self._async_responses = Responses(module, self._async_body, self._error_and_cause, is_async=True)
        self._sync_responses = Responses(module, self._sync_body, self._error_and_cause, is_async=False)

    def error(self, error: Exception) -> Exception:
        """Return the package's exception for one of ours; itself if it is none."""
        kind = self.errors.get(type(error))
        if kind is None:
            return error
        made: Exception = kind(str(error))
        return made

    def _error_and_cause(self, error: errors.TransportError) -> tuple[Exception, Exception]:
        return self.error(error), error

    async def of_coroutine(self, carrier: Carrier, place: Place, request: Any) -> Any:
        """Send a request for a coroutine. Returns the response when its head has arrived."""
        exchange = None
        try:
            exchange, later = self._started(carrier, place, _COROUTINE, request)
            if later is not None:
                await send_body_of_coroutines(exchange, later, request.stream)
            await exchange.answered()
            stream = self.async_stream(exchange, place.loop)
            return self._async_responses.make(exchange, self._async_body(exchange, self, stream), stream)
        except errors.TransportError as error:
            if exchange is not None:
                exchange.close()
            raise self.error(error) from error
        except BaseException:
            if exchange is not None:
                exchange.close()
            raise

    async def of_caller(self, carrier: Carrier, place: Place, caller: Caller, request: Any) -> Any:
        """Send a request for a green thread or plain code. Returns the response when its head has arrived."""
        exchange = None
        try:
            exchange, later = self._started(carrier, place, caller.number, request)
            if later is not None:
                await send_body(exchange, later, request.stream)
            await exchange.answered()
            stream = self.sync_stream(exchange, caller)
            return self._sync_responses.make(exchange, self._sync_body(exchange, self, stream, caller), stream)
        except errors.TransportError as error:
            if exchange is not None:
                exchange.close()
            raise self.error(error) from error
        except BaseException:
            if exchange is not None:
                exchange.close()
            raise

    def _started(self, carrier: Carrier, place: Place, number: int, request: Any) -> tuple[Any, int | None]:
        url, extensions = request.url, request.extensions
        told = extensions.get("trace")
        return carrier.start(
            place,
            number,
            request.method.encode("ascii"),
            (url.raw_scheme, url.raw_host, url.port, extensions.get("target") or url.raw_path),
            request.headers.raw,
            request.stream,
            extensions,
            None if told is None else Trace(told, self.loggers, is_async=number == _COROUTINE),
        )
