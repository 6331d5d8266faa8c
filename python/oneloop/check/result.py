"""`Result`: the result for one URL. `Target` and `BadLine`: an entry of the input with and without a valid URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["ERRORS", "BadLine", "ErrorClass", "Hop", "Result", "Target"]

ErrorClass: TypeAlias = Literal[
    "dns", "connect", "tls", "timeout", "too_many_redirects", "blocked", "protocol", "invalid_url", "retry_after"
]
"""Why a URL has no status.

`protocol`: the response is not valid HTTP or is incomplete. `invalid_url`: the URL of the list, or the target of a
redirect, cannot be requested. `retry_after`: not requested, because the host asked for a pause longer than the limit.
"""

ERRORS: tuple[ErrorClass, ...] = (
    "dns",
    "connect",
    "tls",
    "timeout",
    "too_many_redirects",
    "blocked",
    "protocol",
    "invalid_url",
    "retry_after",
)


@dataclass(frozen=True, slots=True)
class Target:
    """A URL to check. `number` is the number of the input's entry, from 1."""

    number: int
    url: str


@dataclass(frozen=True, slots=True)
class BadLine:
    """An entry of the input without a valid URL.

    `line` is its line number, from 1; `text` its text, shortened; `reason` says what is wrong.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Hop:
    """A redirect: its status, and the URL whose response it was."""

    status: int
    url: str


@dataclass(slots=True)
class Result:
    """The result for one URL. Times are in seconds; None means that the phase was not reached or not needed.

    On a connection that was kept open, `connect_s` and `tls_s` are None; for a name in the cache, `dns_s` is None.
    After redirects, the times are those of the last request. `status` is the status of the last response; it is None if
    there is an `error`. `total_s` is the duration of the last attempt.
    """

    number: int
    url: str
    status: int | None = None
    error: ErrorClass | None = None
    error_text: str = ""
    final_url: str = ""
    redirects: tuple[Hop, ...] = ()
    attempts: int = 1
    dns_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    first_byte_s: float | None = None
    total_s: float = 0.0
    body_bytes: int = 0
    certificate_end: str | None = None
    """When the server's certificate expires, as `2027-01-31T12:00:00Z`."""

    @property
    def outcome(self) -> str:
        """The status as text, or the error class. This is what is counted."""
        return str(self.status) if self.error is None else self.error
