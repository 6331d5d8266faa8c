"""Debug mode: the standard library's handles, thread checks, and reports of slow callbacks.

The native core asks here only when `loop.set_debug(True)` is in force.
"""

from __future__ import annotations

import asyncio
from asyncio import base_events
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

# Python 3.14 has a kind of its own, whose cancel() waits for a running callback.
_ThreadSafeHandle: Any = getattr(asyncio.events, "_ThreadSafeHandle", asyncio.Handle)


class DebugMixin:
    """What `LoopCore` calls in debug mode."""

    __slots__ = ()

    def _debug_call(
        self: Any,
        method: str,
        when: float | None,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> asyncio.Handle:
        """Do `call_soon` and its kin with `asyncio.Handle`, which knows where it was made."""
        if method != "call_soon_threadsafe":
            self._check_thread()
        self._check_callback(callback, method)
        handle: asyncio.Handle
        if method in ("call_later", "call_at"):
            assert when is not None
            if method == "call_later":
                when += self.time()
            handle = asyncio.TimerHandle(when, callback, args, self, context)
            handle._scheduled = True  # type: ignore[attr-defined]
            self._push_timer(when, handle)
        elif method == "call_soon":
            handle = asyncio.Handle(callback, args, self, context)
            self._push_ready(handle)
        else:
            handle = _ThreadSafeHandle(callback, args, self, context)
            self._push_threadsafe(handle)
        trace = handle._source_traceback  # type: ignore[attr-defined]
        # The frames in between are nobody's business: this one, and that of a second __init__.
        while trace and trace[-1].filename in (__file__, asyncio.events.__file__):
            del trace[-1]
        return handle

    def _run_debug_handle(self: Any, handle: asyncio.Handle) -> None:
        """Run one handle, and report it if it took longer than `slow_callback_duration`."""
        if handle._cancelled:
            return
        began = self.time()
        handle._run()
        duration_s = self.time() - began
        if duration_s >= self.slow_callback_duration:
            _warn(
                "Executing %s took %.3f seconds",
                base_events._format_handle(handle),  # type: ignore[attr-defined]
                duration_s,
            )
        # A traceback may keep this frame: break the cycle through it, as asyncio does.
        handle = None  # type: ignore[assignment]

    def _report_slow(self: Any, what: object, duration_s: float) -> None:
        """Report a protocol's or reader's callback that took too long."""
        if duration_s >= self.slow_callback_duration:
            _warn("Executing %r took %.3f seconds", what, duration_s)


def _warn(message: str, *args: object) -> None:
    # The name by which asyncio's own loop reports: a program may have put another logger there.
    base_events.logger.warning(message, *args)  # type: ignore[attr-defined]
