"""`Group` and `Pool`: green threads that can be joined, killed and counted together."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit, getcurrent

from oneloop.green.greenlet import Greenlet, joinall
from oneloop.green.greenlet import kill as _kill
from oneloop.green.hub import TIMED_OUT
from oneloop.green.line import Line
from oneloop.green.lock import DummySemaphore, Semaphore
from oneloop.green.mapping import GroupMappingMixin
from oneloop.green.steps import is_in_green_thread, wait_here
from oneloop.green.timeout import Timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import ParamSpec, TypeVar, overload

    P = ParamSpec("P")
    R = TypeVar("R")

    from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

__all__ = ["Group", "Pool", "PoolFull"]


class Group(GroupMappingMixin):
    """A group of any number of green threads. Each green thread leaves the group when it ends.

    Args:
        args: at most one iterable, of green threads to add.
    """

    greenlet_class: type[Greenlet] = Greenlet
    """The class that `spawn` instantiates."""

    def __init__(self, *args: Iterable[Any]) -> None:
        if len(args) > 1:
            raise TypeError(f"Group() takes at most one iterable of greenlets ({len(args)} arguments given)")
        self.greenlets: set[Any] = set()
        self.dying: set[Any] = set()
        """Green threads that were killed and have not ended."""
        self._joining = Line()
        for greenlet in args[0] if args else ():
            self.add(greenlet)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {hex(id(self))} {self.greenlets}>"

    def __len__(self) -> int:
        return len(self.greenlets)

    def __contains__(self, item: object) -> bool:
        return item in self.greenlets

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.greenlets))

    # -- members ----------------------------------------------------------------------------------------

    def add(self, greenlet: Any) -> None:
        """Add a greenlet; no effect if it is a member. One that is not a `Greenlet` stays until `discard`."""
        if greenlet in self.greenlets:
            return
        rawlink = getattr(greenlet, "rawlink", None)
        if rawlink is not None:
            rawlink(self._discard)
        self.greenlets.add(greenlet)

    def discard(self, greenlet: Any) -> None:
        """Remove a greenlet. It continues to run."""
        self._discard(greenlet)
        unlink = getattr(greenlet, "unlink", None)
        if unlink is not None:
            unlink(self._discard)

    def _discard(self, greenlet: Any) -> bool:
        """Remove a greenlet, and return whether it was a member."""
        belonged = greenlet in self.greenlets
        self.greenlets.discard(greenlet)
        self.dying.discard(greenlet)
        if not self.greenlets:
            self._joining.wake_all()
        return belonged

    def start(self, greenlet: Greenlet) -> None:
        """Add a green thread that was not started, and start it."""
        self.add(greenlet)
        greenlet.start()

    if TYPE_CHECKING:

        @overload
        def spawn(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Greenlet[R]: ...
        @overload
        def spawn(self, *args: Any, **kwargs: Any) -> Greenlet: ...

    # mypy compares a ParamSpec with `*args: Any, **kwargs: Any` wrongly.
    def spawn(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
        """Start a green thread in the group. The arguments are those of `greenlet_class`."""
        greenlet = self.greenlet_class(*args, **kwargs)
        self.start(greenlet)
        return greenlet

    # -- size ------------------------------------------------------------------------------------------

    def full(self) -> bool:
        """Whether `spawn` would wait: False."""
        return False

    def wait_available(self, timeout: float | None = None) -> int | None:
        """Wait until the group accepts another member: return immediately."""
        return None

    # -- join and kill -----------------------------------------------------------------------------------

    def join(self, timeout: float | None = None, raise_error: bool = False) -> bool:
        """Wait until the group becomes empty.

        Args:
            timeout: the maximum time in seconds; None means no limit.
            raise_error: raise the exception of a current member that has failed.

        Returns:
            Whether the group became empty in time.

        Raises:
            BlockingSwitchOutError: called in a coroutine that may not block.
            BaseException: with `raise_error`, the exception of a member that failed.
        """
        waited = list(self.greenlets) if raise_error else []
        was_empty = not self.greenlets
        if not was_empty:
            was_empty = wait_here(self._joined, timeout)
        for greenlet in waited:
            raised = getattr(greenlet, "exception", None)
            if raised is not None:
                raise raised
        return was_empty

    def _joined(self, timeout: float | None) -> bool:
        return self._joining.wait(self._joining.enter(), timeout) is not TIMED_OUT

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Kill all members, also those added meanwhile, and wait until they have ended.

        Args:
            exception: an exception or an exception class.
            block: whether to wait for their end.
            timeout: the maximum time to wait, in seconds; None means no limit.

        Raises:
            BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
        """
        if block and self.greenlets and not is_in_green_thread():
            self._kill_all(exception)
            wait_here(self.kill, exception, block, timeout)
            return
        timer = Timeout.start_new(timeout if block else None)
        try:
            while self.greenlets:
                self._kill_all(exception)
                if not block:
                    return
                joinall(greenlet for greenlet in self if hasattr(greenlet, "rawlink"))
                self._forget_dead()
        except Timeout as raised:
            if raised is not timer:
                raise
        finally:
            timer.cancel()

    def _kill_all(self, exception: Any) -> None:
        # Kill the caller last: the exception is raised here.
        for greenlet in sorted(self, key=lambda one: one is getcurrent()):
            self._kill_once(greenlet, exception)

    def _kill_once(self, greenlet: Any, exception: Any) -> None:
        if greenlet not in self.dying and greenlet in self.greenlets:
            self.dying.add(greenlet)
            _kill(greenlet, exception)

    def _forget_dead(self) -> None:
        """Remove members that have ended and were unlinked, and those that cannot be waited for."""
        for greenlet in self:
            if not hasattr(greenlet, "rawlink") or greenlet.ready():
                self.discard(greenlet)

    def killone(
        self, greenlet: Any, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
    ) -> None:
        """Kill a green thread if it is a member, and wait until it has ended. No effect if it was killed before.

        Args:
            greenlet: the green thread.
            exception: an exception or an exception class.
            block: whether to wait for the end.
            timeout: the maximum time to wait, in seconds; None means no limit.
        """
        if greenlet not in self.greenlets or greenlet in self.dying:
            return
        self._kill_once(greenlet, exception)
        if block and hasattr(greenlet, "join"):
            greenlet.join(timeout)

    # -- mapping ---------------------------------------------------------------------------------------

    def _is_inside(self) -> bool:
        return getcurrent() in self.greenlets

    def _would_wait(self) -> bool:
        return self.full()

    def _call_back(self, callback: Callable[[Any], object], result: Any) -> None:
        Greenlet.spawn(callback, result)


class PoolFull(queue.Full):
    """The pool is full."""


class Pool(Group):
    """A group of at most `size` green threads; `spawn` waits until there is room.

    Args:
        size: the maximum number of members; None means no limit. 0 means that nothing can be added.
        greenlet_class: the class that `spawn` instantiates.

    Raises:
        ValueError: the size is negative.
    """

    def __init__(self, size: int | None = None, greenlet_class: type[Greenlet] | None = None) -> None:
        if size is not None and size < 0:
            raise ValueError(f"size must not be negative: {size!r}")
        super().__init__()
        self.size = size
        if greenlet_class is not None:
            self.greenlet_class = greenlet_class
        self._room: Any = DummySemaphore() if size is None else Semaphore(size)

    @property
    def _semaphore(self) -> Any:
        """Gevent's private name of the semaphore that counts the room, for programs that use it."""
        return self._room

    def full(self) -> bool:
        """Whether `spawn` would wait."""
        return self.free_count() <= 0

    def free_count(self) -> int:
        """The number of green threads that can be added; 1 if there is no limit."""
        return 1 if self.size is None else int(self._room.counter)

    def wait_available(self, timeout: float | None = None) -> int:
        """Wait until there is room.

        Args:
            timeout: the maximum time in seconds; None means no limit.

        Returns:
            The number of green threads that can be added.

        Raises:
            BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
        """
        if self._room.locked():
            wait_here(self._room.wait, timeout)
        return self.free_count()

    def add(self, greenlet: RawGreenlet, blocking: bool = True, timeout: float | None = None) -> None:
        """Add a greenlet that was not started; wait until there is room.

        Args:
            greenlet: the greenlet; if it is a member already, nothing is done.
            blocking: whether to wait for room.
            timeout: the maximum time to wait, in seconds; None means no limit.

        Raises:
            PoolFull: there is no room, and `blocking` is false or the timeout expired.
            BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
        """
        if greenlet in self.greenlets:
            return
        if not self._room.acquire(blocking=False):
            if not blocking:
                raise PoolFull
            if not wait_here(self._room.acquire, timeout=timeout):
                raise PoolFull
        try:
            super().add(greenlet)
        except BaseException:
            self._room.release()
            raise

    def _discard(self, greenlet: Any) -> bool:
        belonged = super()._discard(greenlet)
        if belonged:
            self._room.release()
        return belonged

    if TYPE_CHECKING:

        @overload
        def spawn(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Greenlet[R]: ...
        @overload
        def spawn(self, *args: Any, **kwargs: Any) -> Greenlet: ...

    def spawn(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
        """Start a green thread in the pool once there is room. The arguments are those of `greenlet_class`.

        Raises:
            BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
        """
        cls = type(self)
        if cls.add is not Pool.add or cls.start is not Pool.start or not self._room.acquire(blocking=False):
            return super().spawn(*args, **kwargs)
        # Same result with fewer steps. The green thread cannot run before it is linked.
        try:
            greenlet = self.greenlet_class.spawn(*args, **kwargs)
        except BaseException:
            self._room.release()
            raise
        greenlet.rawlink(self._discard)
        self.greenlets.add(greenlet)
        return greenlet

    def start(self, greenlet: Greenlet, blocking: bool = True, timeout: float | None = None) -> None:
        """Add a green thread that was not started, as `add` does, and start it."""
        self.add(greenlet, blocking, timeout)
        greenlet.start()
