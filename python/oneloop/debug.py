"""Debug mode: the standard library's handles, thread checks, and reports of slow callbacks.

The native core calls this code only while debug mode is on (`loop.set_debug(True)`).
"""

from __future__ import annotations

import asyncio
from asyncio import base_events
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

# From Python 3.14 on, call_soon_threadsafe() returns this class. Its cancel() waits for a running callback.
_ThreadSafeHandle: Any = getattr(asyncio.events, "_ThreadSafeHandle", asyncio.Handle)


class DebugMixin:
    """Methods that `LoopCore` calls in debug mode."""

    __slots__ = ()

    def _debug_call(
        self: Any,
        method: str,
        when: float | None,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> asyncio.Handle:
        """Implement `call_soon`, `call_later` etc. with `asyncio.Handle`, which records where it was created."""
        if method != "call_soon_threadsafe":
            self._check_thread()
        self._check_callback(callback, method)
        handle: asyncio.Handle
        if method in ("call_later", "call_at"):
            assert when is not None
            if method == "call_later":
                when += self.time()
            handle = asyncio.TimerHandle(when, callback, args, self, context)  # pyright: ignore[reportArgumentType]
            handle._scheduled = True  # type: ignore[attr-defined]
            self._push_timer(when, handle)
        elif method == "call_soon":
            handle = asyncio.Handle(callback, args, self, context)
            self._push_ready(handle)
        else:
            handle = _ThreadSafeHandle(callback, args, self, context)
            self._push_threadsafe(handle)
        trace = handle._source_traceback  # type: ignore[attr-defined]
        # Remove asyncio's and our own frames from the end, so that the trace ends at the caller.
        while trace and trace[-1].filename in (__file__, asyncio.events.__file__):
            del trace[-1]
        return handle

    def _run_debug_handle(self: Any, handle: asyncio.Handle) -> None:
        """Run one handle. Log a warning if it took at least `slow_callback_duration`."""
        if handle._cancelled:
            return
        began = self.time()
        # Named in what the exception handler logs.
        self._current_handle = handle
        try:
            handle._run()
        finally:
            self._current_handle = None
        duration_s = self.time() - began
        if duration_s >= self.slow_callback_duration:
            _warn(
                "Executing %s took %.3f seconds",
                base_events._format_handle(handle),  # type: ignore[attr-defined]
                duration_s,
            )
        # A traceback can keep this frame alive: break the reference cycle, as asyncio does.
        handle = None  # type: ignore[assignment]

    def _report_slow(self: Any, what: object, duration_s: float) -> None:
        """Log a warning about a protocol's or reader's callback that took too long."""
        if duration_s >= self.slow_callback_duration:
            _warn("Executing %r took %.3f seconds", what, duration_s)


def _warn(message: str, *args: object) -> None:
    # asyncio's loop logs through this attribute; a program may have replaced the logger there.
    base_events.logger.warning(message, *args)  # type: ignore[attr-defined]
