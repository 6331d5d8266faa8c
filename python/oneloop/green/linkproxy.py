"""`linkproxy`: a link that calls something else, once, and keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["linkproxy"]


class linkproxy:  # noqa: N801 - gevent's name
    """Called with whatever, calls `callback(obj)`; the second time it fails with TypeError."""

    __slots__ = ("callback", "obj")

    def __init__(self, callback: Callable[[Any], object], obj: Any) -> None:
        self.callback: Any = callback
        self.obj = obj

    def __call__(self, *_args: Any) -> None:
        callback, obj = self.callback, self.obj
        self.callback = self.obj = None
        callback(obj)
