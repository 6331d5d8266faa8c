"""`AsyncClient`: the client for coroutines."""

from __future__ import annotations

from asyncio.events import _get_running_loop
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from oneloop.http.client.callers import CoroutineCaller, caller_of_here
from oneloop.http.client.core import Core
from oneloop.http.client.headers import Headers
from oneloop.http.client.requests import Request
from oneloop.http.client.responses import Response
from oneloop.http.client.server_sent import MAX_EVENT_BYTES, WANTS_EVENTS, EventSource
from oneloop.http.client.settings import UNSET
from oneloop.http.client.urls import URL
from oneloop.http.client.websockets import AsyncWebSocket

if TYPE_CHECKING:
    from typing import Unpack

    from oneloop.http.client.arguments import Sent

__all__ = ["AsyncClient"]


class AsyncClient(Core):
    """An HTTP client for coroutines on a oneloop loop. It keeps connections, cookies and settings.

    Use it in `async with`, or call `aclose()`. Use it on one loop, or on several one after the other. The names of
    arguments, methods and exceptions are those of httpx.

    Args:
        auth: user and password, a function, or an `Auth`.
        params: the query of every URL, in place of its own.
        headers: sent with every request.
        cookies: sent with every request.
        verify: True: the system's certificate authorities; False: no check; a path; or an `ssl.SSLContext` or
            `oneloop.tls` context.
        cert: a client certificate: a path, or (path, key), or (path, key, password).
        trust_env: use the proxies of the environment.
        proxy: a URL or `Proxy` for all requests.
        timeout: seconds for each phase (5), or a `Timeout`.
        follow_redirects: follow them, up to `max_redirects`.
        limits: the numbers of connections; see `Limits`.
        max_redirects: how many redirects are followed.
        event_hooks: `{"request": [...], "response": [...]}`: functions or coroutine functions.
        base_url: what URLs that are not absolute are added to.
        default_encoding: the charset of text without one, or a function that is called with the body and returns it.
        uds: the path of a Unix socket for all connections, unless there is a `proxy`.
        local_address: the address to connect from.
        retries: how often requests are sent again, or a `Retry`.
        max_response_bytes: the longest body that is read whole, decoded; longer ones raise ResponseTooLarge.
        dns_cache_s: how long the addresses of a name are kept, in seconds; 0: not at all. They are looked up anew
            when none of them takes a connection.
        block_private: refuse to connect to addresses outside of the public Internet, which URLs of strangers and
            redirects may lead to: PrivateAddress. Names that a proxy resolves, and `uds`, are not looked at.
        http1: speak HTTP/1.1.
        http2: speak HTTP/2 if an https server agrees; without `http1`, always, also over plain http.
    """

    _caller: CoroutineCaller | None = None

    async def request(
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
        """Send a request and read the whole response.

        Args:
            method: such as "GET".
            url: absolute, or added to `base_url`.
            content: the body: bytes, text, a file, an iterable or asynchronous iterable of bytes.
            data: the body: a form.
            files: the body: a multipart form; see `multipart.Multipart`.
            json: the body: anything that `json.dumps` can encode.
            params: the query, in place of the URL's own; those of the client are added.
            headers: in place of those of the client with the same names.
            cookies: besides those of the client.
            auth: in place of the client's; None: none.
            follow_redirects: in place of the client's.
            timeout: in place of the client's.
            extensions: `timeout`, `sni_hostname`, `target`.

        Raises:
            InvalidURL: the URL cannot be parsed.
            RequestError: there is no response; its subclass says why.
            RuntimeError: the client is closed, or the loop is not oneloop's.
        """
        return await self._request(
            self._caller_here(), method, url, content=content, data=data, files=files, json=json, params=params,
            headers=headers, cookies=cookies, auth=auth, follow_redirects=follow_redirects, timeout=timeout,
            extensions=extensions,
        )  # fmt: skip

    async def _simple(self, method: str, url: URL | str, arguments: Any) -> Response:
        """A request whose arguments may be those of one that was sent before."""
        caller = self._caller_here()
        known = self._known_request(caller.loop, method, url, arguments)
        if known is not None:
            return await self._send_known(caller, method, url, *known)  # type: ignore[arg-type]
        return await self._request(caller, method, url, **arguments)

    def _caller_here(self) -> CoroutineCaller:
        caller = self._caller
        if caller is None or caller.loop is not _get_running_loop():
            caller = self._caller = caller_of_here()
        return caller

    async def send(
        self, request: Request, *, stream: bool = False, auth: Any = UNSET, follow_redirects: Any = UNSET
    ) -> Response:
        """Send a request from `build_request`. With `stream`, the body is not read, and the response must be closed.

        Raises:
            RequestError: there is no response.
            RuntimeError: the client is closed.
        """
        return await self._send(
            self._caller_here(), request, stream=stream, auth=auth, follow_redirects=follow_redirects
        )

    @asynccontextmanager
    async def stream(self, method: str, url: URL | str, **arguments: Any) -> AsyncIterator[Response]:
        """Send a request. In the `async with` statement the body is read with `aiter_bytes` and similar methods.

        The arguments are those of `request`.
        """
        auth = arguments.pop("auth", UNSET)
        follow_redirects = arguments.pop("follow_redirects", UNSET)
        request = self._built("stream", method, url, arguments)
        response = await self.send(request, stream=True, auth=auth, follow_redirects=follow_redirects)
        try:
            yield response
        finally:
            await response.aclose()

    @asynccontextmanager
    async def sse(
        self, url: URL | str, *, method: str = "GET", max_event_size: int | None = MAX_EVENT_BYTES, **arguments: Any
    ) -> AsyncIterator[EventSource]:
        """Send a request for Server-Sent Events. In the `async with` statement, iterate over the events.

        Args:
            url: absolute, or added to `base_url`.
            method: such as "POST".
            max_event_size: the most bytes of one event; None: no limit.
            **arguments: as in `request`.
        """
        headers = {**WANTS_EVENTS, **Headers(arguments.pop("headers", None))}
        async with self.stream(method, url, headers=headers, **arguments) as response:
            yield EventSource(response, max_event_size)

    async def download(
        self,
        url: URL | str,
        path: Any,
        *,
        method: str = "GET",
        resume: bool = False,
        progress: Callable[[int, int | None], Any] | None = None,
        **arguments: Any,
    ) -> Response:
        """Send a request, and write the body of its response to a file, which is there whole or not at all.

        Args:
            url: absolute, or added to `base_url`.
            path: the file. The body is written to `path` with `.part` behind it first.
            method: such as "POST".
            resume: continue a part that an earlier attempt has left, if the server still has the same content.
            progress: is called with the bytes that are there, and the length if the server has said it.
            **arguments: as in `request`.

        Returns:
            The response, closed, without its content.

        Raises:
            HTTPStatusError: the status is not 2xx.
            RequestError: there is no response, or it did not arrive whole.
            OSError: the file cannot be written.
        """
        return await self._download(self._caller_here(), url, path, method, resume, progress, arguments)

    @asynccontextmanager
    async def websocket(self, url: URL | str, **arguments: Any) -> AsyncIterator[AsyncWebSocket]:
        """Open a WebSocket, which is closed at the end of the `async with` statement.

        Args:
            url: `ws`, `wss`, `http` or `https`; absolute, or added to `base_url`.
            **arguments: those of `request`, and: `subprotocols`, the best one first; `compress`: offer
                permessage-deflate (True); `max_message_bytes`: of a message that is received (16 MiB; None: no limit);
                `heartbeat`: seconds between pings; if nothing comes between two of them, the connection is cut.

        Raises:
            WebSocketUpgradeError: the server does not accept it.
            RequestError: there is no response.
        """
        socket = await self._open_websocket(self._caller_here(), AsyncWebSocket, url, **arguments)
        async with socket:
            yield socket

    async def get(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a GET request; see `request`."""
        return await self._simple("GET", url, arguments)

    async def options(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send an OPTIONS request; see `request`."""
        return await self._simple("OPTIONS", url, arguments)

    async def head(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a HEAD request; see `request`."""
        return await self._simple("HEAD", url, arguments)

    async def post(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a POST request; see `request`."""
        return await self._simple("POST", url, arguments)

    async def put(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a PUT request; see `request`."""
        return await self._simple("PUT", url, arguments)

    async def patch(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a PATCH request; see `request`."""
        return await self._simple("PATCH", url, arguments)

    async def delete(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a DELETE request; see `request`."""
        return await self._simple("DELETE", url, arguments)

    async def query(self, url: URL | str, **arguments: Unpack[Sent]) -> Response:
        """Send a QUERY request, which is a GET with a body; see `request`."""
        return await self._simple("QUERY", url, arguments)

    async def aclose(self) -> None:
        """Close all connections. Requests that are under way fail with CloseError."""
        here = None if self._is_closed else caller_of_here().loop
        for pool in self._close_pools():
            if pool.loop is here:
                await pool.wait_closed()

    async def __aenter__(self) -> Self:
        if self._is_closed:
            raise RuntimeError("Cannot reopen a client instance, once it has been closed.")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
