"""An HTTP client and server, for HTTP/1.1, HTTP/2 and WebSocket.

The client: `AsyncClient` for coroutines, `Client` for green threads and plain code, and functions such as `get`. Its
names, arguments and exceptions are those of httpx.

The server, with WebSocket, for ASGI and WSGI applications: call `await serve(app, port=8000)` in a coroutine, or
`run(app, workers=4)` in a program that does nothing else. The command is `oneloop serve package.module:app`. All three
have the same options; see `Options`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneloop.http.application import LoadError
    from oneloop.http.client.async_client import AsyncClient
    from oneloop.http.client.auth import Auth, BasicAuth, DigestAuth, FunctionAuth, NetRCAuth
    from oneloop.http.client.cookies import Cookies
    from oneloop.http.client.errors import (
        CloseError,
        ConnectError,
        ConnectTimeout,
        CookieConflict,
        DecodingError,
        HTTPError,
        HTTPStatusError,
        InvalidURL,
        LocalProtocolError,
        NetworkError,
        PoolTimeout,
        PrivateAddress,
        ProtocolError,
        ProxyError,
        ReadError,
        ReadTimeout,
        RemoteProtocolError,
        RequestError,
        RequestNotRead,
        ResponseNotRead,
        ResponseTooLarge,
        StreamClosed,
        StreamConsumed,
        StreamError,
        TimeoutException,
        TooManyRedirects,
        TotalTimeout,
        TransportError,
        UnsupportedProtocol,
        WebSocketDisconnect,
        WebSocketUpgradeError,
        WriteError,
        WriteTimeout,
    )
    from oneloop.http.client.headers import Headers
    from oneloop.http.client.httpx_transports import AsyncHttpxTransport, HttpxTransport
    from oneloop.http.client.proxies import Proxy
    from oneloop.http.client.requests import Request
    from oneloop.http.client.requests_adapter import RequestsAdapter as RequestsAdapter
    from oneloop.http.client.responses import Response
    from oneloop.http.client.retries import Retry
    from oneloop.http.client.server_sent import EventSource, ServerSentEvent, SSEError
    from oneloop.http.client.settings import Limits, Timeout
    from oneloop.http.client.sync_client import (
        Client,
        delete,
        get,
        head,
        options,
        patch,
        post,
        put,
        query,
        request,
        stream,
    )
    from oneloop.http.client.urls import URL, QueryParams
    from oneloop.http.client.websockets import AsyncWebSocket, WebSocket
    from oneloop.http.errors import DisconnectedError
    from oneloop.http.lifespan import LifespanError
    from oneloop.http.listeners import ListenError
    from oneloop.http.options import OptionError, Options
    from oneloop.http.service import run, serve

__all__ = [
    "URL",
    "AsyncClient",
    "AsyncHttpxTransport",
    "AsyncWebSocket",
    "Auth",
    "BasicAuth",
    "Client",
    "CloseError",
    "ConnectError",
    "ConnectTimeout",
    "CookieConflict",
    "Cookies",
    "DecodingError",
    "DigestAuth",
    "DisconnectedError",
    "EventSource",
    "FunctionAuth",
    "HTTPError",
    "HTTPStatusError",
    "Headers",
    "HttpxTransport",
    "InvalidURL",
    "LifespanError",
    "Limits",
    "ListenError",
    "LoadError",
    "LocalProtocolError",
    "NetRCAuth",
    "NetworkError",
    "OptionError",
    "Options",
    "PoolTimeout",
    "PrivateAddress",
    "ProtocolError",
    "Proxy",
    "ProxyError",
    "QueryParams",
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "Request",
    "RequestError",
    "RequestNotRead",
    "Response",
    "ResponseNotRead",
    "ResponseTooLarge",
    "Retry",
    "SSEError",
    "ServerSentEvent",
    "StreamClosed",
    "StreamConsumed",
    "StreamError",
    "Timeout",
    "TimeoutException",
    "TooManyRedirects",
    "TotalTimeout",
    "TransportError",
    "UnsupportedProtocol",
    "WebSocket",
    "WebSocketDisconnect",
    "WebSocketUpgradeError",
    "WriteError",
    "WriteTimeout",
    "delete",
    "get",
    "head",
    "options",
    "patch",
    "post",
    "put",
    "query",
    "request",
    "run",
    "serve",
    "stream",
]

# Module -> its public names. They are loaded lazily, because a parent process does not need the workers' modules, and a
# client not the server's.
_NAMES = {
    "errors": ("DisconnectedError",),
    "lifespan": ("LifespanError",),
    "listeners": ("ListenError",),
    "application": ("LoadError",),
    "options": ("OptionError", "Options"),
    "service": ("run", "serve"),
    "client.async_client": ("AsyncClient",),
    "client.auth": ("Auth", "BasicAuth", "DigestAuth", "FunctionAuth", "NetRCAuth"),
    "client.cookies": ("Cookies",),
    "client.errors": (
        "CloseError",
        "ConnectError",
        "ConnectTimeout",
        "CookieConflict",
        "DecodingError",
        "HTTPError",
        "HTTPStatusError",
        "InvalidURL",
        "LocalProtocolError",
        "NetworkError",
        "PoolTimeout",
        "PrivateAddress",
        "ProtocolError",
        "ProxyError",
        "ReadError",
        "ReadTimeout",
        "RemoteProtocolError",
        "RequestError",
        "RequestNotRead",
        "ResponseNotRead",
        "ResponseTooLarge",
        "StreamClosed",
        "StreamConsumed",
        "StreamError",
        "TimeoutException",
        "TooManyRedirects",
        "TotalTimeout",
        "TransportError",
        "UnsupportedProtocol",
        "WebSocketDisconnect",
        "WebSocketUpgradeError",
        "WriteError",
        "WriteTimeout",
    ),
    "client.headers": ("Headers",),
    "client.httpx_transports": ("AsyncHttpxTransport", "HttpxTransport"),
    "client.proxies": ("Proxy",),
    "client.requests": ("Request",),
    "client.requests_adapter": ("RequestsAdapter",),
    "client.responses": ("Response",),
    "client.retries": ("Retry",),
    "client.server_sent": ("EventSource", "SSEError", "ServerSentEvent"),
    "client.settings": ("Limits", "Timeout"),
    "client.sync_client": (
        "Client",
        "delete",
        "get",
        "head",
        "options",
        "patch",
        "post",
        "put",
        "query",
        "request",
        "stream",
    ),
    "client.urls": ("URL", "QueryParams"),
    "client.websockets": ("AsyncWebSocket", "WebSocket"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


if not TYPE_CHECKING:  # with a `__getattr__`, a type checker would accept any name

    def __getattr__(name):
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module 'oneloop.http' has no attribute {name!r}")
        if module == "service":
            # Where it cannot be imported, in a subinterpreter, the error is raised here.
            import_module("oneloop._native")
        value = getattr(import_module(f"oneloop.http.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
