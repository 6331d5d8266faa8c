"""`spawn_raw`: greenlets without links and results; and the exceptions that greenlets of any kind are killed with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from greenlet import getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop.green.hub import get_hub

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["exception_of", "spawn_raw"]


def spawn_raw(function: Callable[..., Any], *args: Any, **kwargs: Any) -> RawGreenlet:
    """Start a plain greenlet, without links and without a result. Cheaper than `spawn`."""
    if not callable(function):
        raise TypeError("function must be callable")
    hub = get_hub()
    if args or kwargs:
        function = partial(function, *args, **kwargs)
    greenlet = _Raw(function)
    current = getcurrent()
    greenlet.spawning_greenlet = ref(current)
    if current.parent is not None:
        # The main greenlet shares nothing.
        tree = getattr(current, "spawn_tree_locals", None)
        if tree is not None:
            greenlet.spawn_tree_locals = tree
    hub.start(greenlet)
    return greenlet


class _Raw(RawGreenlet):
    """A greenlet that `spawn_raw` has made."""

    __slots__ = ("spawning_greenlet",)

    spawning_greenlet: ref[RawGreenlet]

    @property
    def spawn_tree_locals(self) -> dict[str, Any]:
        """A dictionary shared with the green thread that spawned it and those it spawns."""
        tree: dict[str, Any] = self.__dict__.setdefault("spawn_tree_locals", {})
        return tree

    @spawn_tree_locals.setter
    def spawn_tree_locals(self, tree: dict[str, Any]) -> None:
        self.__dict__["spawn_tree_locals"] = tree


def exception_of(exception: Any) -> BaseException:
    """Return the exception to raise for an exception, a class, a tuple as of `sys.exc_info()`, or anything else."""
    if isinstance(exception, tuple):
        kind: Any
        kind, value, *trace = (*exception, None)[:3]
        exception = kind if value is None else value
        if isinstance(exception, BaseException) and trace and trace[0] is not None:
            exception = exception.with_traceback(trace[0])
        elif not isinstance(exception, BaseException) and value is not None:
            exception = kind(value)
    if isinstance(exception, type) and issubclass(exception, BaseException):
        exception = exception()
    return exception if isinstance(exception, BaseException) else BaseException(exception)
