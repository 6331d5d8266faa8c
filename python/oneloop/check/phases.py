"""`Phases`: how far a request has come, how long each part took, and how long the next one may take."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from oneloop.check.options import Options

__all__ = ["Phase", "Phases", "current", "limits_of"]

Phase: TypeAlias = Literal["dns", "connect", "tls", "first_byte", "body"]

_SAID: dict[Phase, str] = {
    "dns": "resolving the name",
    "connect": "connecting",
    "tls": "the TLS handshake",
    "first_byte": "waiting for the answer",
    "body": "reading the body",
}


Limits: TypeAlias = "dict[Phase, float]"


def limits_of(options: Options) -> Limits:
    """Seconds for each phase that has a limit of its own."""
    limits: dict[Phase, float | None] = {
        "dns": options.dns_timeout_s,
        "connect": options.connect_timeout_s,
        "tls": options.tls_timeout_s,
        "first_byte": options.first_byte_timeout_s,
    }
    return {phase: limit_s for phase, limit_s in limits.items() if limit_s is not None}


class Phases:
    """Of one attempt; each request of it, which redirects make more, begins anew. One timer serves all limits."""

    __slots__ = (
        "blocked", "certificate_end", "connect_s", "deadline", "dns_s", "first_byte_s", "limits", "phase", "sent_at",
        "timer", "tls_s",
    )  # fmt: skip

    def __init__(self, limits: Limits, timer: asyncio.Timeout) -> None:
        self.limits = limits
        self.timer = timer
        self.deadline = timer.when()
        self.phase: Phase = "dns"
        self.blocked: str | None = None
        """An address that must not be connected to."""
        self.reset()

    def reset(self) -> None:
        """A request begins."""
        self.dns_s: float | None = None
        self.connect_s: float | None = None
        self.tls_s: float | None = None
        self.first_byte_s: float | None = None
        self.certificate_end: str | None = None
        self.blocked = None
        self.sent_at = 0.0

    def begin(self, phase: Phase) -> None:
        """The next phase begins: its limit holds from now on, and that of the whole."""
        if self.limits:
            self._set_timer(self.limits.get(phase))
        self.phase = phase

    def _set_timer(self, limit_s: float | None) -> None:
        if self.timer.expired():
            return
        if limit_s is None:
            self.timer.reschedule(self.deadline)
            return
        when = asyncio.get_running_loop().time() + limit_s
        self.timer.reschedule(when if self.deadline is None else min(when, self.deadline))

    def ready(self) -> None:
        """There is a connection: the request leaves."""
        self.blocked = None  # another of the name's addresses was
        self.sent_at = time.monotonic()
        self.begin("first_byte")

    def answered(self) -> None:
        """The answer's head is here."""
        self.first_byte_s = time.monotonic() - self.sent_at
        self.begin("body")

    def said(self) -> str:
        """What it was doing when its time was over."""
        return f"the time was over while {_SAID[self.phase]}"


current: ContextVar[Phases] = ContextVar("oneloop.check.phases")
