"""`Phases`: the current phase of a request, the duration of the phases before, and the timeout of the current one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from oneloop.check.options import Options

__all__ = ["Limits", "Phase", "Phases", "limits_of"]

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
    """The phases of one request. Each redirect is a request of its own.

    While a connection is opened, one timer serves all limits: it is set to the phase's limit or to the end of the
    attempt, whichever comes first.

    Args:
        limits: seconds per phase.
        deadline: the end of the attempt on the loop's clock; None: no limit.
    """

    __slots__ = ("connect_s", "deadline", "dns_s", "limits", "phase", "timer", "tls_s")

    def __init__(self, limits: Limits, deadline: float | None) -> None:
        self.limits = limits
        self.deadline = deadline
        self.timer: asyncio.Timeout | None = None
        self.phase: Phase = "dns"
        self.dns_s: float | None = None
        self.connect_s: float | None = None
        self.tls_s: float | None = None

    def begin(self, phase: Phase) -> None:
        """Begin a phase: start its timeout. The timeout of the attempt continues to apply."""
        if self.limits:
            self._set_timer(self.limits.get(phase))
        self.phase = phase

    def _set_timer(self, limit_s: float | None) -> None:
        if self.timer is None or self.timer.expired():
            return
        if limit_s is None:
            self.timer.reschedule(self.deadline)
            return
        when = asyncio.get_running_loop().time() + limit_s
        self.timer.reschedule(when if self.deadline is None else min(when, self.deadline))

    def said(self) -> str:
        """Return the text of a timeout error, which names the current phase."""
        return f"timeout while {_SAID[self.phase]}"
