"""`Retry`: which requests are sent again, and when."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from oneloop.http.client.bodies import Stream
from oneloop.http.client.errors import (
    CloseError,
    ConnectError,
    ConnectTimeout,
    NetworkError,
    PrivateAddress,
    ReadTimeout,
    RemoteProtocolError,
)

if TYPE_CHECKING:
    from oneloop.http.client.errors import TransportError
    from oneloop.http.client.requests import Request

__all__ = ["IDEMPOTENT", "Retry"]


IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "QUERY"})
"""Methods that may be repeated (RFC 9110 section 9.2.2; QUERY by its draft)."""


@dataclass(frozen=True)
class Retry:
    """When a request is sent again.

    A connection that could not be opened is always tried again, unless it is of a redirect: the request itself was sent
    then. Other failures and statuses are only for `methods`, and all only if the body can be sent a second time.

    Attributes:
        total: how many times at most; 0: never.
        statuses: statuses that are tried again.
        methods: methods that may be repeated (RFC 9110 section 9.2.2).
        backoff_s: the delay before the first repetition; each is twice the last, and between half and all of it.
        max_delay_s: the longest delay; a longer Retry-After is not waited for, and the response is returned.
    """

    total: int = 0
    statuses: frozenset[int] = frozenset({429, 502, 503, 504})
    methods: frozenset[str] = IDEMPOTENT
    backoff_s: float = 0.5
    max_delay_s: float = 60.0

    def wants_error(self, request: Request, error: TransportError) -> bool:
        """Return whether a request is sent again after an error."""
        if isinstance(error, PrivateAddress):
            return False
        if isinstance(error, (ConnectError, ConnectTimeout)) and not error._is_behind_others:
            return self._can_repeat(request)
        if isinstance(error, CloseError):
            # The client itself was closed.
            return False
        is_passing = isinstance(error, (NetworkError, ConnectTimeout, ReadTimeout, RemoteProtocolError))
        return is_passing and request.method in self.methods and self._can_repeat(request)

    def wants_status(self, request: Request, status: int) -> bool:
        """Return whether a request is sent again after a response."""
        return status in self.statuses and request.method in self.methods and self._can_repeat(request)

    @staticmethod
    def _can_repeat(request: Request) -> bool:
        return not isinstance(request.stream, Stream) or request.stream.is_repeatable

    def delay_s(self, attempt: int, retry_after: str | None) -> float | None:
        """Return how long to wait before the next attempt; None: longer than allowed.

        Args:
            attempt: how many repetitions there were.
            retry_after: the response's field: seconds, or a date.
        """
        asked_s = _seconds(retry_after)
        if asked_s is not None:
            return asked_s if asked_s <= self.max_delay_s else None
        # An exponent that a float can have.
        longest_s = min(self.backoff_s * 2.0 ** min(attempt, 64), self.max_delay_s)
        return float(longest_s * random.uniform(0.5, 1.0))


def _seconds(retry_after: str | None) -> float | None:
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
