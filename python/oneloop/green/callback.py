"""`Callback`: a call that the hub makes once, soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Callback"]


class Callback:
    """The return value of `loop.run_callback`. True until it has run or was stopped. Use it in the loop's thread."""

    __slots__ = ("__weakref__", "args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args: tuple[Any, ...] | None = args

    def stop(self) -> None:
        """Cancel the call. No effect if it was made."""
        self.callback = self.args = None

    close = stop

    def __bool__(self) -> bool:
        return self.args is not None

    @property
    def pending(self) -> bool:
        """Whether the call has not started and was not stopped."""
        return self.callback is not None

    def __repr__(self) -> str:
        if self.args is None:
            return f"<{type(self).__name__} at {hex(id(self))} stopped>"
        return f"<{type(self).__name__} at {hex(id(self))} callback={self.callback!r} args={self.args!r}>"
