"""Looking at a program that runs: who waits where (`print_run_info`, `GreenletTree`), and who does not let others run.

What blocks the loop of a hub is named by the hub's monitor: `hub.start_periodic_monitoring_thread()`.
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
    """Where all threads and all green threads are: lines without their ends. Any thread.

    Args:
        thread_stacks: show threads.
        greenlet_stacks: show the stacks of green threads, beside their tree.
        limit: show so many frames at most of each; None: all.
        current_thread_ident: which thread is marked as the current one; None: the caller.
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
    """Print what `format_run_info` gives, to a file or to stderr."""
    lines = format_run_info(thread_stacks, greenlet_stacks, limit)
    print("\n".join(lines), file=sys.stderr if file is None else file)


# -- errors as values --------------------------------------------------------------------------------


class wrap_errors:  # noqa: N801 - gevent's name
    """A function that returns some of its exceptions instead of raising them; otherwise as the one that it wraps.

    For functions whose errors are expected, and nobody's report: `spawn(wrap_errors(OSError, fetch), url)`.

    Args:
        errors: the exceptions' class, or a tuple of classes.
        func: what is called.
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


class _FailedToSwitchError(AssertionError):
    pass


class _Switches:
    """Counts a thread's switches from a greenlet, and measures the longest time between two."""

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
        # The time of a hub that sleeps is nobody's.
        if ran is not self._hub.greenlet:
            self.longest_s = max(self.longest_s, now - self._since_s)
        self._since_s = now

    def stop(self) -> None:
        _greenlet.settrace(self._outer)
        self._lap(getcurrent())


class assert_switches:  # noqa: N801 - gevent's name
    """Fail if a block of code, or a function, lets nobody else run: a context manager and a decorator.

    Args:
        max_blocking_time: fail as well if nobody else runs for more than so many seconds, in the midst of it.
        hub_only: only the hub counts as somebody else, not green threads.

    Raises:
        AssertionError: at the end of the block. If the block raises something, that is raised instead.
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

    def _failed(self, why: str) -> _FailedToSwitchError:
        stack = traceback.format_stack(sys._getframe(2))
        return _FailedToSwitchError("\n".join([why, f"{getcurrent()!r} was in:", "".join(stack)]))

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is checked at each call."""

        @functools.wraps(func)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.max_blocking_time, self.hub_only):
                return func(*args, **kwargs)

        return checked
