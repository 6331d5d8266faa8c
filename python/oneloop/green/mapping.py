"""`GroupMappingMixin`: calls and maps by means of `spawn`, for groups of green threads and for pools of OS threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import get_hub, is_in_green_thread
from oneloop.green.imap import IMap, IMapUnordered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["GroupMappingMixin"]


class GroupMappingMixin:
    """Has calls made by `spawn`, which subclasses define, and gives their results."""

    __slots__ = ()

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Start a call; waits for room. Returns what has `get` and `rawlink`."""
        raise NotImplementedError

    def _is_inside(self) -> bool:
        """The caller is one of those that do the work: if it waited for another, all might wait."""
        raise NotImplementedError

    def _would_wait(self) -> bool:
        """A call by `apply_async` needs a green thread of its own."""
        raise NotImplementedError

    def _call_back(self, callback: Callable[[Any], object], result: Any) -> None:
        raise NotImplementedError

    # -- one call --------------------------------------------------------------------------------------

    def apply(
        self, func: Callable[..., Any], args: Sequence[Any] | None = None, kwds: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function, and wait for what it returns; called by one of its own calls, make the call right there.

        Raises:
            BaseException: what the function raises.
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
        """As `apply`; then `callback(result)`, in a green thread of its own if this is a group of green threads."""
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
        """A green thread that makes the call, and `callback(result)` unless it fails. Never waits.

        Where there is no room, the green thread waits for it, and does not belong to the group: join the green thread.
        """
        if self._would_wait():
            return Greenlet.spawn(self.apply_cb, func, args, kwds, callback)
        greenlet: Greenlet = self.spawn(func, *(args or ()), **(kwds or {}))
        if callback is not None:
            greenlet.link_value(_WithValue(callback))
        return greenlet

    # -- many calls ------------------------------------------------------------------------------------

    def map(self, func: Callable[[Any], Any], iterable: Iterable[Any]) -> list[Any]:
        """What the function returns for each item, in their order. The calls that are started go on if one fails.

        Raises:
            BaseException: what the call for the first item that has failed has raised.
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
        """As `map`; then `callback(results)`."""
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
        """A green thread, not of the group, that does what `map_cb` does."""
        return Greenlet.spawn(self.map_cb, func, iterable, callback)

    def imap(self, func: Callable[..., Any], *iterables: Iterable[Any], maxsize: int | None = None) -> IMap:
        """An iterator over `func(*elements)` for the elements of the iterables, in their order; the calls run at once.

        Args:
            func: called in a green thread or OS thread, as `spawn` does it.
            iterables: as of `zip`.
            maxsize: how many calls may be started whose results were not asked for.
        """
        return IMap.spawn(func, zip(*iterables, strict=False), self.spawn, maxsize)

    def imap_unordered(
        self, func: Callable[..., Any], *iterables: Iterable[Any], maxsize: int | None = None
    ) -> IMapUnordered:
        """As `imap`, in the order in which the results come."""
        return IMapUnordered.spawn(func, zip(*iterables, strict=False), self.spawn, maxsize)


class _WithValue:
    """As a link: has the value of what it is linked to."""

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
    """What a call has given, waited for; in a coroutine, an error."""
    if not is_in_green_thread() and not call.ready():
        raise get_hub()._parking_refused()
    return call.get(block=not call.ready())
