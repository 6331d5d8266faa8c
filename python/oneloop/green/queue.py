"""Queues between green threads, coroutines and threads.

`get` and `put` block in a green thread; in a coroutine they return awaitables. An item goes straight to who has waited
longest for one; who is killed with an item in hand gives it back.
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
    """All offers of a channel were given up by who made them, and not withdrawn yet."""


class SimpleQueue(_native.QueueCore, Generic[T]):
    """A queue of at most `maxsize` items, of any number if that is None or not more than 0."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        return super().__new__(cls, Line(), Line())

    def __init__(self, maxsize: int | None = None, items: Iterable[T] = ()) -> None:
        # What is plain is done natively, by `put` and `get`; the rest in `_put_lined` and `_get_lined`.
        cls = type(self)
        is_plain = all(getattr(cls, name) is getattr(SimpleQueue, name) for name in _HOOKS)
        self._open(self._init(items), is_plain)
        self.maxsize = maxsize
        self._putters = Line()
        self._putters.guard = self._getters.guard

    # Subclasses order their items in other ways.

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

    # -- how full it is ------------------------------------------------------------------------------

    def qsize(self) -> int:
        """How many items there are."""
        return len(self.queue)

    __len__ = qsize

    def __bool__(self) -> bool:
        return True

    def empty(self) -> bool:
        """Whether there are none."""
        return not self.queue

    def full(self) -> bool:
        """Whether there is no room for another."""
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
                # Whoever was woken for this room has not taken it: the next one may.
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
        """Put an item in at once. As `put(item, block=False)`."""
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
        """Who has got it was killed before it could go on."""
        with self._getters.guard:
            if item is not _SHUT and not self._getters.wake(item):
                self._put_back(item)

    def get_nowait(self) -> T:
        """An item, at once. As `get(block=False)`."""
        item: T = self.get(block=False)
        return item

    def peek(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next item, which stays. As `get`."""
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
        """The next item, which stays, at once."""
        item: T = self.peek(block=False)
        return item

    # -- the end -------------------------------------------------------------------------------------

    def shutdown(self, immediate: bool = False) -> None:
        """Take no more items; with `immediate`, drop those that there are. Who waits gets ShutDown. Any thread."""
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
            raise TypeError("in a coroutine, a queue is iterated over with `async for`")
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
    """A queue that also counts the items whose work is not done; see `queue.Queue`."""

    def __init__(
        self, maxsize: int | None = None, items: Iterable[T] = (), unfinished_tasks: int | None = None
    ) -> None:
        super().__init__(maxsize, items)
        self.unfinished_tasks = len(self.queue) if unfinished_tasks is None else unfinished_tasks

    def task_done(self) -> None:
        """The work of an item is done.

        Raises:
            ValueError: called more often than there were items.
        """
        self._tasks_done(1)

    def join(self, timeout: float | None = None) -> Any:
        """Wait until the work of all items is done: whether it is. In a coroutine: an awaitable of that."""
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
    """A queue whose newest item is the first to leave."""

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
    """A queue whose smallest item is the first to leave."""

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
    """A queue without room: who puts waits until somebody gets."""

    def __init__(self, maxsize: int = 1) -> None:
        if maxsize != 1:
            raise ValueError("a channel has no other size than 1")
        super().__init__()

    # `queue` holds offers: an item, and who waits for it to be taken (None: nobody any more).

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> Any:
        """Hand an item over, waiting for who takes it for at most so many seconds. As `Queue.put`."""
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
        """An item; who has offered it goes on. As `Queue.get`."""
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
