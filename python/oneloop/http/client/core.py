"""`Core`: one request from its arguments to its response, written once for coroutines, green threads and plain code."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from oneloop._native import framed_head
from oneloop.http.client import redirects
from oneloop.http.client.auth import Auth, BasicAuth, stepped, to_auth
from oneloop.http.client.bodies import Stream
from oneloop.http.client.callers import Caller, PlainCaller, watch_end
from oneloop.http.client.errors import (
    CloseError,
    RequestError,
    TooManyRedirects,
    TotalTimeout,
    TransportError,
    UnsupportedProtocol,
)
from oneloop.http.client.forks import forget_in_child
from oneloop.http.client.headers import Headers, HeaderTypes
from oneloop.http.client.known import KnownHead, kind_of_body
from oneloop.http.client.pools import Pool
from oneloop.http.client.profile import Profile
from oneloop.http.client.protocols import NEVER
from oneloop.http.client.requests import Request
from oneloop.http.client.responses import Response
from oneloop.http.client.retries import IDEMPOTENT
from oneloop.http.client.routes import Route
from oneloop.http.client.sending import CHUNKS, framed, send_body
from oneloop.http.client.settings import UNSET, Timeout
from oneloop.http.client.urls import URL
from oneloop.http.client.websockets import MAX_MESSAGE_BYTES, AsyncWebSocket, Handshake, WebSocket

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from oneloop.loop import Loop

__all__ = ["Core"]

S = TypeVar("S", AsyncWebSocket, WebSocket)

_HAS_COOKIES, _HAS_CODING = 1, 2


class Core(Profile):
    """What `AsyncClient` and `Client` have in common: the way of a request."""

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except TypeError as error:
            _name_called(error, f"{type(self).__name__}.__init__")
            raise
        # By the id of their loop.
        self._pools: dict[int, Pool] = {}
        forget_in_child(self)

    def _forget_parents(self) -> Any:
        """In a forked child: the connections are the parent's."""
        kept = dict(self._pools)
        # The same dictionary: the end of a thread knows it.
        self._pools.clear()
        self._known.clear()
        self._pace.forget_parents()
        return kept

    def statistics(self) -> dict[str, int]:
        """Return counters: `open`, `idle` and `waiting` as they are now; `opened`, `requests`, `repeated` in all.

        `waiting` requests have no connection yet; `repeated` ones were sent again because the server had closed a kept
        connection.
        """
        sums: dict[str, int] = dict.fromkeys(("open", "idle", "waiting", "opened", "requests", "repeated"), 0)
        for pool in list(self._pools.values()):
            for name, count in pool.counters().items():
                sums[name] += count
        return sums

    def _pool(self, caller: Caller) -> Pool:
        if self._is_closed:
            raise RuntimeError("Cannot send a request, as the client has been closed.")
        loop = caller.loop
        pool = self._pools.get(id(loop))
        if pool is None or pool.loop is not loop:
            # Other threads may do so at the same time.
            for key, kept in list(self._pools.items()):
                if kept.loop.is_closed():
                    self._pools.pop(key, None)
            pool = Pool(loop, self._limits, self._tls, self._local_address, self._dns_cache_s, self._block_private)
            self._pools[id(loop)] = pool
            self._known.forget_closed()
            if isinstance(caller, PlainCaller):
                # Not a method: the client must be free to go before the thread.
                watch_end(caller, partial(_forget, self._pools))
        return pool

    def _route(self, request: Request) -> Route:
        scheme, host, port = request.url.key
        if scheme not in ("http", "https"):
            if not scheme or not request.url.is_absolute_url:
                raise UnsupportedProtocol(
                    "Request URL is missing an 'http://' or 'https://' protocol.", request=request
                )
            raise UnsupportedProtocol(f"Request URL has an unsupported protocol '{scheme}://'.", request=request)
        sni = request.extensions.get("sni_hostname")
        proxy = None if self._proxies.is_empty else self._proxies.of(request.url)
        # A WebSocket begins in HTTP/1.1.
        http2 = NEVER if self._http2 == NEVER or "upgrade" in request.headers else self._http2
        route = Route(scheme, host, port, proxy, self._uds, sni, http2)
        if route.is_forwarded and request.headers.get("upgrade", "").lower() == "websocket":
            return replace(route, is_tunnelled=True)
        return route

    # -- sending ---------------------------------------------------------------------------------

    def _known_request(self, loop: Any, method: str, url: URL | str, arguments: dict[str, Any]) -> Any:
        """Return what is known of a request with nothing of its own but a body, its head and the body; else None."""
        kind = kind_of_body(arguments)
        if (
            kind is None
            or not self._cookies.is_empty
            or self._event_hooks["request"]
            or self._event_hooks["response"]
            or self._is_closed
        ):
            return None
        return self._known.find(loop, method, url, self._headers, self._timeout, kind, arguments)

    def _remember(self, loop: Any, request: Request, url: URL | str, kind: str) -> None:
        """Keep the head of a request of which `_known_request` may be asked."""
        pool = self._pools.get(id(loop))
        if (
            pool is None
            or self._event_hooks["request"]
            or self._event_hooks["response"]
            or self._auth is not None
            or self._retry.total
            or self._max_response_bytes is not None
            or self._timeout.total is not None
            or self._limits.max_requests_per_second is not None
            or self._default_encoding != "utf-8"
            or not self._cookies.is_empty
            or request.url.username
            or request.url.password
        ):
            return
        route = self._route(request)
        if not route.is_forwarded:
            self._known.keep(pool, pool.origin(route), request, url, self._headers, self._timeout, kind)

    async def _send_known(
        self, caller: Caller, method: str, url: str, known: KnownHead, head: bytes, content: bytes | None
    ) -> Response:
        """Send such a request and read the whole response."""
        timeout = known.timeout
        exchange = known.origin.start(
            method,
            head,
            content,
            False,
            False,
            method in IDEMPOTENT,
            timeout.native,
            None,
            caller.number,
            timeout.connect,
        )
        try:
            await exchange.whole()
        except RequestError as error:
            error._request = Request.of_head(method, url, head, timeout, content)
            raise
        except BaseException:
            # One that a signal handler raises before the wait has begun.
            exchange.close()
            raise
        body = exchange.take()
        response = Response.of_exchange(exchange, (method, url, head, timeout, content), caller, body)
        if exchange.has or 300 <= response.status_code < 400:
            return await self._finish_known(caller, exchange.has, response, body)
        return response

    async def _finish_known(self, caller: Caller, has: int, response: Response, body: bytes) -> Response:
        if has & _HAS_COOKIES:
            self._cookies.extract_cookies(response)
        if has & _HAS_CODING:
            response._decode(body)
        if 300 <= response.status_code < 400 and response.has_redirect_location:
            following = redirects.following(response.request, response, self._cookies)
            if not self.follow_redirects:
                response.next_request = following
                return response
            try:
                response = await self._send_with_redirects(caller, following, True, self._timeout, None, [response])
                await response.aread()
            except RequestError as error:
                if error._request is None:
                    error._request = following
                raise
        return response

    async def _request(
        self,
        caller: Caller,
        method: str,
        url: URL | str,
        *,
        auth: Any = UNSET,
        follow_redirects: Any = UNSET,
        **parts: Any,
    ) -> Response:
        try:
            # Not by `_built`, which costs a call.
            request = self.build_request(method, url, **parts)
        except TypeError as error:
            _name_called(error, f"{type(self).__name__}.{method.lower()}")
            raise
        response = await self._send(caller, request, auth=auth, follow_redirects=follow_redirects)
        kind = kind_of_body(parts) if auth is UNSET and follow_redirects is UNSET else None
        if kind is not None:
            self._remember(caller.loop, request, url, kind)
        return response

    def _built(self, called: str, method: str, url: URL | str, parts: dict[str, Any]) -> Request:
        """Return a request. The error for an unknown argument names the method that the program has called."""
        try:
            return self.build_request(method, url, **parts)
        except TypeError as error:
            _name_called(error, f"{type(self).__name__}.{called}")
            raise

    async def _send(
        self,
        caller: Caller,
        request: Request,
        *,
        stream: bool = False,
        auth: Any = UNSET,
        follow_redirects: Any = UNSET,
    ) -> Response:
        """Send a request; see `AsyncClient.send`."""
        follows = self.follow_redirects if follow_redirects is UNSET else bool(follow_redirects)
        given = request.extensions.get("timeout") or self._timeout
        timeout = given if isinstance(given, Timeout) else _timeout_of(given)
        deadline_s = None if timeout.total is None else caller.loop.time() + timeout.total
        chosen = self._auth_of(request, auth)
        try:
            response = await self._send_with_retries(caller, request, chosen, follows, timeout, deadline_s, stream)
        except RequestError as error:
            if error._request is None:
                error._request = request
            raise
        return response

    def _auth_of(self, request: Request, auth: Any) -> Auth:
        chosen = self._auth if auth is UNSET else to_auth(auth)
        if chosen is not None:
            return chosen
        url = request.url
        if auth is UNSET and (url.username or url.password):
            return BasicAuth(url.username, url.password)
        return _NO_AUTH

    async def _send_with_retries(
        self,
        caller: Caller,
        request: Request,
        auth: Auth,
        follows: bool,
        timeout: Timeout,
        deadline_s: float | None,
        stream: bool,
    ) -> Response:
        retry = self._retry

        async def sent() -> Response:
            response = await self._send_with_auth(caller, request, auth, follows, timeout, deadline_s)
            if not stream:
                await response.aread()
            return response

        for attempt in range(retry.total):
            delay_s: float | None = None
            try:
                response = await sent()
            except TransportError as error:
                if retry.wants_error(request, error):
                    delay_s = retry.delay_s(attempt, None)
                if delay_s is None or not _fits(caller, delay_s, deadline_s):
                    raise
            else:
                if retry.wants_status(request, response.status_code):
                    delay_s = retry.delay_s(attempt, response.headers.get("retry-after"))
                if delay_s is None or not await _may_repeat(caller, response, delay_s, deadline_s):
                    return response
            await caller.sleep(delay_s)
        return await sent()

    async def _send_with_auth(
        self, caller: Caller, request: Request, auth: Auth, follows: bool, timeout: Timeout, deadline_s: float | None
    ) -> Response:
        if auth is _NO_AUTH:
            return await self._send_with_redirects(caller, request, follows, timeout, deadline_s, [])
        if auth.requires_request_body:
            if caller.is_synchronous:
                request.read()
            else:
                await request.aread()
        flow = stepped(auth.sync_auth_flow(request)) if caller.is_synchronous else auth.async_auth_flow(request)
        history: list[Response] = []
        try:
            request = await anext(flow)
            while True:
                response = await self._send_with_redirects(caller, request, follows, timeout, deadline_s, history)
                try:
                    if auth.requires_response_body:
                        await response.aread()
                    try:
                        following = await flow.asend(response)
                    except StopAsyncIteration:
                        return response
                    response.history = list(history)
                    await response.aread()
                    request = following
                    history.append(response)
                except BaseException:
                    response._close()
                    raise
        finally:
            await flow.aclose()

    async def _send_with_redirects(
        self,
        caller: Caller,
        request: Request,
        follows: bool,
        timeout: Timeout,
        deadline_s: float | None,
        history: list[Response],
    ) -> Response:
        while True:
            if len(history) > self.max_redirects:
                raise TooManyRedirects("Exceeded maximum allowed redirects.", request=request)
            for hook in self._event_hooks["request"]:
                await _called(hook(request))
            response = await self._send_step(caller, request, timeout, deadline_s, history)
            try:
                for hook in self._event_hooks["response"]:
                    await _called(hook(response))
                if history:
                    response.history = list(history)
                if not response.has_redirect_location:
                    return response
                following = redirects.following(request, response, self._cookies)
                if not follows:
                    response.next_request = following
                    return response
                await response.aread()
                request = following
                history = [*history, response]
            except BaseException:
                response._close()
                raise

    async def _send_step(
        self, caller: Caller, request: Request, timeout: Timeout, deadline_s: float | None, history: list[Response]
    ) -> Response:
        """Send one of several requests. An error belongs to it, and knows whether there were others before."""
        try:
            return await self._send_once(caller, request, timeout, deadline_s)
        except RequestError as error:
            if error._request is None:
                error._request = request
            error._is_behind_others = bool(history)
            raise

    async def _wait_for_turn(self, caller: Caller, origin: Hashable, deadline_s: float | None) -> None:
        now = caller.loop.time()
        turn = self._pace.turn(origin, now, deadline_s)
        if turn is None:
            raise TotalTimeout("max_requests_per_second lets the request begin only after its total timeout")
        if turn <= now:
            return
        try:
            await caller.sleep(turn - now)
        except BaseException:
            self._pace.give_back(origin, turn)
            raise

    async def _send_once(
        self, caller: Caller, request: Request, timeout: Timeout, deadline_s: float | None
    ) -> Response:
        """Send a request on a connection. Returns the response when its head has arrived."""
        pool = self._pool(caller)
        route = self._route(request)
        if not self._pace.is_unlimited:
            await self._wait_for_turn(caller, (route.scheme, route.host, route.port), deadline_s)
        origin = pool.origin(route)
        body = request.stream
        # One that cannot be read, or not again, says so before anything is sent.
        read = body.reader(in_coroutine=not caller.is_synchronous) if isinstance(body, Stream) else None
        fields = request.headers.raw
        target = request.url.target
        if route.is_forwarded:
            target = str(request.url.copy_with(username=None, password=None, fragment=None))
            assert route.proxy is not None
            fields = fields + [(name.encode(), value.encode()) for name, value in route.proxy.fields()]
        head, length = framed_head(
            request.method.encode("ascii"), request.extensions.get("target") or target.encode("ascii"), fields
        )
        content = None if isinstance(body, Stream) else framed(request, body, length)
        waits_for_welcome = bool(content) and "expect" in request.headers
        is_later = content is None or waits_for_welcome
        exchange = origin.start(
            request.method,
            head,
            None if is_later else content or None,
            is_later,
            length == CHUNKS,
            request.method in IDEMPOTENT and not is_later,
            timeout.native,
            deadline_s,
            caller.number,
            timeout.connect,
        )
        try:
            if is_later:
                await send_body(caller, exchange, request, read or content or b"", length, deadline_s)
            await exchange.answered()
            response = Response.of_exchange(exchange, request, caller)
            response._limit_bytes = self._max_response_bytes
            if self._default_encoding != "utf-8":
                response.default_encoding = self._default_encoding
            if exchange.has & _HAS_COOKIES:
                self._cookies.extract_cookies(response)
        except BaseException:
            exchange.close()
            raise
        return response

    async def _download(
        self,
        caller: Caller,
        url: URL | str,
        path: Any,
        method: str,
        resume: bool,
        progress: Callable[[int, int | None], Any] | None,
        arguments: dict[str, Any],
    ) -> Response:
        """Download a file; see `AsyncClient.download`."""
        from oneloop.http.client.downloads import Download

        auth, follows = arguments.pop("auth", UNSET), arguments.pop("follow_redirects", UNSET)
        given = Headers(arguments.pop("headers", None))

        async def send(fields: dict[str, str]) -> Response:
            parts = {"headers": Headers([*fields.items(), *given.multi_items()]), **arguments}
            request = self._built("download", method, url, parts)
            return await self._send(caller, request, stream=True, auth=auth, follow_redirects=follows)

        return await Download(caller, path, resume, progress).run(send)

    async def _open_websocket(
        self,
        caller: Caller,
        make: type[S],
        url: URL | str,
        *,
        subprotocols: Sequence[str] = (),
        compress: bool = True,
        max_message_bytes: int | None = MAX_MESSAGE_BYTES,
        heartbeat: float | None = None,
        auth: Any = UNSET,
        follow_redirects: Any = UNSET,
        headers: HeaderTypes = None,
        **parts: Any,
    ) -> S:
        """Open a WebSocket; see `AsyncClient.websocket`."""
        made = self._merged_url(url)
        if made.scheme in ("ws", "wss"):
            made = made.copy_with(scheme="https" if made.scheme == "wss" else "http")
        handshake = Handshake(subprotocols, compress)
        fields = Headers(headers)
        fields.update(handshake.fields())
        request = self._built("websocket", "GET", made, {"headers": fields, **parts})
        response = await self._send(caller, request, stream=True, auth=auth, follow_redirects=follow_redirects)
        try:
            if response.status_code != 101:
                await response.aread()
            frames, subprotocol = handshake.frames(
                response, sys.maxsize if max_message_bytes is None else max_message_bytes
            )
            return make(response, frames, subprotocol, caller, heartbeat)
        except BaseException:
            response._close()
            raise

    def _close_pools(self) -> list[Pool]:
        self._is_closed = True
        pools = list(self._pools.values())
        self._pools.clear()
        self._known.clear()
        for pool in pools:
            pool.close()
        return pools


_NO_AUTH = Auth()


def _forget(pools: dict[int, Pool], loop: Loop) -> None:
    """Close the connections on a loop whose thread has ended."""
    pool = pools.pop(id(loop), None)
    if pool is not None:
        pool.close()


def _name_called(error: TypeError, called: str) -> None:
    """Let the error for an unknown argument name what the program has called, and not the method below it."""
    text = str(error)
    for own in ("Profile.__init__()", "Profile.build_request()"):
        if text.startswith(own):
            error.args = (f"{called}(){text.removeprefix(own)}",)


async def _may_repeat(caller: Caller, response: Response, delay_s: float, deadline_s: float | None) -> bool:
    """Read a response that nobody wants, for its connection. Returns whether there is time for another request.

    Raises:
        RequestError: it cannot be read, and it is the last one, or nothing can follow.
    """
    if not _fits(caller, delay_s, deadline_s):
        return False
    try:
        await response.aread()
    except (TotalTimeout, CloseError):
        raise
    except RequestError:
        if not _fits(caller, delay_s, deadline_s):
            raise
        return True
    # Reading has taken time, too.
    return _fits(caller, delay_s, deadline_s)


def _fits(caller: Caller, delay_s: float, deadline_s: float | None) -> bool:
    return deadline_s is None or caller.loop.time() + delay_s < deadline_s


async def _called(result: Any) -> None:
    if isinstance(result, Awaitable):
        await result


def _timeout_of(extension: Any) -> Timeout:
    """The extension `timeout` as httpx has it: a dictionary."""
    if isinstance(extension, Mapping):
        return Timeout(**{phase: extension.get(phase) for phase in ("connect", "read", "write", "pool")})
    return Timeout(extension)
