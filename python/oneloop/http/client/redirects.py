"""The request that follows a redirect (RFC 9110 section 15.4, and what browsers do)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneloop.http.client.errors import InvalidURL, RemoteProtocolError
from oneloop.http.client.headers import Headers
from oneloop.http.client.requests import Request
from oneloop.http.client.urls import URL

if TYPE_CHECKING:
    from oneloop.http.client.cookies import Cookies
    from oneloop.http.client.responses import Response

__all__ = ["following"]


def following(request: Request, response: Response, cookies: Cookies) -> Request:
    """Return the request that a redirect asks for.

    Args:
        request: the one that was redirected.
        response: the redirect.
        cookies: those of the client, for the new URL.

    Raises:
        RemoteProtocolError: the location is no URL.
    """
    method = _method(request, response)
    url = _url(request, response)
    is_same = url.key == request.url.key
    headers = Headers(request.headers)
    if not is_same:
        # An upgrade from http to https of the same host may see the credentials.
        is_upgrade = (
            url.host == request.url.host
            and (request.url.scheme, url.scheme) == ("http", "https")
            and (request.url.key[2], url.key[2]) == (80, 443)
        )
        if not is_upgrade:
            headers.pop("Authorization", None)
        headers["Host"] = url.netloc
    if method != request.method:
        # It is a GET without a body now.
        headers.pop("Content-Length", None)
        headers.pop("Transfer-Encoding", None)
        headers.pop("Content-Type", None)
    headers.pop("Cookie", None)
    return Request(
        method,
        url,
        headers=headers,
        cookies=cookies or None,
        extensions=request.extensions,
        content=None,
        stream=None if method != request.method else request.stream,  # type: ignore[arg-type]
    )


def _method(request: Request, response: Response) -> str:
    method, status = request.method, response.status_code
    if status == 303 and method != "HEAD":
        return "GET"
    # A QUERY asks the same at the other place (RFC 10008 section 2.5).
    if status == 302 and method not in ("HEAD", "QUERY"):
        return "GET"
    if status == 301 and method == "POST":
        return "GET"
    return method


def _url(request: Request, response: Response) -> URL:
    location = response.headers["location"]
    try:
        url = request.url.join(location)
    except InvalidURL as error:
        raise RemoteProtocolError(f"Invalid URL in location header: {error}.", request=request) from None
    if request.url.fragment and not url.fragment:
        url = url.copy_with(fragment=request.url.fragment)
    return url
