"""What gevent's test helpers need of its private `_util`."""

from __future__ import annotations

from functools import cached_property as Lazy  # noqa: N812 - gevent's name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Lazy", "LazyOnClass"]


class LazyOnClass:
    """A property that replaces itself by its value, on the class."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = self._function(instance)
        setattr(owner, self._function.__name__, value)
        return value
