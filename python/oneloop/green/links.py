"""Links: what is called when a green thread has ended, and how links are removed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop.green.hub import get_hub
from oneloop.green.steps import is_in_green_thread

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

__all__ = ["Link", "linkproxy", "own_links", "unlink"]


own_links: set[Callable[[Any], object]] = set()
"""Callbacks that this package links to green threads for itself. `Greenlet.has_links` does not count them."""


def unlink(links: deque[Any], callback: Callable[[Any], object]) -> None:
    """Remove a link. Other threads may change `links` at the same time."""
    while True:
        try:
            links.remove(callback)
        except IndexError:
            continue  # another thread changed it in the meantime
        except ValueError:
            pass
        return


class Link:
    """Runs a callback in a new greenlet, where it may wait, as soon as it is called on the hub."""

    __slots__ = ("callback", "if_succeeded")

    def __init__(self, callback: Callable[[Any], object], if_succeeded: bool | None = None) -> None:
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        self.callback = callback
        self.if_succeeded = if_succeeded

    def __call__(self, source: Any) -> None:
        if self.if_succeeded is not None and self.if_succeeded != source.successful():
            return
        hub = get_hub()
        greenlet = RawGreenlet(partial(self._run, source, hub))
        if is_in_green_thread():
            hub.start(greenlet)
        else:
            hub.run_now(greenlet)

    def _run(self, source: Any, hub: Any) -> None:
        try:
            self.callback(source)
        except BaseException as error:  # noqa: BLE001 - it is reported
            hub.handle_error((self, source), type(error), error, error.__traceback__)

    def __eq__(self, other: object) -> bool:
        return self.callback == getattr(other, "callback", other)

    def __hash__(self) -> int:
        return hash(self.callback)


class linkproxy:  # noqa: N801 - gevent's name
    """Calls `callback(obj)` whatever its arguments are. A second call raises TypeError."""

    __slots__ = ("callback", "obj")

    def __init__(self, callback: Callable[[Any], object], obj: Any) -> None:
        self.callback: Any = callback
        self.obj = obj

    def __call__(self, *_args: Any) -> None:
        callback, obj = self.callback, self.obj
        self.callback = self.obj = None
        callback(obj)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, linkproxy) and self.obj is other.obj and self.callback == other.callback

    def __hash__(self) -> int:
        return hash((self.callback, id(self.obj)))
