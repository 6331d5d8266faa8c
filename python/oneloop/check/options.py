"""`Options`: how URLs are checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

__all__ = ["OptionError", "Options"]

USER_AGENT = "oneloop-check"
_LEAST = {
    "concurrency": 1,
    "per_host": 1,
    "retries": 0,
    "max_redirects": 0,
    "body_limit_bytes": 0,
    "per_host_delay_s": 0,
    "retry_delay_s": 0,
    "retry_after_s": 0,
}
_LIMITS = ("rate", "timeout_s", "dns_timeout_s", "connect_timeout_s", "tls_timeout_s", "first_byte_timeout_s")
_CHOICES = {"method": ("GET", "HEAD"), "family": (None, 4, 6)}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class OptionError(ValueError):
    """An option has a wrong value, or its value contradicts another option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How URLs are checked. Times are in seconds; None means no limit.

    Args:
        concurrency: URLs in progress at the same time.
        per_host: URLs in progress at the same time with the same host and port.
        per_host_delay_s: the minimum time between the starts of two requests to one host.
        rate: the maximum number of requests started per second, including retries.
        retries: additional attempts after the errors `dns`, `connect`, `timeout` and `protocol`, and after the statuses
            429, 502, 503 and 504.
        retry_delay_s: the longest pause before the first retry. It doubles with each retry; the actual pause is a
            random time between half of it and all of it.
        retry_after_s: the longest Retry-After that is obeyed by waiting. If a host asks for a longer pause, the status
            counts, and the host's other URLs get the error `retry_after` without a request.
        timeout_s: for one attempt with its redirects.
        dns_timeout_s, connect_timeout_s, tls_timeout_s, first_byte_timeout_s: for these phases of each request.
        method: "GET" or "HEAD". A HEAD request is repeated as GET if the response is 405, 501 or not valid HTTP.
        follow: follow redirects.
        max_redirects: more redirects are the error `too_many_redirects`.
        body_limit_bytes: read at most this much of a body. A longer body is not an error.
        headers: header fields of each request, (name, value).
        user_agent: the header field User-Agent.
        auth: (user, password). They are not sent to other hosts that a URL redirects to.
        insecure: accept every certificate.
        proxy: the URL of an HTTP proxy.
        family: 4 or 6, to use only IPv4 or only IPv6.
        block_private: connect only to public addresses, also after redirects. Not possible with a proxy, because the
            proxy resolves the names.
        dns_servers: addresses of name servers, with or without ports; () means the system's.

    Raises:
        OptionError: an option has a wrong value, or its value contradicts another option.
    """

    concurrency: int = 200
    per_host: int = 8
    per_host_delay_s: float = 0.0
    rate: float | None = None
    retries: int = 1
    retry_delay_s: float = 0.5
    retry_after_s: float = 60.0
    timeout_s: float | None = 30.0
    dns_timeout_s: float | None = None
    connect_timeout_s: float | None = None
    tls_timeout_s: float | None = None
    first_byte_timeout_s: float | None = None
    method: Literal["GET", "HEAD"] = "GET"
    follow: bool = True
    max_redirects: int = 10
    body_limit_bytes: int = 1 << 20
    headers: tuple[tuple[str, str], ...] = ()
    user_agent: str = USER_AGENT
    auth: tuple[str, str] | None = field(default=None, repr=False)
    insecure: bool = False
    proxy: str | None = None
    family: Literal[4, 6] | None = None
    block_private: bool = False
    dns_servers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise OptionError(f"{name} must be at least {least}: {getattr(self, name)!r}")
        for name in _LIMITS:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"{name} must be greater than 0, or None for no limit: {value!r}")
        for name, values in _CHOICES.items():
            if getattr(self, name) not in values:
                raise OptionError(f"{name} must be {' or '.join(map(str, values))}: {getattr(self, name)!r}")
        for field_name, value in (*self.headers, ("User-Agent", self.user_agent)):
            _check_field(field_name, value)
        self._check_proxy()
        for server in self.dns_servers:
            _check_server(server)

    def _check_proxy(self) -> None:
        if self.proxy is None:
            return
        if urlsplit(self.proxy).scheme not in ("http", "https"):
            raise OptionError(f"proxy must be the URL of an HTTP proxy, such as http://localhost:3128: {self.proxy!r}")
        if self.block_private:
            raise OptionError(
                "private addresses cannot be blocked behind a proxy, because the proxy resolves the names: leave out"
                " one of the two"
            )


def _check_field(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise OptionError(f"not a valid name of a header field: {name!r}")
    if any(c in value for c in "\r\n\0"):
        raise OptionError(f"the value of the header field {name} contains a line break or NUL")


def _check_server(server: str) -> None:
    host, colon, port = server.rpartition(":")
    address = host.strip("[]") if colon and (host.startswith("[") or ":" not in host) else server
    try:
        ip_address(address)
    except ValueError:
        raise OptionError(
            f"a name server must be an address with or without a port, such as 127.0.0.1:5353: {server!r}"
        ) from None
    if address != server and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise OptionError(f"the port of a name server must be from 1 to 65535: {server!r}")
