"""`Resolver`: the system's functions, in real threads."""

from __future__ import annotations

from typing import Any

from oneloop.green.hub import get_hub
from oneloop.green.resolver import AbstractResolver

__all__ = ["Resolver"]


class Resolver(AbstractResolver):
    """Asks the system, in the threads of the hub's pool."""

    def __init__(self, hub: Any = None) -> None:
        self.pool = (get_hub() if hub is None else hub).threadpool

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} pool={self.pool!r}>"

    def call(self, function: Any, *args: Any) -> Any:
        """The function's result, or its exception; a thread of the pool calls it."""
        value, error = self.pool.apply(_outcome, (function, args))
        if error is None:
            return value
        try:
            raise error
        finally:
            del error


def _outcome(function: Any, args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """What a call returns or raises. The pool would report an exception; here it is the caller's alone."""
    try:
        return function(*args), None
    except Exception as error:  # noqa: BLE001 - `call` raises it
        return None, error
