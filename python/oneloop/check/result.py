"""`Result`: what became of one URL; `Target` and `BadLine`: what one line of the input says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["ERRORS", "BadLine", "ErrorClass", "Hop", "Result", "Target"]

ErrorClass: TypeAlias = Literal[
    "dns", "connect", "tls", "timeout", "too_many_redirects", "blocked", "protocol", "invalid_url", "retry_after"
]
"""Why a URL has no status.

`protocol`: no valid HTTP answer, or a cut one. `invalid_url`: of the list, or in a redirect. `retry_after`: not
requested, because the host had asked for a pause that is longer than allowed.
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
    """A URL to be checked. `number` counts the input's entries from 1: with the URL, it tells entries apart."""

    number: int
    url: str


@dataclass(frozen=True, slots=True)
class BadLine:
    """An entry of the input that has no URL.

    `line`: where it stands, from 1; `text`: what stands there, shortened; `reason`: what is wrong with it.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Hop:
    """A redirect: the status, and the URL that answered with it."""

    status: int
    url: str


@dataclass(slots=True)
class Result:
    """What became of one URL. Times are in seconds, and None where it did not come that far.

    A connection that was open already has no `connect_s` and `tls_s`; a name that was known, no `dns_s`. After
    redirects, they are the last request's. `status` is the last answer's, and None if there is an `error`.
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
    """When the server's certificate ends, as `2027-01-31T12:00:00Z`."""

    @property
    def outcome(self) -> str:
        """What the counts are of: the status, or the error's class."""
        return str(self.status) if self.error is None else self.error
