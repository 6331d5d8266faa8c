"""`linkproxy`: a link that calls a function once, and then drops its references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["linkproxy"]


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
