"""`Phases`: the current phase of a request, the duration of the phases before, and the timeout of the current one."""

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
    "first_byte": "waiting for the response",
    "body": "reading the body",
}


Limits: TypeAlias = "dict[Phase, float]"


def limits_of(options: Options) -> Limits:
    """Return the timeouts of the phases that have one, in seconds."""
    limits: dict[Phase, float | None] = {
        "dns": options.dns_timeout_s,
        "connect": options.connect_timeout_s,
        "tls": options.tls_timeout_s,
        "first_byte": options.first_byte_timeout_s,
    }
    return {phase: limit_s for phase, limit_s in limits.items() if limit_s is not None}


class Phases:
    """The phases of one attempt. Each request of the attempt (there is one per redirect) starts again at the first.

    One timer serves all limits: it is set to the phase's limit or to that of the attempt, whichever comes first.

    Args:
        limits: seconds per phase.
        timer: the timeout of the attempt.
    """

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
        """The address of the last connection that was refused because the address is not public."""
        self.reset()

    def reset(self) -> None:
        """Forget the values of the request before. Called when a request begins."""
        self.dns_s: float | None = None
        self.connect_s: float | None = None
        self.tls_s: float | None = None
        self.first_byte_s: float | None = None
        self.certificate_end: str | None = None
        self.blocked = None
        self.sent_at = 0.0

    def begin(self, phase: Phase) -> None:
        """Begin a phase: start its timeout. The timeout of the attempt continues to apply."""
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
        """Begin waiting for the response. Called when there is a connection and the request is sent."""
        self.blocked = None  # another address of the name was blocked, but this one is not
        self.sent_at = time.monotonic()
        self.begin("first_byte")

    def answered(self) -> None:
        """Begin reading the body. Called when the head of the response has arrived."""
        self.first_byte_s = time.monotonic() - self.sent_at
        self.begin("body")

    def said(self) -> str:
        """Return the text of a timeout error, which names the current phase."""
        return f"timeout while {_SAID[self.phase]}"


current: ContextVar[Phases] = ContextVar("oneloop.check.phases")
