"""What httpx's own transports do on our pools, without the way through httpcore's requests and responses.

`httpx.AsyncHTTPTransport` makes a request of httpcore for each of httpx's, and a response of httpx of the one that it
gets; the body goes through five generators. Where its pool is one of ours that nobody has changed, it can answer
httpx's request at once. So `handle_async_request` is replaced when the first such pool is made: by a method that does
so, and that calls the original one in all other cases. The same holds for plain code, and for httpx2.
"""

from __future__ import annotations

import sys
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from oneloop.http.client.carrier import send_body, send_body_of_coroutines
from oneloop.http.client.errors import TransportError
from oneloop.http.client.httpx_bodies import AsyncBody, SyncBody
from oneloop.http.client.httpx_responses import Responses

if TYPE_CHECKING:
    from oneloop.compat.httpcores.package import Package

__all__ = ["Shortcut"]

_CLIENTS = {"httpcore": "httpx", "httpcore2": "httpx2"}
_NAMES = {
    "AsyncHTTPTransport": ("handle_async_request", "AsyncResponseStream", "AsyncByteStream"),
    "HTTPTransport": ("handle_request", "ResponseStream", "SyncByteStream"),
}
# What the methods that are replaced do, in the releases that are known: the names in their code.
_KNOWN_NAMES = frozenset(
    {
        "AsyncByteStream", "AsyncIterable", "AsyncResponseStream", "Iterable", "Request", "Response", "ResponseStream",
        "SyncByteStream", "URL", "_pool", "extensions", "handle_async_request", "handle_request", "headers", "host",
        "httpcore", "httpcore2", "isinstance", "map_httpcore_exceptions", "method", "port", "raw", "raw_host",
        "raw_path", "raw_scheme", "status", "stream", "typing", "url",
    }
)  # fmt: skip


class Shortcut:
    """The shortcut from the transports of one package to the pools of the one below it.

    Args:
        package: the one below.
    """

    def __init__(self, package: Package) -> None:
        self._package = package
        self._is_installed = False

    def install(self) -> None:
        """Replace the methods, if the package above is imported, and they are its own."""
        if self._is_installed:
            return
        module: Any = sys.modules.get(_CLIENTS[self._package.name])
        below: Any = sys.modules.get(f"{module.__name__}._transports.default") if module is not None else None
        if below is None or not all(_is_known(below, *names) for names in _NAMES.items()):
            return
        self._is_installed = True
        self._errors = {
            ours: getattr(module, theirs.__name__)
            for ours, theirs in self._package.errors.items()
            if hasattr(module, theirs.__name__)
        }
        self._replace_async(module, below)
        self._replace_sync(module, below)

    def _error(self, error: TransportError) -> tuple[Exception, Exception]:
        """Return httpx's exception for one of ours, and its cause: httpcore's."""
        cause = self._package.error(error)
        if cause is error:
            return error, error
        cause.__cause__ = error
        kind = self._errors.get(type(error))
        return (cause, error) if kind is None else (kind(str(cause)), cause)

    def _is_open(self, pool: Any, name: str, known: Any, request: Any, streams: type) -> bool:
        """Whether nobody wants to see the requests of the package below, or to answer them."""
        package = self._package
        extensions = request.extensions
        return (
            getattr(type(pool), name, None) is known
            and name not in pool.__dict__
            and isinstance(request.stream, streams)
            and "target" not in extensions
            and request.method.isascii()
            and not package.is_traced(extensions)
            and package.has_own_requests
        )

    def _replace_async(self, module: Any, below: Any) -> None:
        from oneloop.compat.httpcores.async_pool import COROUTINE, AsyncPool

        transport, around, streams = below.AsyncHTTPTransport, below.AsyncResponseStream, module.AsyncByteStream
        original, known = transport.handle_async_request, AsyncPool.handle_async_request
        responses = Responses(module, AsyncBody, self._error, is_async=True, around=around)
        package = self._package

        async def handle_async_request(transport: Any, request: Any) -> Any:
            pool = transport._pool
            is_open = self._is_open(pool, "handle_async_request", known, request, streams)
            place = pool._place_here() if is_open else None
            if place is None:
                return await original(transport, request)
            exchange = None
            try:
                exchange, later = _started(pool._carrier, place, COROUTINE, request)
                if later is not None:
                    await send_body_of_coroutines(exchange, later, request.stream)
                await exchange.answered()
                stream = package.async_stream(exchange, place.loop)
                return responses.make(exchange, around(AsyncBody(exchange, package, stream)), stream)
            except TransportError as error:
                if exchange is not None:
                    exchange.close()
                mapped, cause = self._error(error)
                raise mapped from cause
            except BaseException:
                if exchange is not None:
                    exchange.close()
                raise

        _put(transport, original, handle_async_request)

    def _replace_sync(self, module: Any, below: Any) -> None:
        from oneloop.compat.httpcores.sync_pool import SyncPool

        transport, around, streams = below.HTTPTransport, below.ResponseStream, module.SyncByteStream
        original, known = transport.handle_request, SyncPool.handle_request
        responses = Responses(module, SyncBody, self._error, is_async=False, around=around)
        package = self._package

        async def steps(pool: Any, caller: Any, request: Any) -> Any:
            exchange = None
            try:
                exchange, later = _started(pool._carrier, pool._place(caller), caller.number, request)
                if later is not None:
                    await send_body(exchange, later, request.stream)
                await exchange.answered()
                stream = package.sync_stream(exchange, caller)
                return responses.make(exchange, around(SyncBody(exchange, package, stream, caller)), stream)
            except TransportError as error:
                if exchange is not None:
                    exchange.close()
                mapped, cause = self._error(error)
                raise mapped from cause
            except BaseException:
                if exchange is not None:
                    exchange.close()
                raise

        def handle_request(transport: Any, request: Any) -> Any:
            pool = transport._pool
            if not self._is_open(pool, "handle_request", known, request, streams) or pool._carrier is None:
                return original(transport, request)
            caller = pool._callers.here()
            return caller.run(steps(pool, caller, request))

        _put(transport, original, handle_request)


def _is_known(below: Any, transport: str, names: tuple[str, ...]) -> bool:
    method = getattr(getattr(below, transport, None), names[0], None)
    code = getattr(method, "__code__", None)
    return (
        code is not None
        and code.co_filename == below.__file__
        and _KNOWN_NAMES.issuperset(code.co_names)
        and all(hasattr(below, name) for name in names[1:])
    )


def _put(transport: Any, original: Any, method: Any) -> None:
    update_wrapper(method, original)
    # It is no wrapper that tools should look through.
    del method.__wrapped__
    setattr(transport, original.__name__, method)


def _started(carrier: Any, place: Any, number: int, request: Any) -> Any:
    url = request.url
    return carrier.start(
        place,
        number,
        request.method.encode("ascii"),
        (url.raw_scheme, url.raw_host, url.port, url.raw_path),
        request.headers.raw,
        request.stream,
        request.extensions,
    )
