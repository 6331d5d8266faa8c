"""Inspecting a running program: which green thread waits where, and whether code lets others run.

To find what blocks a hub's loop, use the hub's monitor: `hub.start_periodic_monitoring_thread()`.
"""

from __future__ import annotations

import functools
import sys
import threading
import traceback
from time import monotonic as _monotonic
from typing import TYPE_CHECKING, Any, Self

import greenlet as _greenlet
from greenlet import getcurrent

from oneloop.green.hub import get_hub
from oneloop.green.tree import GreenletTree

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["GreenletTree", "assert_switches", "format_run_info", "print_run_info", "wrap_errors"]

_RULE = "*" * 80


# -- reports -----------------------------------------------------------------------------------------


def format_run_info(
    thread_stacks: bool = True,
    greenlet_stacks: bool = True,
    limit: int | None = None,
    current_thread_ident: int | None = None,
) -> list[str]:
    """Return the stacks of all threads and green threads as lines without line ends. Callable from any thread.

    Args:
        thread_stacks: show the stacks of OS threads.
        greenlet_stacks: show the stacks of green threads, in addition to their tree.
        limit: the maximum number of frames per stack; None means all.
        current_thread_ident: the thread to mark as the current one; None means the caller.
    """
    lines: list[str] = []
    if thread_stacks:
        lines += [_RULE, "* Threads", _RULE]
        lines += _threads(limit, current_thread_ident)
    lines += [_RULE, "* Greenlets", _RULE]
    shown = True if limit is None else limit
    details = {"running_stacks": greenlet_stacks and shown, "spawning_stacks": greenlet_stacks and shown}
    for tree in GreenletTree.forest():
        lines.append("---- Thread boundary")
        lines += tree.format_lines(details)
    return lines


def _threads(limit: int | None, current: int | None) -> list[str]:
    lines = []
    here = sys._getframe()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        is_current = frame is here if current is None else ident == current
        mark = " (CURRENT)" if is_current else ""
        lines.append(f"Thread 0x{ident:x} ({names.get(ident)}){mark}")
        stack = "".join(traceback.format_stack(frame, limit))
        lines += [*stack.rstrip("\n").split("\n"), _RULE]
    return lines


def print_run_info(
    thread_stacks: bool = True, greenlet_stacks: bool = True, limit: int | None = None, file: Any = None
) -> None:
    """Print the lines of `format_run_info` to a file; None means stderr."""
    lines = format_run_info(thread_stacks, greenlet_stacks, limit)
    print("\n".join(lines), file=sys.stderr if file is None else file)


# -- errors as values --------------------------------------------------------------------------------


class wrap_errors:  # noqa: N801 - gevent's name
    """A function that returns certain exceptions instead of raising them; otherwise it is like the wrapped function.

    For functions with expected errors that must not be reported: `spawn(wrap_errors(OSError, fetch), url)`.

    Args:
        errors: the exception class to return, or a tuple of classes.
        func: the function to wrap.
    """

    def __init__(self, errors: type[BaseException] | tuple[type[BaseException], ...], func: Callable[..., Any]) -> None:
        self._errors = errors
        self._function = func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._function(*args, **kwargs)
        except self._errors as error:
            return error

    def __str__(self) -> str:
        return str(self._function)

    def __repr__(self) -> str:
        return repr(self._function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


# -- letting others run ------------------------------------------------------------------------------


class _FailedToSwitch(AssertionError):  # noqa: N818 - gevent's name
    pass


class _Switches:
    """Counts a thread's greenlet switches, and measures the longest time between two of them."""

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self._since_s = _monotonic()
        self.all = 0
        self.to_hub = 0
        self.longest_s = 0.0
        self._outer = _greenlet.settrace(self._trace)

    def _trace(self, event: Any, pair: tuple[Any, Any]) -> None:
        if event in ("switch", "throw"):
            self._lap(pair[0])
            self.all += 1
            self.to_hub += pair[1] is self._hub.greenlet
        if self._outer is not None:
            self._outer(event, pair)

    def _lap(self, ran: Any) -> None:
        now = _monotonic()
        # Time in which the hub itself ran or slept does not count.
        if ran is not self._hub.greenlet:
            self.longest_s = max(self.longest_s, now - self._since_s)
        self._since_s = now

    def stop(self) -> None:
        _greenlet.settrace(self._outer)
        self._lap(getcurrent())


class assert_switches:  # noqa: N801 - gevent's name
    """Fail if a block of code or a function lets nothing else run. A context manager and a decorator.

    Args:
        max_blocking_time: also fail if the block runs for more than this many seconds without a switch.
        hub_only: count only switches to the hub, not to other green threads.

    Raises:
        AssertionError: at the end of the block. If the block raises an exception, that is raised instead.
    """

    def __init__(self, max_blocking_time: float | None = None, hub_only: bool = False) -> None:
        self.max_blocking_time = max_blocking_time
        self.hub_only = hub_only
        self._switches: _Switches | None = None

    def __enter__(self) -> Self:
        self._switches = _Switches(get_hub())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        switches, self._switches = self._switches, None
        assert switches is not None
        switches.stop()
        if value is not None:
            return
        if not (switches.to_hub if self.hub_only else switches.all):
            raise self._failed(
                f"To {'the hub' if self.hub_only else 'any greenlet'} in {switches.longest_s:.4f} seconds"
            )
        if self.max_blocking_time is not None and switches.longest_s > self.max_blocking_time:
            raise self._failed(
                f"For more than {self.max_blocking_time:.4f} seconds: blocked for {switches.longest_s:.4f} seconds"
            )

    def _failed(self, why: str) -> _FailedToSwitch:
        stack = traceback.format_stack(sys._getframe(2))
        return _FailedToSwitch("\n".join([why, f"{getcurrent()!r} was in:", "".join(stack)]))

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is checked at each call."""

        @functools.wraps(func)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.max_blocking_time, self.hub_only):
                return func(*args, **kwargs)

        return checked
