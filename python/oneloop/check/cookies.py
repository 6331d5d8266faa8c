"""`Cookies`: those that the redirects of one URL have set, for the rest of these redirects.

A site that sets a cookie and redirects to itself (consent, language, sign-in) expects the cookie back. No other URL of
the check sees it, and no other host, unless the cookie names a domain that has both (RFC 6265 section 5.4).
"""

from __future__ import annotations

import re
from email.message import Message
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Cookies", "with_cookie"]

_FIELD = re.compile(rb"\r\ncookie:[^\r\n]*", re.IGNORECASE)


class Cookies:
    """The cookies of one URL's redirects."""

    __slots__ = ("_jar",)

    def __init__(self) -> None:
        # The default is to send a cookie without a domain to the subdomains of its host, too.
        strict = DefaultCookiePolicy.DomainStrictNonDomain
        self._jar = CookieJar(_Policy(strict_domain=True, strict_ns_domain=strict))

    def keep(self, url: str, fields: Iterable[str]) -> None:
        """Keep the cookies of a response.

        Args:
            url: the URL that was requested.
            fields: the values of its fields Set-Cookie.
        """
        self._jar.extract_cookies(_Answer(fields), Request(url))  # type: ignore[arg-type]

    def value(self, url: str) -> str:
        """Return the value of the field Cookie for a URL; empty if there is no cookie for it."""
        request = Request(url)
        self._jar.add_cookie_header(request)
        return request.get_header("Cookie") or ""


class _Policy(DefaultCookiePolicy):
    """The standard library's, and RFC 6265 section 5.1.3: an address has no domain above it."""

    def set_ok_domain(self, cookie: Cookie, request: Request) -> bool:
        host = urlsplit(request.full_url).hostname or ""
        if cookie.domain_specified and _is_address(host) and cookie.domain.removeprefix(".").strip("[]") != host:
            return False
        return super().set_ok_domain(cookie, request)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class _Answer:
    """A response as the jar wants to see it."""

    def __init__(self, fields: Iterable[str]) -> None:
        self._message = Message()
        for value in fields:
            self._message.add_header("Set-Cookie", value)

    def info(self) -> Message:
        return self._message


def with_cookie(head: bytes, value: str) -> bytes:
    """Return the head of a request with further cookies, in one field Cookie (RFC 6265 section 5.4)."""
    more = value.encode("latin-1")
    field = _FIELD.search(head)
    if field is None:
        return b"%b\r\nCookie: %b\r\n\r\n" % (head.removesuffix(b"\r\n\r\n"), more)
    return b"%b; %b%b" % (head[: field.end()], more, head[field.end() :])
