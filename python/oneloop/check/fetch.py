"""`Fetcher`: makes one attempt to request a URL, and assigns errors to error classes."""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Self

from oneloop._native import ClientPool, ClientTimeouts, LoopCore, parse_response_head
from oneloop.check.cookies import Cookies, with_cookie
from oneloop.check.descriptors import SPARE_DESCRIPTORS, allowed, require
from oneloop.check.failures import Failure, words_of
from oneloop.check.openings import Opener
from oneloop.check.phases import Phases, limits_of
from oneloop.check.places import Place, Places
from oneloop.check.resolver import Resolver
from oneloop.check.result import Hop, Result
from oneloop.http.client.codings import decoder_for
from oneloop.http.client.errors import RequestError, TimeoutException

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from oneloop._native import ClientExchange
    from oneloop.check.options import Options
    from oneloop.check.result import Target

__all__ = ["Attempt", "Fetcher"]

KEEP_ALIVE_S = 15.0
_MOST_OPEN = 1000
_LEFT_BYTES = 1 << 16
"""The body of a redirect is read up to this length, so that its connection can be used again."""
_HELD_BACK = (429, 503)
"""Statuses for which the header Retry-After is read."""
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(slots=True)
class Attempt:
    """The result of one attempt.

    `retry_after_s` is the pause that the server asked for. `is_final` means that a retry would have the same result.
    """

    result: Result
    retry_after_s: float | None = None
    is_final: bool = False


class _Trip:
    """The requests of an attempt: the URL's own, and those that it was redirected to."""

    __slots__ = ("cookies", "deadline", "exchange", "hops", "phases", "place", "target")

    def __init__(self, deadline: float | None) -> None:
        self.deadline = deadline
        self.phases: Phases | None = None
        self.exchange: ClientExchange | None = None
        self.hops: list[Hop] = []
        self.cookies: Cookies | None = None
        self.place: Place | None = None
        self.target = b""

    @property
    def url(self) -> str:
        """The URL of the last request."""
        assert self.place is not None
        return self.place.prefix + self.target.decode("ascii")


class Fetcher:
    """An HTTP client for many URLs, on a loop of oneloop. Use it in `async with`.

    Args:
        options: how to check.

    Raises:
        OptionError: the limit on file descriptors is too low for the concurrency.
        RuntimeError: the running loop is not one of oneloop's.
    """

    def __init__(self, options: Options) -> None:
        require(options.concurrency)
        loop: Any = asyncio.get_running_loop()
        is_ours = isinstance(loop, LoopCore)
        if not is_ours:
            raise RuntimeError("oneloop.check needs oneloop's loop: run the program with oneloop.run()")
        self._loop = loop
        self._options = options
        self._limits = limits_of(options)
        self._first_byte_s = options.first_byte_timeout_s
        self._resolver = Resolver(options)
        self._opener = Opener(options, self._loop, self._resolver)  # pyright: ignore[reportArgumentType]
        limit = allowed()
        most = _MOST_OPEN if limit is None else min(_MOST_OPEN, limit - SPARE_DESCRIPTORS - options.concurrency)
        # The schedule limits the requests. At this limit, the connection that has been idle longest is closed.
        self._pool = ClientPool(loop, self._opener, max(options.concurrency, most), None, None, KEEP_ALIVE_S)
        self._places = Places(options, self._pool, self._opener.proxy)
        self._timeouts = ClientTimeouts(None, None, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._opener.close()
        connections = self._pool.connections
        self._pool.shut()
        for connection in connections:
            connection.drop_now()
        await self._resolver.close()
        # Transports close their descriptors in the loop's next iteration.
        await asyncio.sleep(0)

    async def fetch(self, target: Target) -> Attempt:
        """Request a URL and the URLs that it redirects to.

        Args:
            target: the URL.

        Returns:
            The attempt. Errors of the request are in its result.

        Raises:
            TooManyFilesError: this process has no file descriptor left.
        """
        result = Result(target.number, target.url, final_url=target.url)
        attempt = Attempt(result)
        began = time.monotonic()
        timeout_s = self._options.timeout_s
        trip = _Trip(None if timeout_s is None else self._loop.time() + timeout_s)
        try:
            if self._options.method == "GET" or not await self._is_known_by_head(attempt, trip):
                result.redirects, result.final_url = (), target.url
                await self._ask("GET", attempt, trip)
        except (Failure, RequestError, TimeoutError) as error:
            failure = _failure(error, trip)
            result.status = None
            result.error_text = failure.text or failure.kind
            result.error = failure.kind  # pyright: ignore[reportAttributeAccessIssue]
            if failure.kind == "too_many_redirects":
                result.redirects = tuple(trip.hops)
            attempt.is_final = failure.is_final
        result.total_s = time.monotonic() - began
        self._note(result, trip)
        return attempt

    async def body(self, url: str) -> AsyncGenerator[bytes]:
        """Request a URL and yield the response's body in pieces.

        Args:
            url: the URL.

        Raises:
            OSError: the request failed, the status is not 200, or the body is incomplete.
            PermissionError: the host's address is blocked because it is not public.
        """
        timeout_s = self._options.timeout_s
        trip = _Trip(None if timeout_s is None else self._loop.time() + timeout_s)
        try:
            exchange = await self._follow("GET", url, trip, follows=True)
            try:
                if exchange.status != 200:
                    raise OSError(errno.EIO, f"status {exchange.status}", url)
                decoder = decoder_for(_codings(exchange))
                while piece := await exchange.piece():
                    for part in (piece,) if decoder is None else decoder.pieces(piece):
                        yield part
                for part in () if decoder is None else decoder.pieces(b"", is_last=True):
                    yield part
            finally:
                exchange.close()
        except (Failure, RequestError, TimeoutError) as error:
            failure = _failure(error, trip)
            raise OSError(errno.EACCES if failure.kind == "blocked" else errno.EIO, failure.text, url) from error

    async def _is_known_by_head(self, attempt: Attempt, trip: _Trip) -> bool:
        """Send a HEAD request. Return False if GET is needed.

        Servers that do not support HEAD answer with an error status, with an invalid response, or with a body.
        """
        try:
            return await self._ask("HEAD", attempt, trip) not in (405, 501)
        except RequestError as error:
            if _failure(error, trip).kind == "protocol":
                return False
            raise

    async def _ask(self, method: str, attempt: Attempt, trip: _Trip) -> int:
        result = attempt.result
        exchange = await self._follow(method, result.url, trip, follows=self._options.follow)
        if trip.hops:
            result.redirects = tuple(trip.hops)
            result.final_url = trip.url
        status = exchange.status
        assert status is not None
        if status in _HELD_BACK:
            attempt.retry_after_s = _seconds(_field(exchange, b"retry-after"))
        if method != "HEAD":
            result.body_bytes = await self._read(exchange, self._options.body_limit_bytes)
        result.status = status
        return status

    async def _follow(self, method: str, url: str, trip: _Trip, *, follows: bool) -> ClientExchange:
        """Send a request and those that it is redirected to, and return the last one when its head has arrived."""
        trip.hops = []
        trip.cookies = None
        trip.exchange = None
        trip.phases = None
        trip.place, trip.target = self._places.of(url)
        while True:
            exchange = await self._send(method, trip)
            if not follows or exchange.status not in _REDIRECTS:
                return exchange
            location = _field(exchange, b"location") or _field(exchange, b"uri")
            if not location:
                return exchange
            trip.hops.append(Hop(exchange.status, trip.url))
            _keep_cookies(exchange, trip)
            await self._read(exchange, _LEFT_BYTES)
            most = self._options.max_redirects
            if len(trip.hops) > most:
                raise Failure("too_many_redirects", f"more than {most} redirects, the last one by {trip.url}")
            trip.place, trip.target = self._places.next(trip.place, trip.target, location)

    async def _send(self, method: str, trip: _Trip) -> ClientExchange:
        place = trip.place
        assert place is not None
        phases = trip.phases = Phases(self._limits, trip.deadline)
        head = place.head(method.encode(), trip.target)
        if trip.cookies is not None and (value := trip.cookies.value(trip.url)):
            head = with_cookie(head, value)
        exchange = trip.exchange = place.origin.start(
            method, head, None, False, False, True, self._timeouts, trip.deadline, 0, phases
        )
        if self._first_byte_s is None:
            await exchange.answered()
        else:
            await self._answered_in_time(exchange, self._first_byte_s)
        return exchange

    async def _answered_in_time(self, exchange: ClientExchange, limit_s: float) -> None:
        """Wait for the head, at most for this time after the request was sent."""
        timer: asyncio.TimerHandle
        async with asyncio.timeout(None) as limit:

            def look() -> None:
                nonlocal timer
                now = self._loop.time()
                sent = exchange.sent_s
                due = now + limit_s if sent is None else sent + limit_s
                if due > now:
                    timer = self._loop.call_at(due, look)
                elif not limit.expired():
                    limit.reschedule(now)

            timer = self._loop.call_later(limit_s, look)
            try:
                await exchange.answered()
            finally:
                timer.cancel()

    async def _read(self, exchange: ClientExchange, limit_bytes: int) -> int:
        """Read the body up to the limit. Returns how much was read; a longer one ends its connection."""
        if exchange.is_done:
            return min(len(exchange.take()), limit_bytes)
        len_bytes = 0
        while piece := await exchange.piece():
            len_bytes += len(piece)
            if len_bytes > limit_bytes:
                exchange.close()
                return limit_bytes
        return len_bytes

    def _note(self, result: Result, trip: _Trip) -> None:
        """Set the times of the last request."""
        exchange, phases = trip.exchange, trip.phases
        if exchange is None or phases is None:
            return
        carrier = exchange.carrier
        opener = self._opener
        if carrier is None:
            result.dns_s, result.connect_s, result.tls_s = phases.dns_s, phases.connect_s, phases.tls_s
            return
        if opener.opened:
            times = opener.opened.pop(carrier, None)
            if times is not None:
                result.dns_s, result.connect_s, result.tls_s = times
        if opener.certificate_ends:
            result.certificate_end = opener.certificate_ends.get(carrier)
        first_byte_s = exchange.first_byte_s
        if first_byte_s is not None:
            # The native clock is read once per iteration of the loop, which may have begun in the phase before.
            before_s = (result.dns_s or 0.0) + (result.connect_s or 0.0) + (result.tls_s or 0.0)
            result.first_byte_s = min(first_byte_s, result.total_s - before_s)


def _failure(error: Exception, trip: _Trip) -> Failure:
    """The error class and the text of an exception."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, (TimeoutError, TimeoutException)):
        phases, exchange = trip.phases, trip.exchange
        assert phases is not None
        if exchange is not None and exchange.sent_s is not None:
            phases.phase = "first_byte" if exchange.status is None else "body"
        return Failure("timeout", phases.said())
    cause = error.__cause__
    return Failure("tls" if isinstance(cause, ssl.SSLError) else "protocol", words_of(cause or error))


def _keep_cookies(exchange: ClientExchange, trip: _Trip) -> None:
    """Keep the cookies of a redirect."""
    fields = [value.decode("latin-1") for value in _fields(exchange, b"set-cookie")]
    if fields:
        if trip.cookies is None:
            trip.cookies = Cookies()
        trip.cookies.keep(trip.url, fields)


def _field(exchange: ClientExchange, name: bytes) -> str | None:
    """The first field of this name in the head of the response. `name` is in lower case."""
    for value in _fields(exchange, name):
        return value.decode("utf-8", "replace")
    return None


def _fields(exchange: ClientExchange, name: bytes) -> list[bytes]:
    """The values of the fields of this name. `name` is in lower case."""
    head = exchange.response_head
    assert head is not None
    _, _, fields = parse_response_head(head)
    return [bytes(value) for key, value in fields if key.lower() == name]


def _codings(exchange: ClientExchange) -> list[str]:
    values = [value.decode("latin-1") for value in _fields(exchange, b"content-encoding")]
    return [coding for value in values for coding in value.split(",")]


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
