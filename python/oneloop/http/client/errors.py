"""The exceptions of the client. Names and tree are httpx's.

New are `TotalTimeout`, `PrivateAddress`, `ResponseTooLarge` and those of WebSockets.

```text
HTTPError
├── RequestError
│   ├── TransportError
│   │   ├── TimeoutException: ConnectTimeout, ReadTimeout, WriteTimeout, PoolTimeout, TotalTimeout
│   │   ├── NetworkError: ConnectError (PrivateAddress), ReadError, WriteError, CloseError
│   │   ├── ProtocolError: LocalProtocolError, RemoteProtocolError
│   │   ├── ProxyError
│   │   ├── WebSocketUpgradeError, WebSocketDisconnect
│   │   └── UnsupportedProtocol
│   ├── DecodingError
│   ├── ResponseTooLarge
│   └── TooManyRedirects
└── HTTPStatusError
InvalidURL
CookieConflict
StreamError (RuntimeError): StreamConsumed, StreamClosed, ResponseNotRead, RequestNotRead
```
"""

from __future__ import annotations

# N818: the names are httpx's.
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneloop.http.client.requests import Request
    from oneloop.http.client.responses import Response

__all__ = [
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
]


def _restored(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """Make a pickled exception anew. What an exception needs to be made differs, what it consists of does not."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class HTTPError(Exception):
    """Base class of what can go wrong with a request, and of `HTTPStatusError`."""

    def __init__(self, message: str, *, request: Request | None = None) -> None:
        super().__init__(message)
        self._request = request

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)

    @property
    def request(self) -> Request:
        """The request that failed.

        Raises:
            RuntimeError: the exception does not belong to a request.
        """
        if self._request is None:
            raise RuntimeError("The .request property has not been set.")
        return self._request

    @request.setter
    def request(self, request: Request) -> None:
        self._request = request


class RequestError(HTTPError):
    """The request has no usable response."""

    # It is of a redirect, or of a later step of an authentication.
    _is_behind_others = False


class TransportError(RequestError):
    """The request could not be sent, or its response could not be received."""


class TimeoutException(TransportError):  # noqa: N818
    """A phase took longer than allowed."""


class ConnectTimeout(TimeoutException):
    """No connection could be opened in time."""


class ReadTimeout(TimeoutException):
    """The server did not send in time."""


class WriteTimeout(TimeoutException):
    """The server did not read the request in time."""


class PoolTimeout(TimeoutException):
    """No connection became free in time."""


class TotalTimeout(TimeoutException):
    """The whole request, with redirects and retries, took longer than `Timeout.total`."""


class NetworkError(TransportError):
    """The network failed."""


class ConnectError(NetworkError):
    """No connection could be opened."""


class PrivateAddress(ConnectError):  # noqa: N818
    """The host is not on the public Internet, and the client was made with `block_private=True`."""


class ReadError(NetworkError):
    """The connection failed while the response was received."""


class WriteError(NetworkError):
    """The connection failed while the request was sent."""


class CloseError(NetworkError):
    """The client was closed while the request was under way."""


class ProtocolError(TransportError):
    """One of the sides does not keep to HTTP."""


class LocalProtocolError(ProtocolError):
    """The request is not valid HTTP, such as a header with a line end in it."""


class RemoteProtocolError(ProtocolError):
    """The server's response is not valid HTTP, or ends too early."""


class ProxyError(TransportError):
    """The proxy refused."""


class UnsupportedProtocol(TransportError):  # noqa: N818
    """The URL has another scheme than http and https."""


class WebSocketUpgradeError(TransportError):
    """The server did not accept a WebSocket. `response` is its response; the body of a refusal is there.

    Args:
        message: why.
        response: the response.
    """

    def __init__(self, message: str, response: Response) -> None:
        super().__init__(message, request=response.request)
        self.response = response


class WebSocketDisconnect(TransportError):  # noqa: N818
    """The WebSocket is closed. `code` and `reason` are those of RFC 6455 section 7.4; 1006: without a close frame.

    Args:
        code: why.
        reason: the same in words.
        request: that of the handshake.
    """

    def __init__(self, code: int, reason: str, *, request: Request | None = None) -> None:
        super().__init__(f"the WebSocket is closed: {code} {reason}".rstrip(), request=request)
        self.code = code
        self.reason = reason


class DecodingError(RequestError):
    """The body is not what its Content-Encoding says."""


class ResponseTooLarge(RequestError):  # noqa: N818
    """The body is longer than the limit of the client."""


class TooManyRedirects(RequestError):  # noqa: N818
    """The server redirected more than `max_redirects` times."""


class HTTPStatusError(HTTPError):
    """The status is not 2xx: raised by `Response.raise_for_status` and by `download`."""

    def __init__(self, message: str, *, request: Request, response: Response) -> None:
        super().__init__(message, request=request)
        self.response = response


class InvalidURL(Exception):  # noqa: N818
    """The URL cannot be parsed."""


class CookieConflict(Exception):  # noqa: N818
    """Several cookies have the name: say which domain or path is meant."""


class StreamError(RuntimeError):
    """The body was used in a way that is not possible, which is an error in the program."""

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


class StreamConsumed(StreamError):  # noqa: N818
    """The body was read already, and was not kept."""

    def __init__(self) -> None:
        super().__init__(
            "Attempted to read or stream some content, but the content has already been streamed. For requests, this "
            "could be due to passing a generator as request content, and then receiving a redirect response or a "
            "secondary request as part of an authentication flow. For responses, this could be due to attempting to "
            "stream the response content more than once."
        )


class StreamClosed(StreamError):  # noqa: N818
    """The response was closed before its body was read."""

    def __init__(self) -> None:
        super().__init__("Attempted to read or stream content, but the stream has been closed.")


class ResponseNotRead(StreamError):  # noqa: N818
    """The body of a streamed response was not read."""

    def __init__(self) -> None:
        super().__init__("Attempted to access streaming response content, without having called `read()`.")


class RequestNotRead(StreamError):  # noqa: N818
    """The body of a streamed request was not read."""

    def __init__(self) -> None:
        super().__init__("Attempted to access streaming request content, without having called `read()`.")
