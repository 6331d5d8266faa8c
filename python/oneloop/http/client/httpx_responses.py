"""`Responses`: makes responses of httpx or httpx2 of what the native core has received.

A response is made for each request, and most are read whole. The constructor of the package's class keeps its arguments
and sets the same attributes each time, and reading goes through a generator for each layer between the client and the
transport. So what the constructor sets is looked at once, on a response that it has made, and is set directly then; and
a response whose stream is still the one that its transport gave it, with at most the client's own around it, is read
without those generators. Wherever the package is not as it is known here, or the program has put something else in
between, the package's own code runs.
"""

from __future__ import annotations

import copyreg
import sys
from typing import TYPE_CHECKING, Any

from oneloop._native import parse_response_head
from oneloop.http.client.errors import TransportError
from oneloop.http.client.protocols import extensions_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Responses"]

_HAS_CODING = 2


class Responses:
    """Makes responses for coroutines, or for green threads and plain code.

    Args:
        module: the package.
        body: the class of bodies, whose objects have `_exchange`, and `_caller` if they are not for coroutines.
        error: returns the package's exception for one of ours, and the cause of that.
        is_async: for coroutines.
        around: the class of a transport's own streams around bodies, which have `_httpcore_stream`.
    """

    def __init__(
        self,
        module: Any,
        body: type,
        error: Callable[[TransportError], tuple[Exception, Exception]],
        *,
        is_async: bool,
        around: type | None = None,
    ) -> None:
        self._base: Any = module.Response
        self._headers: Any = module.Headers
        self._body: Any = body
        self._error = error
        self._around: Any = around
        # What a client puts around each stream; of a module of the package that another release may not have.
        clients = sys.modules.get(f"{module.__name__}._client")
        self._bound = getattr(clients, "BoundAsyncStream" if is_async else "BoundSyncStream", None)
        self._is_known = _is_known(module)
        self._constructors = (self._base.__init__, self._headers.__init__)
        self._is_async = is_async
        is_read_here = self._bound is not None and _keeps_content(module)
        self._methods = self._methods_now() if is_read_here else ()
        self._class: Any = self._derived() if is_read_here else self._base

    def _methods_now(self) -> tuple[Any, ...]:
        """What the package calls while it reads a response. Somebody may replace one of them."""
        base: Any = self._base
        bound: Any = self._bound
        around: Any = self._around or bound
        if self._is_async:
            return base.aread, base.aiter_bytes, base.aiter_raw, base.aclose, bound.__aiter__, around.__aiter__
        return base.read, base.iter_bytes, base.iter_raw, base.close, bound.__iter__, around.__iter__

    def make(self, exchange: Any, body: Any, network_stream: Any) -> Any:
        """Return the response of an exchange whose head has arrived.

        Args:
            exchange: the exchange.
            body: the stream of the body.
            network_stream: the extension of this name.
        """
        base, headers_class = self._base, self._headers
        if not self._is_known or self._constructors != (base.__init__, headers_class.__init__):
            return self._made(exchange, body, network_stream)
        reason, version, fields = parse_response_head(exchange.response_head, True)
        headers = headers_class.__new__(headers_class)
        headers._list = fields
        headers._encoding = None
        response = self._class.__new__(self._class)
        # In the order of the constructor.
        response.status_code = exchange.status
        response.headers = headers
        response._request = None
        response.next_request = None
        response.extensions = extensions_of(exchange, version, reason, network_stream)
        response.history = []
        response.is_closed = False
        response.is_stream_consumed = False
        response.default_encoding = "utf-8"
        response.stream = body
        response._num_bytes_downloaded = 0
        return response

    def _made(self, exchange: Any, body: Any, network_stream: Any) -> Any:
        reason, version, fields = parse_response_head(exchange.response_head)
        extensions = extensions_of(exchange, version, reason, network_stream)
        return self._class(exchange.status, headers=fields, stream=body, extensions=extensions)

    def _body_of(self, response: Any) -> Any:
        """Return the body that is read without generators; None if the package has to read it."""
        stream: Any = response.stream
        if type(stream) is self._bound:
            stream = stream._stream
        if type(stream) is self._around:
            stream = stream._httpcore_stream
        if (
            type(stream) is not self._body
            or response.is_stream_consumed
            or response.is_closed
            or hasattr(response, "_content")
            or stream._exchange.has & _HAS_CODING
            or self._methods_now() != self._methods
        ):
            return None
        return stream

    def _failed(self, response: Any, body: Any, error: TransportError) -> tuple[Exception, Exception]:
        body._exchange.close()
        mapped, cause = self._error(error)
        mapped.request = response._request  # type: ignore[attr-defined]
        return mapped, cause

    def _derived(self) -> Any:
        """Return the class of responses."""
        base = self._base
        body_of, failed = self._body_of, self._failed

        async def aread(self: Any) -> bytes:
            """Read and return the body."""
            body = body_of(self)
            if body is None:
                content: bytes = await base.aread(self)
                return content
            self.is_stream_consumed = True
            exchange = body._exchange
            try:
                await exchange.whole()
                content = exchange.take()
            except TransportError as error:
                mapped, cause = failed(self, body, error)
                raise mapped from cause
            self._num_bytes_downloaded = len(content)
            # Here it cannot fail, so nothing has to be told of the request.
            self.is_closed = True
            await self.stream.aclose()
            self._content = content
            return content

        def read(self: Any) -> bytes:
            """Read and return the body."""
            body = body_of(self)
            if body is None:
                content: bytes = base.read(self)
                return content
            self.is_stream_consumed = True
            exchange = body._exchange
            try:
                if not exchange.is_done:
                    body._caller.run(exchange.whole())
                content = exchange.take()
            except TransportError as error:
                mapped, cause = failed(self, body, error)
                raise mapped from cause
            self._num_bytes_downloaded = len(content)
            self.is_closed = True
            self.stream.close()
            self._content = content
            return content

        def reduced(self: Any, protocol: Any) -> Any:
            """Pickle and copy as the package's own class."""
            return copyreg._reconstructor, (base, object, None), self.__getstate__()  # type: ignore[attr-defined]

        methods: dict[str, Any] = {"aread": aread} if self._is_async else {"read": read}
        names = {"__reduce_ex__": reduced, "__doc__": base.__doc__, "__module__": base.__module__}
        return type("Response", (base,), {**methods, **names})


def _keeps_content(module: Any) -> bool:
    """Whether a response keeps its body where it is known here."""
    sample: dict[str, Any] = vars(module.Response(200, content=b"x"))
    return sample.get("_content") == b"x" and "_num_bytes_downloaded" in sample


def _is_known(module: Any) -> bool:
    """Whether the constructor sets the attributes that are known here."""
    stream = module.ByteStream(b"")
    made = vars(module.Response(200, headers=[(b"A", b"b")], stream=stream, extensions={"c": 1}))
    headers = made.pop("headers", None)
    is_known: bool = made == {
        "status_code": 200,
        "_request": None,
        "next_request": None,
        "extensions": {"c": 1},
        "history": [],
        "is_closed": False,
        "is_stream_consumed": False,
        "default_encoding": "utf-8",
        "stream": stream,
        "_num_bytes_downloaded": 0,
    } and vars(headers) == {"_list": [(b"A", b"a", b"b")], "_encoding": None}
    return is_known
