"""Queues between green threads, coroutines and OS threads.

`get` and `put` block in a green thread; in a coroutine they return awaitables. An item goes directly to the longest
waiting getter. If a getter is killed before it resumes, its item goes back to the queue.
"""

from __future__ import annotations

import heapq
from collections import deque
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from oneloop import _native
from oneloop.green.hub import Countdown, Waiter, get_hub, is_in_green_thread
from oneloop.green.line import TIMED_OUT, Coroutine, Line, wait_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

try:
    from queue import ShutDown
except ImportError:  # before Python 3.13

    class ShutDown(Exception):  # type: ignore[no-redef]  # noqa: N818 - the standard library's name
        """The queue was shut down."""


__all__ = [
    "Channel",
    "Empty",
    "Full",
    "JoinableQueue",
    "LifoQueue",
    "PriorityQueue",
    "Queue",
    "ShutDown",
    "SimpleQueue",
]

T = TypeVar("T")

_SHUT: Any = object()
_TAKEN: Any = object()
_HOOKS = ("_init", "_put", "_get", "_put_back", "_peek")


class _VoidError(Exception):
    """All offers in a channel are from callers that have stopped waiting but have not removed their offers yet."""


class SimpleQueue(_native.QueueCore, Generic[T]):
    """A queue of at most `maxsize` items. None means no limit; so does a number below 1."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        return super().__new__(cls, Line(), Line())

    def __init__(self, maxsize: int | None = None, items: Iterable[T] = ()) -> None:
        # Without overridden hooks, native code does `put` and `get`; otherwise `_put_lined` and `_get_lined` do.
        cls = type(self)
        is_plain = all(getattr(cls, name) is getattr(SimpleQueue, name) for name in _HOOKS)
        self._open(self._init(items), is_plain)
        self.maxsize = maxsize
        self._putters = Line()
        self._putters.guard = self._getters.guard

    # Hooks: subclasses order their items differently.

    def _init(self, items: Iterable[T]) -> Any:
        return deque(items)

    def _put(self, item: T) -> None:
        self.queue.append(item)

    def _get(self) -> T:
        item: T = self.queue.popleft()
        return item

    def _put_back(self, item: T) -> None:
        self.queue.appendleft(item)

    def _peek(self) -> T:
        item: T = self.queue[0]
        return item

    # -- size ----------------------------------------------------------------------------------------

    def qsize(self) -> int:
        """The number of items."""
        return len(self.queue)

    __len__ = qsize

    def __bool__(self) -> bool:
        return True

    def empty(self) -> bool:
        """Whether the queue has no items."""
        return not self.queue

    def full(self) -> bool:
        """Whether the queue has reached its maximum size."""
        return self.maxsize is not None and len(self.queue) >= self.maxsize

    # -- putting -------------------------------------------------------------------------------------

    def _put_lined(self, item: T, block: bool, timeout: float | None) -> Any:
        if block and not is_in_green_thread():
            return self._placed(item, timeout)
        left = Countdown(timeout)
        while True:
            with self._getters.guard:
                if self._put_at_once(item):
                    return None
                if not block:
                    raise Full
                place = self._putters.enter()
            if self._putters.wait(place, left.seconds(), self._room_given_back) is TIMED_OUT:
                raise Full

    async def _placed(self, item: T, timeout: float | None) -> None:
        if self._is_plain:
            waiting = Coroutine()
            if self._try_put(item, waiting):
                return
            woken = await wait_at(self, waiting, timeout, self._kept_room_given_back)
            if woken is TIMED_OUT:
                raise Full
            if woken is _SHUT:
                raise ShutDown
            self._put_kept(item)
            return
        left = Countdown(timeout)
        while True:
            with self._getters.guard:
                if self._put_at_once(item):
                    return
                place = self._putters.enter_coroutine()
            if await self._putters.waited(place, left.seconds(), self._room_given_back) is TIMED_OUT:
                raise Full

    def _put_at_once(self, item: T) -> bool:
        if self.is_shutdown:
            raise ShutDown
        if not self.queue and self._getters.wake(item):
            if self.maxsize is not None:
                # The putter that was woken for this free place has not used it yet: wake the next one.
                self._putters.wake()
            self._count_put()
            return True
        if self.full():
            return False
        self._put(item)
        self._count_put()
        return True

    def _kept_room_given_back(self, woken: Any) -> None:
        if woken is not _SHUT:
            self._give_room_back()

    def _room_given_back(self, _: Any) -> None:
        self._putters.wake()

    def put_nowait(self, item: T) -> None:
        """Put an item without waiting, as `put(item, block=False)` does."""
        self.put(item, block=False)

    # -- getting -------------------------------------------------------------------------------------

    def _get_lined(self, block: bool, timeout: float | None) -> Any:
        if block and not is_in_green_thread():
            return self._gotten(timeout)
        with self._getters.guard:
            if self.queue:
                return self._get_at_once()
            self._check_shut()
            if not block:
                raise Empty
            place = self._getters.enter()
        return self._given(self._getters.wait(place, timeout, self._item_given_back))

    async def _gotten(self, timeout: float | None) -> T:
        if self._is_plain:
            place = Coroutine()
            gotten = self._try_get(place)
            if gotten is not None:
                item: T = gotten[0]
                return item
        else:
            with self._getters.guard:
                if self.queue:
                    return self._get_at_once()
                self._check_shut()
                place = self._getters.enter_coroutine()
        return self._given(await self._getters.waited(place, timeout, self._item_given_back))

    def _get_at_once(self) -> T:
        item = self._get()
        if self.maxsize is not None:
            self._putters.wake()
        return item

    def _check_shut(self) -> None:
        if self.is_shutdown:
            raise ShutDown

    def _given(self, item: Any) -> T:
        if item is TIMED_OUT:
            raise Empty
        if item is _SHUT:
            raise ShutDown
        given: T = item
        return given

    def _item_given_back(self, item: Any) -> None:
        """Put back an item whose getter was killed before it resumed."""
        with self._getters.guard:
            if item is not _SHUT and not self._getters.wake(item):
                self._put_back(item)

    def get_nowait(self) -> T:
        """Return an item without waiting, as `get(block=False)` does."""
        item: T = self.get(block=False)
        return item

    def peek(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next item without removing it; waits as `get` does."""
        if block and not is_in_green_thread():
            return self._peeked(timeout)
        with self._getters.guard:
            if self.queue:
                return self._peek()
        item = self.get(block, timeout)
        self._item_given_back(item)
        return item

    async def _peeked(self, timeout: float | None) -> T:
        with self._getters.guard:
            if self.queue:
                return self._peek()
        item = await self._gotten(timeout)
        self._item_given_back(item)
        return item

    def peek_nowait(self) -> T:
        """Return the next item without removing it and without waiting."""
        item: T = self.peek(block=False)
        return item

    # -- shutdown and iteration ----------------------------------------------------------------------

    def shutdown(self, immediate: bool = False) -> None:
        """Refuse further items, and raise ShutDown in the callers that wait. Callable from any thread.

        Args:
            immediate: also drop the items that are in the queue.
        """
        with self._getters.guard:
            self.is_shutdown = True
            if immediate:
                self._drop_all()
        self._getters.wake_all(_SHUT)
        self._putters.wake_all()
        self._refuse_putters(_SHUT)

    def _drop_all(self) -> None:
        self.queue.clear()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if not is_in_green_thread():
            raise TypeError("cannot iterate over a queue with `for` in a coroutine: use `async for`")
        item = self.get()
        if item is StopIteration:
            raise StopIteration
        got: T = item
        return got

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        item = await self._gotten(None)
        if item is StopIteration:
            raise StopAsyncIteration
        return item

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} at {hex(id(self))} maxsize={self.maxsize} items={len(self.queue)} "
            f"getters={len(self._getters)} putters={len(self._putters) + self._waiting_putters}>"
        )


class Queue(SimpleQueue[T]):
    """A queue that also counts unfinished tasks; see `queue.Queue`."""

    def __init__(
        self, maxsize: int | None = None, items: Iterable[T] = (), unfinished_tasks: int | None = None
    ) -> None:
        super().__init__(maxsize, items)
        self.unfinished_tasks = len(self.queue) if unfinished_tasks is None else unfinished_tasks

    def task_done(self) -> None:
        """Mark the work for one item as done.

        Raises:
            ValueError: called more often than items were put.
        """
        self._tasks_done(1)

    def join(self, timeout: float | None = None) -> Any:
        """Wait until the work for all items is done.

        Args:
            timeout: the maximum time in seconds; None means no limit.

        Returns:
            Whether all work is done. In a coroutine: an awaitable of that.
        """
        if not is_in_green_thread():
            return self._finished(timeout)
        place = Waiter(get_hub())
        if self._enter_unfinished(place):
            self._finishers.wait(place, timeout)
        return self.unfinished_tasks <= 0

    async def _finished(self, timeout: float | None) -> bool:
        place = Coroutine()
        if self._enter_unfinished(place):
            await wait_at(self._finishers, place, timeout)
        return self.unfinished_tasks <= 0

    def _drop_all(self) -> None:
        dropped = len(self.queue)
        super()._drop_all()
        self._tasks_done(min(dropped, self.unfinished_tasks))


JoinableQueue = Queue


class LifoQueue(Queue[T]):
    """A queue that returns the newest item first."""

    def _init(self, items: Iterable[T]) -> list[T]:
        return list(items)

    def _get(self) -> T:
        item: T = self.queue.pop()
        return item

    def _put_back(self, item: T) -> None:
        self.queue.append(item)

    def _peek(self) -> T:
        item: T = self.queue[-1]
        return item


class PriorityQueue(Queue[T]):
    """A queue that returns the smallest item first."""

    def _init(self, items: Iterable[T]) -> list[T]:
        heap: list[Any] = list(items)
        heapq.heapify(heap)
        return heap

    def _put(self, item: T) -> None:
        heapq.heappush(self.queue, item)

    _put_back = _put

    def _get(self) -> T:
        item: T = heapq.heappop(self.queue)
        return item


class Channel(SimpleQueue[T]):
    """A queue without a buffer: `put` waits until another caller gets the item."""

    def __init__(self, maxsize: int = 1) -> None:
        if maxsize != 1:
            raise ValueError(f"a channel's maxsize must be 1, not {maxsize!r}")
        super().__init__()

    # `queue` holds offers: an item, and the waiter of its `put`; None if that caller no longer waits.

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> Any:
        """Hand an item over, and wait until another caller takes it.

        Args:
            item: the item.
            block: whether to wait; if false, and no caller is waiting for an item, raise Full.
            timeout: the maximum time in seconds; None means no limit.

        Raises:
            Full: no caller took the item in time.
            ShutDown: the channel was shut down.
        """
        if block and not is_in_green_thread():
            return self._placed(item, timeout)
        with self._getters.guard:
            if self._put_at_once(item):
                return None
            if not block:
                raise Full
            place = self._putters.enter()
            offer = (item, place)
            self.queue.append(offer)
        try:
            self._check_taken(self._putters.wait(place, timeout))
        finally:
            self._withdraw(offer)
        return None

    async def _placed(self, item: T, timeout: float | None) -> None:
        with self._getters.guard:
            if self._put_at_once(item):
                return
            place = self._putters.enter_coroutine()
            offer = (item, place)
            self.queue.append(offer)
        try:
            self._check_taken(await self._putters.waited(place, timeout))
        finally:
            self._withdraw(offer)

    def _put_at_once(self, item: T) -> bool:
        self._check_shut()
        taken: bool = self._getters.wake(item)
        return taken

    def _check_taken(self, woken: Any) -> None:
        if woken is TIMED_OUT:
            raise Full
        if woken is not _TAKEN:
            raise ShutDown

    def _withdraw(self, offer: Any) -> None:
        with self._getters.guard:
            for index, other in enumerate(self.queue):
                if other is offer:
                    del self.queue[index]
                    return

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take an item and wake the caller that offered it.

        Args:
            block: whether to wait for an offer.
            timeout: the maximum time in seconds; None means no limit.

        Raises:
            Empty: no item was offered in time.
            ShutDown: the channel was shut down.
        """
        if block and not is_in_green_thread():
            return self._gotten(timeout)
        while True:
            try:
                return super().get(block, timeout)
            except _VoidError:
                continue

    async def _gotten(self, timeout: float | None) -> T:
        while True:
            try:
                return await super()._gotten(timeout)
            except _VoidError:
                continue

    def _get_at_once(self) -> T:
        while self.queue:
            item, place = self.queue.popleft()
            if place is None:
                given: T = item
                return given
            self._putters.forget(place)
            if place.wake(_TAKEN):
                taken: T = item
                return taken
        raise _VoidError

    def _put_back(self, item: T) -> None:
        self.queue.appendleft((item, None))

    def _peek(self) -> T:
        item: T = self.queue[0][0]
        return item
