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
    """An option has a value that it cannot have, or one that does not go with another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How URLs are checked. Times are in seconds; None is no limit of its own.

    Args:
        concurrency: URLs under way at once.
        per_host: URLs of one host and port under way at once.
        per_host_delay_s: the least time between two requests' beginnings at one host.
        rate: the most requests that begin in a second, retries included.
        retries: how often a URL is tried again after `dns`, `connect`, `timeout` or `protocol`, or after a status of
            429, 502, 503 or 504.
        retry_delay_s: the longest pause before the first retry; it doubles with each, and a random part of it is taken.
        retry_after_s: the longest Retry-After that is waited for. If a host asks for more, the status counts, and the
            host's further URLs are not requested: their error is `retry_after`.
        timeout_s: for one attempt with all of its redirects.
        dns_timeout_s, connect_timeout_s, tls_timeout_s, first_byte_timeout_s: for these phases of each request.
        method: "GET" or "HEAD"; a HEAD that gets 405, 501 or no valid answer is repeated as a GET.
        follow: go where redirects point.
        max_redirects: more of them are `too_many_redirects`.
        body_limit_bytes: so much of a body is read; what is longer is cut off, which is no error.
        headers: fields of each request, (name, value).
        user_agent: the field of this name.
        auth: (user, password), for the host of the URL itself and not for others that it redirects to.
        insecure: accept every certificate.
        proxy: the URL of an HTTP proxy.
        family: 4 or 6 for only IPv4 or only IPv6.
        block_private: connect only to public addresses, in redirects too. Not with a proxy, which resolves by itself.
        dns_servers: addresses of name servers, with a port or without; () is those of the system.
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
                raise OptionError(f"{name} must be above 0, or None for no limit: {value!r}")
        for name, values in _CHOICES.items():
            if getattr(self, name) not in values:
                raise OptionError(f"{name} must be one of {values}: {getattr(self, name)!r}")
        for field_name, value in (*self.headers, ("User-Agent", self.user_agent)):
            _check_field(field_name, value)
        self._check_proxy()
        for server in self.dns_servers:
            _check_server(server)

    def _check_proxy(self) -> None:
        if self.proxy is None:
            return
        if urlsplit(self.proxy).scheme not in ("http", "https"):
            raise OptionError(f"a proxy is the URL of an HTTP proxy, such as http://localhost:3128: {self.proxy!r}")
        if self.block_private:
            why = "the proxy resolves names itself"
            raise OptionError(f"private addresses cannot be blocked behind a proxy ({why}): leave out one of the two")


def _check_field(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise OptionError(f"not the name of a header field: {name!r}")
    if any(c in value for c in "\r\n\0"):
        raise OptionError(f"the value of the header field {name} has a line break or a NUL")


def _check_server(server: str) -> None:
    host, colon, port = server.rpartition(":")
    address = host.strip("[]") if colon and (host.startswith("[") or ":" not in host) else server
    try:
        ip_address(address)
    except ValueError:
        raise OptionError(
            f"a name server is an address with or without a port, such as 127.0.0.1:5353: {server!r}"
        ) from None
    if address != server and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise OptionError(f"not a port: {port!r} of {server!r}")
