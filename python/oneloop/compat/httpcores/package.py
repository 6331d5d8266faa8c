"""`Package`: the names of httpcore or httpcore2, with pools of ours."""

from __future__ import annotations

import inspect
import logging
import sys
from typing import TYPE_CHECKING, Any

from oneloop.compat.httpcores.async_pool import AsyncPool
from oneloop.compat.httpcores.connections import Connections
from oneloop.compat.httpcores.httpx_transports import Shortcut
from oneloop.compat.httpcores.settings import carrier_for
from oneloop.compat.httpcores.sync_pool import SyncPool
from oneloop.http.client import errors
from oneloop.http.client.network_streams import AsyncStream, SyncStream
from oneloop.http.client.tracing import Trace, loggers_of

if TYPE_CHECKING:
    from types import ModuleType

    from oneloop.http.client.carrier import Carrier

__all__ = ["Package"]

# Our exception -> theirs, where the names differ.
_OTHER_NAMES = {"CloseError": "ReadError", "TotalTimeout": "ReadTimeout", "InvalidURL": "LocalProtocolError"}
_POOLS = {"ConnectionPool": "connection_pool", "HTTPProxy": "http_proxy", "SOCKSProxy": "socks_proxy"}


class Package:
    """One of the packages.

    Args:
        name: its name.
        original: the package itself.

    Attributes:
        public: the names in its `__all__`.
        names: all of them, with `__version__`.
    """

    def __init__(self, name: str, original: ModuleType) -> None:
        self.name = name
        self.original = original
        self.public: list[str] = list(original.__all__)
        self.names: dict[str, Any] = {word: getattr(original, word) for word in (*self.public, "__version__")}
        self.errors: dict[type[BaseException], type[Exception]] = {}
        for word in errors.__all__:
            other = getattr(original, _OTHER_NAMES.get(word, word), None)
            if other is not None:
                self.errors[getattr(errors, word)] = other
        self.loggers = loggers_of(name)
        self.response: Any = original.Response
        # A response is made for each request: what its constructor sets besides its arguments is found once.
        self._other_attributes = vars(original.Response(200, content=()))
        self.async_stream = type("AsyncStream", (AsyncStream, original.AsyncNetworkStream), {"_package": self})
        self.sync_stream = type("SyncStream", (SyncStream, original.NetworkStream), {"_package": self})
        self.connections = Connections(self)
        self.shortcut = Shortcut(self)
        self._requests = (original.Request, original.URL, original.Request.__init__, original.URL.__init__)
        self._replace_pools(AsyncPool, "Async", "_async")
        self._replace_pools(SyncPool, "", "_sync")
        self._replace_functions()

    def _replace_pools(self, mixin: type, prefix: str, folder: str) -> None:
        """Make pools of ours, and put them where others look for the classes to change them."""
        base: type | None = None
        for word, module in _POOLS.items():
            theirs = getattr(self.original, prefix + word)
            bases = (mixin, theirs) if base is None else (base, theirs)
            text = f"{prefix}{word} of {self.name}, on oneloop's native client. The arguments are the same."
            ours = type(
                theirs.__name__,
                bases,
                {"_package": self, "_signature": inspect.signature(theirs), "__doc__": text, "__module__": self.name},
            )
            base = base or ours
            self.names[prefix + word] = ours
            owner = getattr(getattr(self.original, folder, None), module, None)
            if owner is not None and hasattr(owner, prefix + word):
                setattr(owner, prefix + word, ours)

    def _replace_functions(self) -> None:
        """Make `request` and `stream` use a pool of ours."""
        owner = getattr(self.original, "_api", None)
        if owner is not None and hasattr(owner, "ConnectionPool"):
            owner.ConnectionPool = self.names["ConnectionPool"]

    def carrier(self, signature: inspect.Signature, args: Any, kwargs: Any) -> Carrier | None:
        """Return what sends the requests of a pool with these arguments; None: the original."""
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        if "proxy_url" in arguments:
            arguments["proxy"] = self.names["Proxy"](
                arguments["proxy_url"],
                auth=arguments["proxy_auth"],
                headers=arguments.get("proxy_headers"),
                ssl_context=arguments.get("proxy_ssl_context"),
            )
        return carrier_for(arguments, self.original.default_ssl_context)

    def error(self, error: Exception) -> Exception:
        """Return the package's exception for one of ours; itself if it is none."""
        kind = self.errors.get(type(error))
        return error if kind is None else kind(str(error))

    def answer(self, status: int, fields: list[tuple[bytes, bytes]], body: Any, extensions: dict[str, Any]) -> Any:
        """Return a response, without the checks that are for programs."""
        response = self.response.__new__(self.response)
        attributes = response.__dict__
        attributes.update(self._other_attributes)
        attributes["status"] = status
        attributes["headers"] = fields
        attributes["stream"] = body
        attributes["extensions"] = extensions
        return response

    @property
    def has_own_requests(self) -> bool:
        """Whether the classes of requests and URLs are those of the package, so that making one has no effect."""
        public = sys.modules.get(self.name)
        request, url = getattr(public, "Request", None), getattr(public, "URL", None)
        return (request, url, getattr(request, "__init__", None), getattr(url, "__init__", None)) == self._requests

    def is_traced(self, extensions: Any) -> bool:
        """Return whether somebody wants to know the steps of a request: its program, or the log."""
        loggers = self.loggers
        return (
            extensions.get("trace") is not None
            or loggers["http11"].isEnabledFor(logging.DEBUG)
            or loggers["http2"].isEnabledFor(logging.DEBUG)
            or loggers["connection"].isEnabledFor(logging.DEBUG)
        )

    def trace(self, request: Any, *, is_async: bool) -> Trace | None:
        """Return what tells the steps of a request; None if nobody wants to know."""
        if not self.is_traced(request.extensions):
            return None
        return Trace(request.extensions.get("trace"), self.loggers, is_async=is_async)
