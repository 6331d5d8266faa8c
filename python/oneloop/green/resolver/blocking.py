"""`Resolver`: the system's functions, called as they are."""

from __future__ import annotations

from typing import Any

from oneloop.green.resolver import AbstractResolver

__all__ = ["Resolver"]


class Resolver(AbstractResolver):
    """Asks the system; everybody waits meanwhile. For programs that may have no threads."""

    def call(self, function: Any, *args: Any) -> Any:
        """The function's result, or its exception."""
        return function(*args)
