"""`GroupMappingMixin`: calls and maps based on `spawn`, for groups of green threads and pools of OS threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import get_hub, is_in_green_thread
from oneloop.green.imap import IMap, IMapUnordered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["GroupMappingMixin"]


class GroupMappingMixin:
    """Makes calls with `spawn`, which subclasses define, and returns their results."""

    __slots__ = ()

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Start a call; wait for room if needed. Return an object with `get` and `rawlink`."""
        raise NotImplementedError

    def _is_inside(self) -> bool:
        """Whether the caller is one of the workers. If a worker waited for another, all of them might wait forever."""
        raise NotImplementedError

    def _would_wait(self) -> bool:
        """Whether `apply_async` needs an extra green thread to make its call."""
        raise NotImplementedError

    def _call_back(self, callback: Callable[[Any], object], result: Any) -> None:
        raise NotImplementedError

    # -- one call --------------------------------------------------------------------------------------

    def apply(
        self, func: Callable[..., Any], args: Sequence[Any] | None = None, kwds: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function and wait for its return value.

        If the caller is itself one of the group's calls, the function is called directly.

        Args:
            func: the function to call.
            args: its arguments.
            kwds: its keyword arguments.

        Raises:
            BaseException: the exception that the function raises.
        """
        if self._is_inside():
            return func(*(args or ()), **(kwds or {}))
        return _outcome(self.spawn(func, *(args or ()), **(kwds or {})))

    def apply_cb(
        self,
        func: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwds: Mapping[str, Any] | None = None,
        callback: Callable[[Any], object] | None = None,
    ) -> Any:
        """Like `apply`; then call `callback(result)`, in a new green thread if this is a group of green threads."""
        result = self.apply(func, args, kwds)
        if callback is not None:
            self._call_back(callback, result)
        return result

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwds: Mapping[str, Any] | None = None,
        callback: Callable[[Any], object] | None = None,
    ) -> Greenlet:
        """Start a green thread that makes the call, and then `callback(result)` unless the call fails. Never waits.

        If the group is full, the green thread waits for room and is not a member of the group: join it directly.
        """
        if self._would_wait():
            return Greenlet.spawn(self.apply_cb, func, args, kwds, callback)
        greenlet: Greenlet = self.spawn(func, *(args or ()), **(kwds or {}))
        if callback is not None:
            greenlet.link_value(_WithValue(callback))
        return greenlet

    # -- many calls ------------------------------------------------------------------------------------

    def map(self, func: Callable[[Any], Any], iterable: Iterable[Any]) -> list[Any]:
        """Call a function for each item, and return the results in order. If a call fails, the others continue.

        Args:
            func: called with one item.
            iterable: the items.

        Raises:
            BaseException: the exception of the first item, in order, whose call failed.
        """
        if self._is_inside():
            return [func(item) for item in iterable]
        return [_outcome(call) for call in [self.spawn(func, item) for item in iterable]]

    def map_cb(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        callback: Callable[[list[Any]], object] | None = None,
    ) -> list[Any]:
        """Like `map`; then call `callback(results)`."""
        results = self.map(func, iterable)
        if callback is not None:
            callback(results)
        return results

    def map_async(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        callback: Callable[[list[Any]], object] | None = None,
    ) -> Greenlet:
        """Start a green thread, outside of the group, that does what `map_cb` does."""
        return Greenlet.spawn(self.map_cb, func, iterable, callback)

    def imap(self, func: Callable[..., Any], *iterables: Iterable[Any], maxsize: int | None = None) -> IMap:
        """Iterate over the results of `func(*elements)`, in order. The calls run concurrently.

        Args:
            func: the function, called in a green thread or OS thread by `spawn`.
            *iterables: the arguments, combined as by `zip`.
            maxsize: the maximum number of started calls whose results were not read yet; None means no limit.
        """
        return IMap.spawn(func, zip(*iterables, strict=False), self.spawn, maxsize)

    def imap_unordered(
        self, func: Callable[..., Any], *iterables: Iterable[Any], maxsize: int | None = None
    ) -> IMapUnordered:
        """Like `imap`, but in the order in which the calls end."""
        return IMapUnordered.spawn(func, zip(*iterables, strict=False), self.spawn, maxsize)


class _WithValue:
    """As a link: calls the callback with the value of the linked object."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[Any], object]) -> None:
        self.callback = callback

    def __call__(self, source: Any) -> None:
        self.callback(source.value)

    def __eq__(self, other: object) -> bool:
        return self.callback == getattr(other, "callback", other)

    def __hash__(self) -> int:
        return hash(self.callback)


def _outcome(call: Any) -> Any:
    """Wait for the outcome of a call. In a coroutine, raise an error unless it is ready."""
    if not is_in_green_thread() and not call.ready():
        raise get_hub()._parking_refused()
    return call.get(block=not call.ready())
