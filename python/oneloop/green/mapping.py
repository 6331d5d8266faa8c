"""Calls for each item of an iterable, based on `spawn`, for groups of green threads and pools of OS threads.

`IMap` and `IMapUnordered` are green threads that start the calls, and iterators over their results:

```text
starting calls → all started → all ended → exhausted
       ↘ killed: its calls are killed too, their results are dropped ↗
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from greenlet import GreenletExit, getcurrent

from oneloop.green.greenlet import Greenlet, joinall
from oneloop.green.iwait import wait
from oneloop.green.lock import DummySemaphore, Semaphore
from oneloop.green.queue import SimpleQueue
from oneloop.green.steps import is_in_green_thread, wait_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    A = TypeVar("A")
    R = TypeVar("R")

__all__ = ["GroupMappingMixin", "IMap", "IMapUnordered"]

_END: Any = object()


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
        self, func: Callable[..., R], args: Sequence[Any] | None = None, kwds: Mapping[str, Any] | None = None
    ) -> R:
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
        result: R = _outcome(self.spawn(func, *(args or ()), **(kwds or {})))
        return result

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

    def map(self, func: Callable[[A], R], iterable: Iterable[A]) -> list[R]:
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
    """Wait for the outcome of a call. In a coroutine that may not block, raise an error unless it is ready."""
    return call.get(block=False) if call.ready() else wait_here(call.get)


class IMapUnordered(Greenlet):
    """The results of calls, in the order in which the calls end.

    If a call raises an exception, `next()` raises it in place of the result, and the iteration can continue after it.
    If the items' iterator raises an exception, it is raised after the results of the calls that were started before.

    Differences from gevent: an exhausted iterator stays exhausted instead of blocking, and killing the iterator kills
    its calls, so that nothing continues to run. Calls in OS threads cannot be killed; their results are dropped.

    Args:
        function: called with the elements of each item.
        iterable: the items, tuples. The next one is taken when another call may start.
        spawn: starts a call; may wait.
        maxsize: the maximum number of calls whose results were not read yet; None or 0 means no limit.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        iterable: Iterable[tuple[Any, ...]],
        spawn: Callable[..., Any],
        maxsize: int | None = None,
    ) -> None:
        super().__init__()
        self._function = function
        self._items: Iterator[tuple[Any, ...]] = iter(iterable)
        self._spawn = spawn
        self._room: Any = Semaphore(maxsize) if maxsize else DummySemaphore()
        self._results: SimpleQueue[Any] = SimpleQueue()
        self._calls: set[Any] = set()
        """Calls that have not ended."""
        self._is_killed = False
        self._has_raised = False
        self.rawlink(self._all_started)

    # -- starting calls --------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._room.acquire()
            try:
                item = next(self._items)
            except StopIteration:
                return
            call = self._spawn(self._function, *item)
            self._calls.add(call)
            self._call_begun(call)
            call.rawlink(self._call_over)

    def _all_started(self, _: Any) -> None:
        if self._is_killed or isinstance(self.value, GreenletExit):
            self._abandon(GreenletExit)
        self._check_end()

    def _call_over(self, call: Any) -> None:
        if call in self._calls:
            self._calls.discard(call)
            self._call_ended(call)
            self._check_end()

    def _check_end(self) -> None:
        if self.ready() and not self._calls:
            self._results.put_nowait(_END)

    def _call_begun(self, call: Any) -> None:
        """Called after a call was started."""

    def _call_ended(self, call: Any) -> None:
        self._results.put_nowait(call)

    # -- killing ---------------------------------------------------------------------------------------

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Start no more calls, kill those that run, wait until they have ended, and drop unread results.

        A caller that waits for the next result gets StopIteration, or `exception` if that is not a GreenletExit.

        Args:
            exception: an exception or an exception class.
            block: whether to wait for the end of the calls.
            timeout: the maximum time to wait, in seconds; None means no limit.
        """
        if self.ready() and not self._calls:
            return
        self._is_killed = True
        killed = self._abandon(exception)
        if self.ready():
            self._check_end()
        else:
            super().kill(exception, block=False)
        if block:
            joinall([one for one in (self, *killed) if one is not getcurrent()], timeout)

    def _abandon(self, exception: Any) -> list[Greenlet]:
        """Kill the green threads of the calls, except the caller, and return them."""
        self._is_killed = True
        killed = [call for call in self._calls if isinstance(call, Greenlet) and call is not getcurrent()]
        self._calls.clear()
        self._results.queue.clear()
        for call in killed:
            call.kill(exception, block=False)
        return killed

    @property
    def queue(self) -> SimpleQueue[Any]:
        """The calls whose results were not read yet."""
        return self._results

    # -- reading ---------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Wait for the next result.

        Raises:
            StopIteration: there are no more results.
            BlockingSwitchOutError: called in a coroutine that may not block.
            BaseException: the exception that the call or the items' iterator raised.
        """
        if not is_in_green_thread():
            return wait_here(self.__next__)
        call = self._results.get()
        if call is _END:
            self._results.put_nowait(_END)
            return self._exhausted()
        self._wait_for(call)
        if self._is_killed:
            return self._exhausted()
        self._room.release()
        if call.successful():
            return call.value
        if isinstance(call.exception, StopIteration):
            raise RuntimeError("a mapped function raised StopIteration") from call.exception
        raise call.exception

    next = __next__

    def _exhausted(self) -> Any:
        if self.exception is not None and not self._has_raised:
            self._has_raised = True
            raise self.exception
        raise StopIteration

    def _wait_for(self, call: Any) -> None:
        """Wait until the call has ended. Here, it already has."""


class IMap(IMapUnordered):
    """The results of calls, in the order of the items."""

    def _call_begun(self, call: Any) -> None:
        self._results.put_nowait(call)

    def _call_ended(self, call: Any) -> None:
        """Do nothing: the call is already in the queue."""

    def _wait_for(self, call: Any) -> None:
        try:
            wait([call])
        except BaseException:
            # The next caller of `next()` gets this result.
            self._results._item_given_back(call)
            raise
