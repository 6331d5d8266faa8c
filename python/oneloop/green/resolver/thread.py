"""`Resolver`: the system's functions, called in OS threads."""

from __future__ import annotations

from typing import Any

from oneloop.green.hub import get_hub
from oneloop.green.resolver import AbstractResolver

__all__ = ["Resolver"]


class Resolver(AbstractResolver):
    """Calls the system's functions in the threads of the hub's pool."""

    def __init__(self, hub: Any = None) -> None:
        self.pool = (get_hub() if hub is None else hub).threadpool

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} pool={self.pool!r}>"

    def call(self, function: Any, *args: Any) -> Any:
        """Call a function in a thread of the pool. Return its result or raise its exception."""
        value, error = self.pool.apply(_outcome, (function, args))
        if error is None:
            return value
        try:
            raise error
        finally:
            del error


def _outcome(function: Any, args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """Return the result or the exception of a call. If it raised, the pool would report the exception."""
    try:
        return function(*args), None
    except Exception as error:  # noqa: BLE001 - `call` raises it
        return None, error
