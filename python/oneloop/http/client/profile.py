"""`Profile`: what a client adds to every request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.http.client.auth import to_auth
from oneloop.http.client.codings import accepted
from oneloop.http.client.cookies import Cookies
from oneloop.http.client.headers import Headers, HeaderTypes
from oneloop.http.client.known import KnownHeads
from oneloop.http.client.pacing import Pace
from oneloop.http.client.protocols import NEVER, http2_of, offer
from oneloop.http.client.proxies import Proxies, Proxy
from oneloop.http.client.requests import Request
from oneloop.http.client.retries import Retry
from oneloop.http.client.settings import DEFAULT_LIMITS, DEFAULT_TIMEOUT, UNSET, Limits, Timeout
from oneloop.http.client.trust import context_for, needs_files
from oneloop.http.client.urls import URL, QueryParams, to_url

if TYPE_CHECKING:
    from oneloop.http.client.auth import Auth

__all__ = ["Profile"]


class Profile:
    """The settings of a client, which `AsyncClient` describes, and the requests that they make."""

    def __init__(
        self,
        *,
        auth: Any = None,
        params: Any = None,
        headers: HeaderTypes = None,
        cookies: Any = None,
        verify: Any = True,
        cert: Any = None,
        trust_env: bool = True,
        proxy: Proxy | URL | str | None = None,
        timeout: Any = DEFAULT_TIMEOUT,
        follow_redirects: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        max_redirects: int = 20,
        event_hooks: Mapping[str, list[Callable[..., Any]]] | None = None,
        base_url: URL | str = "",
        default_encoding: str | Callable[[bytes], str | None] = "utf-8",
        uds: str | None = None,
        local_address: str | None = None,
        retries: int | Retry = 0,
        max_response_bytes: int | None = None,
        dns_cache_s: float = 10.0,
        block_private: bool = False,
        http1: bool = True,
        http2: bool = False,
    ) -> None:
        self._http2 = http2_of(http1, http2)
        self._auth = to_auth(auth)
        self._params = QueryParams(params)
        self._headers = self._defaults(headers)
        self._cookies = Cookies(cookies)
        self._tls = _contexts(verify, cert, self._http2)
        self._trust_env = trust_env
        # The environment's proxies are for hosts.
        self._proxies = Proxies(proxy, trust_env=trust_env and uds is None)
        self._timeout = Timeout(timeout)
        self.follow_redirects = follow_redirects
        self.max_redirects = max_redirects
        self._limits = limits
        self.event_hooks = event_hooks or {}
        self._base_url = _with_slash(to_url(base_url))
        self._default_encoding = default_encoding
        self._uds, self._local_address = None if proxy is not None else uds, local_address
        self._retry = retries if isinstance(retries, Retry) else Retry(retries)
        self._max_response_bytes = max_response_bytes
        self._dns_cache_s, self._block_private = dns_cache_s, block_private
        self._pace = Pace(limits.max_requests_per_second)
        self._known = KnownHeads()
        self._is_closed = False

    @staticmethod
    def _defaults(headers: HeaderTypes) -> Headers:
        made = Headers(
            [
                ("Accept", "*/*"),
                ("Accept-Encoding", accepted()),
                ("User-Agent", f"oneloop/{_native.__version__}"),
            ]
        )
        made.update(headers)
        return made

    # -- settings --------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._is_closed

    @property
    def headers(self) -> Headers:
        """The fields of every request."""
        return self._headers

    @headers.setter
    def headers(self, headers: HeaderTypes) -> None:
        self._headers = self._defaults(headers)
        self._known.clear()

    @property
    def cookies(self) -> Cookies:
        """The cookies that responses have set, and those of the constructor."""
        return self._cookies

    @cookies.setter
    def cookies(self, cookies: Any) -> None:
        self._cookies = Cookies(cookies)

    @property
    def params(self) -> QueryParams:
        """The parameters of every URL."""
        return self._params

    @params.setter
    def params(self, params: Any) -> None:
        self._params = QueryParams(params)
        self._known.clear()

    @property
    def auth(self) -> Auth | None:
        """The authentication of every request."""
        return self._auth

    @auth.setter
    def auth(self, auth: Any) -> None:
        self._auth = to_auth(auth)
        self._known.clear()

    @property
    def timeout(self) -> Timeout:
        """The timeouts of every request."""
        return self._timeout

    @timeout.setter
    def timeout(self, timeout: Any) -> None:
        self._timeout = Timeout(timeout)

    @property
    def base_url(self) -> URL:
        """What URLs that are not absolute are added to."""
        return self._base_url

    @base_url.setter
    def base_url(self, url: URL | str) -> None:
        self._base_url = _with_slash(to_url(url))
        self._known.clear()

    @property
    def event_hooks(self) -> dict[str, list[Callable[..., Any]]]:
        """Functions that are called with each request before it is sent, and with each response."""
        return self._event_hooks

    @event_hooks.setter
    def event_hooks(self, hooks: Mapping[str, list[Callable[..., Any]]]) -> None:
        self._event_hooks = {"request": list(hooks.get("request", [])), "response": list(hooks.get("response", []))}

    @property
    def trust_env(self) -> bool:
        """Whether the environment's proxies are used."""
        return self._trust_env

    # -- requests --------------------------------------------------------------------------------

    def build_request(
        self,
        method: str,
        url: URL | str,
        *,
        content: Any = None,
        data: Any = None,
        files: Any = None,
        json: Any = None,
        params: Any = None,
        headers: HeaderTypes = None,
        cookies: Any = None,
        timeout: Any = UNSET,
        extensions: dict[str, Any] | None = None,
    ) -> Request:
        """Return a request with the settings of the client, to be sent with `send`."""
        fields = self._headers
        if headers is not None:
            fields = fields.copy()
            fields.update(headers)
        all_cookies = self._cookies
        if cookies is not None:
            all_cookies = Cookies(self._cookies)
            all_cookies.update(cookies)
        all_params = self._params.merge(params) if self._params else params
        extensions = dict(extensions or {})
        if "timeout" not in extensions:
            extensions["timeout"] = self._timeout if timeout is UNSET else Timeout(timeout)
        return Request(
            method,
            self._merged_url(url),
            params=all_params,
            headers=fields,
            cookies=all_cookies or None,
            content=content,
            data=data,
            files=files,
            json=json,
            extensions=extensions,
        )

    def _merged_url(self, url: URL | str) -> URL:
        made = to_url(url)
        if made.is_absolute_url or not self._base_url.is_absolute_url:
            return made
        return to_url(str(self._base_url) + str(made).lstrip("/"))


def _contexts(verify: Any, cert: Any, http2: int) -> Callable[[int], Any]:
    """Return what returns the TLS context for connections that speak HTTP/2 never, if agreed, or always."""
    known = cache(partial(context_for, verify, cert))
    if needs_files(verify, cert):
        known(http2)
    if http2 == NEVER:
        return known
    # A context that was given is the same for all of them: what it offers is said each time, as httpcore does it.
    return lambda http2: offer(known(http2), http2)


def _with_slash(url: URL) -> URL:
    """The URL that references are put behind: without a query."""
    text = str(url).partition("#")[0].partition("?")[0]
    return url if not text or text.endswith("/") else to_url(text + "/")
