"""`Callback`: a call that the hub makes soon, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Callback"]


class Callback:
    """What `loop.run_callback` gives. True until it has run or was stopped. It belongs to the loop's thread."""

    __slots__ = ("__weakref__", "args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args: tuple[Any, ...] | None = args

    def stop(self) -> None:
        """Do not call; nothing if it was called."""
        self.callback = self.args = None

    close = stop

    def __bool__(self) -> bool:
        return self.args is not None

    @property
    def pending(self) -> bool:
        """Whether it is still to be called, or is being called."""
        return self.callback is not None

    def __repr__(self) -> str:
        if self.args is None:
            return f"<{type(self).__name__} at {hex(id(self))} stopped>"
        return f"<{type(self).__name__} at {hex(id(self))} callback={self.callback!r} args={self.args!r}>"
