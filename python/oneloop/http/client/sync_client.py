"""`Client`: the client for green threads and plain code, and functions for single requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from oneloop.http.client.callers import Callers
from oneloop.http.client.core import Core
from oneloop.http.client.headers import Headers
from oneloop.http.client.requests import Request
from oneloop.http.client.responses import Response
from oneloop.http.client.server_sent import MAX_EVENT_BYTES, WANTS_EVENTS, EventSource
from oneloop.http.client.settings import UNSET
from oneloop.http.client.urls import URL
from oneloop.http.client.websockets import WebSocket

if TYPE_CHECKING:
    from typing import Unpack

    from oneloop.http.client.arguments import Sent

__all__ = ["Client", "delete", "get", "head", "options", "patch", "post", "put", "query", "request", "stream"]


class Client(Core):
    """An HTTP client for green threads and for code without a loop. It keeps connections, cookies and settings.

    In a green thread, other green threads run while it waits. In plain code it runs a loop of its own for each thread,
    only while that thread waits. Any thread may use it; each has its own connections. Use it in `with`, or call
    `close()`. The arguments are those of `AsyncClient`, with functions and iterables that are not asynchronous.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._callers = Callers()

    def request(
        self,
        method: str,
        url: URL | str,
        *,
        content: Any = None,
        data: Any = None,
        files: Any = None,
        json: Any = None,
        params: Any = None,
        headers: Any = None,
        cookies: Any = None,
        auth: Any = UNSET,
        follow_redirects: Any = UNSET,
        timeout: Any = UNSET,
        extensions: dict[str, Any] | None = None,
    ) -> Response:
        """Send a request and read the whole response; see `AsyncClient.request`."""
        caller = self._callers.here()
        return caller.run(
            self._request(
                caller, method, url, content=content, data=data, files=files, json=json, params=params,
                headers=headers, cookies=cookies, auth=auth, follow_redirects=follow_redirects, timeout=timeout,
                extensions=extensions,
            )
        )  # fmt: skip

    def _simple(self, method: str, url: URL | str, arguments: Any) -> Response:
        """A request whose arguments may be those of one that was sent before."""
        caller = self._callers.here()
        known = self._known_request(caller.loop, method, url, arguments)
        if known is not None:
            return caller.run(self._send_known(caller, method, url, *known))  # type: ignore[arg-type]
        return caller.run(self._request(caller, method, url, **arguments))

    def send(
        self, request: Request, *, stream: bool = False, auth: Any = UNSET, follow_redirects: Any = UNSET
    ) -> Response:
        """Send a request from `build_request`. With `stream`, the body is not read, and the response must be closed."""
        caller = self._callers.here()
        return caller.run(self._send(caller, request, stream=stream, auth=auth, follow_redirects=follow_redirects))

    @contextmanager
    def stream(self, method: str, url: URL | str, **arguments: Any) -> Iterator[Response]:
        """Send a request. In the `with` statement the body is read with `iter_bytes` and similar methods.

        The arguments are those of `request`.
        """
        auth = arguments.pop("auth", UNSET)
        follow_redirects = arguments.pop("follow_redirects", UNSET)
        request = self._built("stream", method, url, arguments)
        response = self.send(request, stream=True, auth=auth, follow_redirects=follow_redirects)
        try:
            yield response
        finally:
            response.close()

    @contextmanager
    def sse(
        self, url: URL | str, *, method: str = "GET", max_event_size: int | None = MAX_EVENT_BYTES, **arguments: Any
    ) -> Iterator[EventSource]:
        """Send a request for Server-Sent Events; see `AsyncClient.sse`."""
        headers = {**WANTS_EVENTS, **Headers(arguments.pop("headers", None))}
        with self.stream(method, url, headers=headers, **arguments) as response:
            yield EventSource(response, max_event_size)

    def download(
        self,
        url: URL | str,
        path: Any,
        *,
        method: str = "GET",
        resume: bool = False,
        progress: Callable[[int, int | None], Any] | None = None,
        **arguments: Any,
    ) -> Response:
        """Send a request, and write the body of its response to a file; see `AsyncClient.download`."""
        caller = self._callers.here()
        return caller.run(self._download(caller, url, path, method, resume, progress, arguments))

    @contextmanager
    def websocket(self, url: URL | str, **arguments: Any) -> Iterator[WebSocket]:
        """Open a WebSocket, which is closed at the end of the `with` statement; see `AsyncClient.websocket`."""
        caller = self._callers.here()
        with caller.run(self._open_websocket(caller, WebSocket, url, **arguments)) as socket:
            yield socket

    def get(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a GET request; see `request`."""
        return self._simple("GET", url, arguments)

    def options(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send an OPTIONS request; see `request`."""
        return self._simple("OPTIONS", url, arguments)

    def head(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a HEAD request; see `request`."""
        return self._simple("HEAD", url, arguments)

    def post(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a POST request; see `request`."""
        return self._simple("POST", url, arguments)

    def put(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a PUT request; see `request`."""
        return self._simple("PUT", url, arguments)

    def patch(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a PATCH request; see `request`."""
        return self._simple("PATCH", url, arguments)

    def delete(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a DELETE request; see `request`."""
        return self._simple("DELETE", url, arguments)

    def query(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a QUERY request, which is a GET with a body; see `request`."""
        return self._simple("QUERY", url, arguments)

    def close(self) -> None:
        """Close all connections."""
        self._callers.finish(self._close_pools, is_final=True)

    def __enter__(self) -> Self:
        if self._is_closed:
            raise RuntimeError("Cannot reopen a client instance, once it has been closed.")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_OF_CLIENT = ("cookies", "proxy", "timeout", "follow_redirects", "verify", "trust_env")


def request(method: str, url: URL | str, **arguments: Any) -> Response:
    """Send one request with a client of its own.

    The arguments are those of `Client.request`, and of `Client` `proxy`, `verify` and `trust_env`.
    """
    settings = {name: arguments.pop(name) for name in _OF_CLIENT if name in arguments}
    with Client(**settings) as client:
        return client.request(method, url, **arguments)


@contextmanager
def stream(method: str, url: URL | str, **arguments: Any) -> Iterator[Response]:
    """Send one request with a client of its own, and stream its response; see `Client.stream`."""
    settings = {name: arguments.pop(name) for name in _OF_CLIENT if name in arguments}
    with Client(**settings) as client, client.stream(method, url, **arguments) as response:
        yield response


def get(url: URL | str, **arguments: Any) -> Response:
    """Send a GET request; see `request`."""
    return request("GET", url, **arguments)


def options(url: URL | str, **arguments: Any) -> Response:
    """Send an OPTIONS request; see `request`."""
    return request("OPTIONS", url, **arguments)


def head(url: URL | str, **arguments: Any) -> Response:
    """Send a HEAD request; see `request`."""
    return request("HEAD", url, **arguments)


def post(url: URL | str, **arguments: Any) -> Response:
    """Send a POST request; see `request`."""
    return request("POST", url, **arguments)


def put(url: URL | str, **arguments: Any) -> Response:
    """Send a PUT request; see `request`."""
    return request("PUT", url, **arguments)


def patch(url: URL | str, **arguments: Any) -> Response:
    """Send a PATCH request; see `request`."""
    return request("PATCH", url, **arguments)


def delete(url: URL | str, **arguments: Any) -> Response:
    """Send a DELETE request; see `request`."""
    return request("DELETE", url, **arguments)


def query(url: URL | str, **arguments: Any) -> Response:
    """Send a QUERY request; see `request`."""
    return request("QUERY", url, **arguments)
