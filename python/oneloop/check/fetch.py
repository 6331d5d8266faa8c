"""`Fetcher`: makes one attempt to request a URL, and assigns errors to error classes."""

from __future__ import annotations

import asyncio
import errno
import re
import ssl
import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Self

import aiohttp
from yarl import URL

from oneloop.check.addresses import address_of
from oneloop.check.connector import Connector
from oneloop.check.descriptors import TooManyFilesError, require
from oneloop.check.phases import Phases, current, limits_of
from oneloop.check.resolver import NameNotFoundError, Resolver
from oneloop.check.result import ErrorClass, Hop, Result

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from oneloop.check.options import Options
    from oneloop.check.result import Target

__all__ = ["Attempt", "Fetcher"]

_NO_LIMITS = aiohttp.ClientTimeout(total=None, connect=None, sock_read=None, sock_connect=None)
_TEXT_LIMIT = 300
_AT_ONCE_BYTES = 1 << 16
_HELD_BACK = (429, 503)
"""Statuses for which the header Retry-After is read."""


@dataclass(slots=True)
class Attempt:
    """The result of one attempt.

    `retry_after_s` is the pause that the server asked for. `is_final` means that a retry would have the same result.
    """

    result: Result
    retry_after_s: float | None = None
    is_final: bool = False


class Fetcher:
    """An HTTP client for many URLs. Use it in `async with`.

    Args:
        options: how to check.

    Raises:
        OptionError: the limit on file descriptors is too low for the concurrency.
    """

    def __init__(self, options: Options) -> None:
        require(options.concurrency)
        self._options = options
        self._limits = limits_of(options)
        self._resolver = Resolver(options)
        headers = [("User-Agent", options.user_agent), ("Accept", "*/*"), *options.headers]
        self._session = aiohttp.ClientSession(
            connector=Connector(options, self._resolver),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            timeout=_NO_LIMITS,
            auto_decompress=False,
        )
        # aiohttp removes this header when a redirect leads to another host.
        self._auth: dict[str, str] = {}
        if options.auth is not None:
            self._auth["Authorization"] = "Basic " + b64encode(":".join(options.auth).encode()).decode()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._session.close()
        await self._resolver.close()

    async def fetch(self, target: Target) -> Attempt:
        """Request a URL and the URLs that it redirects to.

        Args:
            target: the URL.

        Returns:
            The attempt. Errors of the request are in its result.

        Raises:
            TooManyFilesError: this process has no file descriptor left.
        """
        attempt = Attempt(Result(target.number, target.url, final_url=target.url))
        began = time.monotonic()
        phases = None
        try:
            async with asyncio.timeout(self._options.timeout_s) as timer:
                phases = Phases(self._limits, timer)
                current.set(phases)
                url = _parsed(target.url)
                if self._options.method == "GET" or not await self._is_known_by_head(url, attempt, phases):
                    attempt.result.redirects, attempt.result.final_url = (), target.url
                    await self._ask("GET", url, attempt, phases)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise TooManyFilesError from error
            result = attempt.result
            result.status = None
            result.error = self._class_of(error, phases)
            result.error_text = _text_of(error, phases)
            attempt.is_final = isinstance(error.__cause__, NameNotFoundError)
        if phases is not None:
            _note(attempt.result, phases)
        attempt.result.total_s = time.monotonic() - began
        return attempt

    async def _is_known_by_head(self, url: URL, attempt: Attempt, phases: Phases) -> bool:
        """Send a HEAD request. Return False if GET is needed.

        Servers that do not support HEAD answer with an error status, with an invalid response, or with a body.
        """
        try:
            return await self._ask("HEAD", url, attempt, phases) not in (405, 501)
        except aiohttp.ClientError as error:
            if self._class_of(error, phases) == "protocol":
                return False
            raise

    async def body(self, url: str) -> AsyncGenerator[bytes]:
        """Request a URL and yield the response's body in pieces.

        Args:
            url: the URL.

        Raises:
            OSError: the request failed, the status is not 200, or the body is incomplete.
            PermissionError: the host's address is blocked because it is not public.
        """
        try:
            async with asyncio.timeout(self._options.timeout_s) as timer:
                current.set(Phases(self._limits, timer))
                response = await self._session.get(url, headers=self._auth, proxy=self._options.proxy)
            async with response:
                if response.status != 200:
                    raise OSError(errno.EIO, f"status {response.status}", url)
                async for piece in response.content.iter_any():
                    yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            phases = current.get()
            number = errno.EIO if phases.blocked is None else errno.EACCES
            raise OSError(number, _text_of(error, phases), url) from error

    async def _ask(self, method: str, url: URL, attempt: Attempt, phases: Phases) -> int:
        options, result = self._options, attempt.result
        try:
            response = await self._session.request(
                method,
                url,
                allow_redirects=options.follow,
                max_redirects=options.max_redirects + 1,
                # A user in the URL takes precedence over the option.
                headers=self._auth if url.raw_user is None else None,
                proxy=options.proxy,
            )
        except aiohttp.TooManyRedirects as error:
            result.redirects = _hops(error.history)
            raise
        try:
            phases.answered()
            if response.history:
                result.redirects = _hops(response.history)
                result.final_url = str(response.url)
            if response.status in _HELD_BACK:
                attempt.retry_after_s = _seconds(response.headers.get("Retry-After"))
            if method != "HEAD":
                await self._read(response, result)
            result.status = response.status
            return response.status
        finally:
            response.release()

    async def _read(self, response: aiohttp.ClientResponse, result: Result) -> None:
        left = self._options.body_limit_bytes
        len_bytes = response.content_length
        if len_bytes is not None and len_bytes <= min(left, _AT_ONCE_BYTES):
            result.body_bytes = len(await response.read())
            return
        async for piece in response.content.iter_any():
            left -= len(piece)
            if left < 0:
                result.body_bytes = self._options.body_limit_bytes
                response.close()
                return
            result.body_bytes += len(piece)

    def _class_of(self, error: Exception, phases: Phases | None) -> ErrorClass:
        """The error class of an exception."""
        if phases is not None and phases.blocked is not None:
            return "blocked"
        if isinstance(error, aiohttp.InvalidURL):
            # aiohttp itself refuses unusual notations of IPv4 addresses.
            is_address = self._options.block_private and "canonical IPv4" in str(error)
            return "blocked" if is_address else "invalid_url"
        for kind, name in _CLASSES:
            if isinstance(error, kind):
                return name
        is_tls = phases is not None and phases.phase == "tls"
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError):
            return "tls" if is_tls else "connect"
        if isinstance(error.__cause__, ssl.SSLError) or is_tls:
            return "tls"
        return "invalid_url" if type(error) is ValueError else "protocol"


_CLASSES: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (aiohttp.NonHttpUrlClientError, "invalid_url"),
    (aiohttp.TooManyRedirects, "too_many_redirects"),
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorDNSError, "dns"),
    (aiohttp.ClientSSLError, "tls"),
    (ssl.SSLError, "tls"),
)


_HOST = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=-]+")


def _parsed(text: str) -> URL:
    """Parse a URL.

    Raises:
        aiohttp.InvalidURL: the URL cannot be requested.
    """
    try:
        url = URL(text)
        host = url.host and url.raw_host
    except ValueError as error:
        raise aiohttp.InvalidURL(text, str(error)) from error
    if url.scheme not in ("http", "https") or not host:
        raise aiohttp.InvalidURL(text, "not an http or https URL with a host")
    # yarl accepts hosts with spaces, percent signs, and brackets around something that is not an address.
    if _HOST.fullmatch(host) is None and address_of(host) is None:
        raise aiohttp.InvalidURL(text, f"not a valid host: {host!r}")
    return url


def _note(result: Result, phases: Phases) -> None:
    result.dns_s = phases.dns_s
    result.connect_s = phases.connect_s
    result.tls_s = phases.tls_s
    result.first_byte_s = phases.first_byte_s
    result.certificate_end = phases.certificate_end


def _hops(history: Any) -> tuple[Hop, ...]:
    return tuple([Hop(answer.status, str(answer.url)) for answer in history]) if history else ()


def _text_of(error: Exception, phases: Phases | None) -> str:
    if phases is not None and phases.blocked is not None:
        return f"{phases.blocked} is not a public address"
    if isinstance(error, TimeoutError) and phases is not None:
        return phases.said()
    if isinstance(error, aiohttp.TooManyRedirects):
        return f"more than {len(error.history) - 1} redirects, the last one by {error.history[-1].url}"
    if isinstance(error, aiohttp.NonHttpUrlClientError):
        return f"a redirect to a URL that is not http or https: {error}"[:_TEXT_LIMIT]
    text = (isinstance(error, aiohttp.ClientResponseError) and error.message) or str(error) or type(error).__name__
    return " ".join(text.split())[:_TEXT_LIMIT]


def _seconds(retry_after: str | None) -> float | None:
    """Convert Retry-After, which is a number of seconds or a date (RFC 9110 section 10.2.3), to seconds from now."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after[:9])
    with suppress(ValueError, OverflowError):
        when = parsedate_to_datetime(retry_after)
        # The asctime form has no time zone; it is GMT (RFC 9110 section 5.6.7).
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - time.time())
    return None
