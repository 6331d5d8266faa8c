"""`IMap` and `IMapUnordered`: green threads that start a call for each item, and iterators over what the calls give.

```text
starting calls → all started → all ended → exhausted
       ↘ killed: its calls are killed too, what they gave is dropped ↗
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from greenlet import GreenletExit, getcurrent

from oneloop.green.greenlet import Greenlet, joinall, wait
from oneloop.green.hub import get_hub, is_in_green_thread
from oneloop.green.lock import DummySemaphore, Semaphore
from oneloop.green.queue import SimpleQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["IMap", "IMapUnordered"]

_END: Any = object()


class IMapUnordered(Greenlet):
    """The calls' results in the order in which they come.

    An exception of a call is raised by `next()` in its turn, and the iteration can go on after it. An exception of the
    items' iterator comes after the results of the calls that were started before.

    Unlike gevent's, an iterator that is exhausted stays so instead of blocking, and killing it kills its calls, so that
    nothing of it goes on running. Calls in OS threads cannot be killed; their results are dropped.

    Args:
        function: called with the elements of each item.
        iterable: the items, tuples; they are taken when there is room for another call.
        spawn: starts a call; may wait.
        maxsize: how many calls may be started whose results were not asked for; None or 0: any number.
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
        """Those that have not ended."""
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
        """A call was started."""

    def _call_ended(self, call: Any) -> None:
        self._results.put_nowait(call)

    # -- ending it -------------------------------------------------------------------------------------

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Start no more calls, kill those that run, and wait until they have ended; drop what is not read.

        Who waits for the next result gets StopIteration, or `exception` if that is no GreenletExit.
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
        """The green threads that were killed. The one that calls goes on."""
        self._is_killed = True
        killed = [call for call in self._calls if isinstance(call, Greenlet) and call is not getcurrent()]
        self._calls.clear()
        self._results.queue.clear()
        for call in killed:
            call.kill(exception, block=False)
        return killed

    # -- reading ---------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """The next result, waited for.

        Raises:
            StopIteration: there are no more.
            BlockingSwitchOutError: in a coroutine.
            BaseException: what the call has raised, or the items' iterator.
        """
        if not is_in_green_thread():
            raise get_hub()._parking_refused()
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
        """The call has ended."""


class IMap(IMapUnordered):
    """The calls' results in the order of the items."""

    def _call_begun(self, call: Any) -> None:
        self._results.put_nowait(call)

    def _call_ended(self, call: Any) -> None:
        """It stands in the queue already."""

    def _wait_for(self, call: Any) -> None:
        try:
            wait([call])
        except BaseException:
            # Who asks next has it.
            self._results._item_given_back(call)
            raise
