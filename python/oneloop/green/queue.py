"""Queues between green threads, coroutines and OS threads.

`get` and `put` block in a green thread; in a coroutine they return awaitables. An item goes directly to the longest
waiting getter. If a getter is killed before it resumes, its item goes back to the queue.
"""

from __future__ import annotations

import heapq
from collections import deque
from queue import Empty, Full
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Self

from oneloop import _native
from oneloop.green.hub import Countdown, Waiter, get_hub
from oneloop.green.line import TIMED_OUT, Coroutine, Line, wait_at
from oneloop.green.steps import is_in_callback, is_in_green_thread
from oneloop.green.timeout import Timeout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

try:
    from queue import ShutDown  # pyright: ignore[reportAssignmentType]
except ImportError:  # before Python 3.13
    # Its name in the standard library.
    class ShutDown(Exception):  # type: ignore[no-redef]  # noqa: N818
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

_SHUT: Any = object()
_TAKEN: Any = object()
_LOOK: Any = object()
"""Tells a getter that there may be an item for it in the queue."""
_HOOKS = ("_init", "_create_queue", "_put", "_get", "_put_back", "_peek")


class _Started:
    """Starts a `Timeout`, and cancels it at the end of the block. Unlike its own `with`, it suppresses nothing."""

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = Timeout.start_new(timeout)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._timeout.cancel()


class _VoidError(Exception):
    """All offers in a channel are from callers that have stopped waiting but have not removed their offers yet."""


class SimpleQueue(_native.QueueCore, Generic[T]):
    """A queue of at most `maxsize` items. None means no limit; so does a number below 1."""

    if TYPE_CHECKING:
        # In a coroutine, `get` returns an awaitable, which these types do not say; `await anext(queue)` has the item's.
        def get(self, block: bool = True, timeout: float | Timeout | None = None) -> T: ...
        def put(self, item: T, block: bool = True, timeout: float | Timeout | None = None) -> Any: ...

    else:
        # As the standard library's queues: `Queue[int]` is no class of its own.
        __class_getitem__ = classmethod(GenericAlias)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        return super().__new__(cls, Line(), Line())

    def __init__(self, maxsize: int | None = None, items: Iterable[T] = ()) -> None:
        # Without overridden hooks, native code does `put` and `get`; otherwise `_put_lined` and `_get_lined` do.
        cls = type(self)
        is_plain = all(getattr(cls, name) is getattr(SimpleQueue, name) for name in _HOOKS)
        self._open(is_plain)
        # Subclasses of the standard library's queues define `_init(maxsize)`.
        if items:
            self._init(maxsize, items)
        else:
            self._init(maxsize)
        self.maxsize = maxsize
        self._putters = Line()
        self._putters.guard = self._getters.guard

    # Hooks: subclasses order their items differently.

    def _init(self, maxsize: int | None, items: Iterable[T] = ()) -> None:
        self.queue = self._create_queue(items)

    def _create_queue(self, items: Iterable[T] = ()) -> Any:
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

    def copy(self) -> Self:
        """Return a new queue of the same class, with the same maximum size and the same items."""
        return type(self)(self.maxsize, self.queue)

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

    def _put_lined(self, item: T, block: bool, timeout: float | Timeout | None) -> Any:
        if block and not is_in_green_thread():
            if not is_in_callback():
                return self._placed(item, timeout)
            block = False
        if isinstance(timeout, Timeout):
            with _Started(timeout):
                return self._put_lined(item, block, None)
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

    async def _placed(self, item: T, timeout: float | Timeout | None) -> None:
        if self._is_plain:
            waiting = Coroutine(timeout)
            if self._try_put(item, waiting):
                return
            woken = await wait_at(self, waiting, self._kept_room_given_back)
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
                place = self._putters.enter_coroutine(left.seconds())
            if await self._putters.waited(place, self._room_given_back) is TIMED_OUT:
                raise Full

    def _put_at_once(self, item: T) -> bool:
        if self.is_shutdown:
            raise ShutDown
        if self._hands_over and not self.queue and self._getters.wake(item):
            if self.maxsize is not None:
                # The putter that was woken for this free place has not used it yet: wake the next one.
                self._putters.wake()
            self._count_put()
            return True
        if self.full():
            return False
        self._put(item)
        self._count_put()
        if not self._hands_over:
            self._getters.wake(_LOOK)
        return True

    @property
    def _hands_over(self) -> bool:
        """Whether an item may go to a getter without `_put` and `_get`, which a program's class may override."""
        cls = type(self)
        return cls._put in _OWN and cls._get in _OWN

    def _kept_room_given_back(self, woken: Any) -> None:
        if woken is not _SHUT:
            self._give_room_back()

    def _room_given_back(self, _: Any) -> None:
        self._putters.wake()

    def put_nowait(self, item: T) -> None:
        """Put an item without waiting, as `put(item, block=False)` does."""
        self.put(item, block=False)

    # -- getting -------------------------------------------------------------------------------------

    def _get_lined(self, block: bool, timeout: float | Timeout | None) -> Any:
        if block and not is_in_green_thread():
            if not is_in_callback():
                return self._gotten(timeout)
            block = False
        left = Countdown(timeout)
        while True:
            with self._getters.guard:
                if self.queue:
                    return self._get_at_once()
                self._check_shut()
                if not block:
                    raise Empty
                place = self._getters.enter()
            seconds = timeout if isinstance(timeout, Timeout) else left.seconds()
            item = self._getters.wait(place, seconds, self._item_given_back)
            if item is not _LOOK:
                return self._given(item)

    async def _gotten(self, timeout: float | Timeout | None) -> T:
        if self._is_plain:
            place = Coroutine(timeout)
            gotten = self._try_get(place)
            if gotten is not None:
                item: T = gotten[0]
                return item
            return self._given(await self._getters.waited(place, self._item_given_back))
        left = Countdown(timeout)
        while True:
            with self._getters.guard:
                if self.queue:
                    return self._get_at_once()
                self._check_shut()
                place = self._getters.enter_coroutine(left.seconds())
            given = await self._getters.waited(place, self._item_given_back)
            if given is not _LOOK:
                return self._given(given)

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
            if item is _LOOK:
                if self.queue:
                    self._getters.wake(_LOOK)
            elif item is not _SHUT and not self._getters.wake(item):
                self._put_back(item)

    def get_nowait(self) -> T:
        """Return an item without waiting, as `get(block=False)` does."""
        return self.get(block=False)

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
        place = Coroutine(timeout)
        if self._enter_unfinished(place):
            await wait_at(self._finishers, place)
        return self.unfinished_tasks <= 0

    def _drop_all(self) -> None:
        dropped = len(self.queue)
        super()._drop_all()
        self._tasks_done(min(dropped, self.unfinished_tasks))

    def copy(self) -> Self:
        """Return a new queue of the same class, with the same maximum size, items and unfinished tasks."""
        return type(self)(self.maxsize, self.queue, self.unfinished_tasks)


JoinableQueue = Queue


class LifoQueue(Queue[T]):
    """A queue that returns the newest item first."""

    def _create_queue(self, items: Iterable[T] = ()) -> list[T]:
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

    def _create_queue(self, items: Iterable[T] = ()) -> list[T]:
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

    def qsize(self) -> int:
        """Return 0: a channel keeps no items."""
        return 0

    __len__ = qsize

    def empty(self) -> bool:
        """Return True."""
        return True

    def full(self) -> bool:
        """Return True."""
        return True

    @property
    def balance(self) -> int:
        """How many more callers wait in `put` than in `get`."""
        return len(self.queue) - len(self._getters)

    def put(self, item: T, block: bool = True, timeout: float | Timeout | None = None) -> Any:
        """Hand an item over, and wait until another caller takes it, and has gone on.

        Args:
            item: the item.
            block: whether to wait; if false, and no caller is waiting for an item, raise Full.
            timeout: the maximum time in seconds, or a `Timeout`; None means no limit.

        Raises:
            Full: no caller took the item in time.
            ShutDown: the channel was shut down.
        """
        is_green = is_in_green_thread()
        if block and not is_green:
            if not is_in_callback():
                return self._placed(item, timeout)
            block = False
        with self._getters.guard:
            if self._put_at_once(item):
                offer = None
            elif not block:
                raise Full
            else:
                offer = (item, self._putters.enter())
                self.queue.append(offer)
        if offer is None:
            if is_green:
                # The caller that has the item runs first.
                get_hub().pause()
            return None
        try:
            self._check_taken(self._putters.wait(offer[1], timeout))
        finally:
            self._withdraw(offer)
        return None

    async def _placed(self, item: T, timeout: float | Timeout | None) -> None:
        with self._getters.guard:
            if self._put_at_once(item):
                return
            place = self._putters.enter_coroutine(timeout)
            offer = (item, place)
            self.queue.append(offer)
        try:
            self._check_taken(await self._putters.waited(place))
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

    def get(self, block: bool = True, timeout: float | Timeout | None = None) -> T:
        """Take an item and wake the caller that offered it.

        Args:
            block: whether to wait for an offer.
            timeout: the maximum time in seconds; None means no limit.

        Raises:
            Empty: no item was offered in time.
            ShutDown: the channel was shut down.
        """
        if block and not is_in_green_thread():
            if not is_in_callback():
                return self._gotten(timeout)  # type: ignore[return-value]  # see SimpleQueue
            block = False
        while True:
            try:
                return super().get(block, timeout)
            except _VoidError:
                continue

    async def _gotten(self, timeout: float | Timeout | None) -> T:
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


_OWN = {getattr(kind, name) for kind in (SimpleQueue, LifoQueue, PriorityQueue, Channel) for name in ("_put", "_get")}
"""The methods that only order the items."""
