"""`Blocking`: makes one attempt to request a URL with the client for blocking code, `oneloop.http.Client`."""

from __future__ import annotations

import ssl
import time
from dataclasses import replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from socket import gaierror
from typing import TYPE_CHECKING

from oneloop.check.cookies import Cookies
from oneloop.check.failures import Failure, words_of
from oneloop.check.result import Hop, Result
from oneloop.check.trust import context
from oneloop.check.urls import refuse_unusual, url_of
from oneloop.http.client.errors import (
    ConnectError,
    InvalidURL,
    PrivateAddress,
    ProxyError,
    RequestError,
    TimeoutException,
    UnsupportedProtocol,
)
from oneloop.http.client.settings import UNSET, Limits, Timeout
from oneloop.http.client.sync_client import Client

if TYPE_CHECKING:
    from oneloop.check.options import Options
    from oneloop.check.result import ErrorClass, Target
    from oneloop.http.client.requests import Request
    from oneloop.http.client.responses import Response

__all__ = ["Blocking"]

KEEP_ALIVE_S = 15.0
_LEFT_BYTES = 1 << 16
"""The body of a redirect is read up to this length, so that its connection can be used again."""


class Blocking:
    """An HTTP client for many URLs and any thread. Each thread has its own connections; green threads share theirs.

    Args:
        options: how to check.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client = Client(
            headers=[("User-Agent", options.user_agent), ("Accept-Encoding", "gzip, deflate"), *options.headers],
            # No URL sees the cookies of another: each has its own, in `_follow`.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=None,
            verify=context(options.insecure),
            proxy=options.proxy,
            trust_env=False,
            limits=Limits(
                max_connections=None, max_keepalive_connections=options.concurrency, keepalive_expiry=KEEP_ALIVE_S
            ),
            block_private=options.block_private,
        )

    def close(self) -> None:
        """End the attempts in progress, in all threads."""
        self._client.close()

    def fetch(self, target: Target) -> Result:
        """Request a URL and the URLs that it redirects to.

        Args:
            target: the URL.

        Returns:
            The result. Errors of the request are in it.
        """
        made = Result(target.number, target.url, final_url=target.url)
        began_s = time.monotonic()
        try:
            made = self._ask(self._options.method, made, began_s)
        except Failure as failure:
            made.status, made.error_text = None, failure.text or failure.kind
            made.error = failure.kind  # pyright: ignore[reportAttributeAccessIssue]
        except (RequestError, InvalidURL, ValueError) as error:
            made.status, made.error = None, _class_of(error)
            made.error_text = words_of(error.__cause__ or error)
        made.total_s = time.monotonic() - began_s
        return made

    def _ask(self, method: str, made: Result, began_s: float) -> Result:
        if method == "HEAD":
            first = replace(made)
            try:
                self._follow("HEAD", first, began_s)
            except RequestError as error:
                if _class_of(error) != "protocol":
                    raise
            else:
                if first.status not in (405, 501):
                    return first
        self._follow("GET", made, began_s)
        return made

    def _follow(self, method: str, made: Result, began_s: float) -> None:
        options = self._options
        text = url_of(made.url)
        first = self._client.build_request(method, text)
        # The program's own, for its own URL's place.
        given, own = first.headers.get("Cookie"), options.auth
        request: Request | None = first
        hops: list[Hop] = []
        cookies = Cookies()
        while request is not None:
            refuse_unusual(text, request.url.host, blocks_private=options.block_private)
            left_s = None if options.timeout_s is None else max(1e-9, began_s + options.timeout_s - time.monotonic())
            request.extensions["timeout"] = Timeout(None, total=left_s)
            sent_s = time.monotonic()
            in_url = request.url.username or request.url.password
            response = self._client.send(request, stream=True, auth=UNSET if own is None or in_url else own)
            try:
                made.first_byte_s = time.monotonic() - sent_s
                following = response.next_request if options.follow else None
                if following is None:
                    made.body_bytes = _read(response, 0 if method == "HEAD" else options.body_limit_bytes)
                    made.status = response.status_code
                else:
                    hops.append(Hop(response.status_code, str(request.url)))
                    text = response.headers["location"].strip()
                    cookies.keep(str(request.url), response.headers.get_list("Set-Cookie"))
                    if following.url.key != request.url.key:
                        given = own = None
                    found = [value for value in (given, cookies.value(str(following.url))) if value]
                    if found:
                        following.headers["Cookie"] = "; ".join(found)
                    _read(response, _LEFT_BYTES)
            finally:
                response.close()
            made.redirects, made.final_url = tuple(hops), str(request.url)
            if following is not None and len(hops) > options.max_redirects:
                raise Failure(
                    "too_many_redirects", f"more than {options.max_redirects} redirects, the last one by {request.url}"
                )
            request = following


def _read(response: Response, limit_bytes: int) -> int:
    """Read the body up to the limit, as it was sent. Returns how much was read; a longer one ends its connection."""
    len_bytes = 0
    for piece in response.iter_raw():
        len_bytes += len(piece)
        if len_bytes > limit_bytes:
            return limit_bytes
    return len_bytes


def _class_of(error: Exception) -> ErrorClass:
    if isinstance(error, TimeoutException):
        return "timeout"
    if isinstance(error, PrivateAddress):
        return "blocked"
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return "tls"
    if isinstance(error, ConnectError):
        return "dns" if isinstance(cause, (gaierror, UnicodeError)) else "connect"
    if isinstance(error, ProxyError):
        return "connect"
    return "invalid_url" if isinstance(error, (InvalidURL, UnsupportedProtocol, ValueError)) else "protocol"
