"""`Greenlet`: a green thread: a function that runs beside others, and waits as if it blocked.

```text
made → started → running ⇄ waiting → ended
     ↘ killed before it began ───────↗
```
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from greenlet import GreenletExit, getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop.green.hub import Waiter, get_hub, wait_for
from oneloop.green.timeout import Timeout

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Generator, Iterable
    from types import TracebackType

    from oneloop.green.hub import Hub

__all__ = ["Greenlet", "iwait", "joinall", "kill", "killall", "spawn", "spawn_later", "spawn_raw", "wait"]


class Greenlet(RawGreenlet):
    """A green thread; `spawn` makes and starts one. Subclasses may define `_run` instead of giving a function.

    It belongs to the thread that made it. `value` is what its function has returned, `exception` what it has raised; a
    green thread that ends with GreenletExit has succeeded, with that exception as its value.
    """

    value: Any = None
    """What the function has returned; None before, and if it has failed."""

    def __init__(self, run: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        # Its parent is the hub from its begin on.
        RawGreenlet.__init__(self)
        if run is not None:
            self._run = run
        if not callable(getattr(self, "_run", None)):
            raise TypeError("The run argument or self._run must be callable")
        self.hub: Hub = get_hub()
        self.args = args
        self.kwargs = kwargs
        self._links: deque[Any] = deque()
        self._raised: BaseException | None = None
        self._is_ready = False
        self._start: Waiter | None = None
        self._timer: TimerHandle | None = None
        self._is_notifying = False
        self._is_unbegun_end = False

    # -- starting ------------------------------------------------------------------------------------

    @classmethod
    def spawn(cls, *args: Any, **kwargs: Any) -> Self:
        """A started green thread; the arguments are the class's."""
        greenlet = cls(*args, **kwargs)
        greenlet.start()
        return greenlet

    @classmethod
    def spawn_later(cls, seconds: float, *args: Any, **kwargs: Any) -> Self:
        """One that starts after so many seconds."""
        greenlet = cls(*args, **kwargs)
        greenlet.start_later(seconds)
        return greenlet

    def start(self) -> None:
        """Run in the loop's next tick. Nothing if it was started."""
        if self._start is None and self._timer is None and not self.ready():
            self._start = self.hub.start(self)

    def start_later(self, seconds: float) -> None:
        """Run after so many seconds. Nothing if it was started."""
        if self._start is None and self._timer is None and not self.ready():
            self._timer = self.hub.call_later(seconds, self._start_now)

    def _start_now(self) -> None:
        self._timer = None
        self._start = self.hub.start(self)

    @property
    def started(self) -> bool:
        """Whether it was started, and has not ended."""
        return not self.ready() and (self._start is not None or self._timer is not None or RawGreenlet.__bool__(self))

    def run(self) -> None:
        """The green thread's life; called by greenlet."""
        try:
            value = self._run(*self.args, **self.kwargs)
        except GreenletExit as left:
            self._end(left, None)
        except BaseException as error:  # noqa: BLE001 - it is reported
            self._end(None, error)
            self._report(error)
        else:
            self._end(value, None)

    def _report(self, error: BaseException) -> None:
        self.hub.handle_error(self, type(error), error, error.__traceback__)

    def _end(self, value: Any, raised: BaseException | None) -> None:
        self.value, self._raised, self._is_ready = value, raised, True
        self.__dict__.pop("_run", None)
        self.args, self.kwargs = (), {}
        if self._links and not self._is_notifying and not self.hub.asyncio_loop.is_closed():
            self._is_notifying = True
            self.hub.run_callback(self._notify)

    # -- what became of it ---------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether it has ended."""
        return self._is_ready or bool(RawGreenlet.dead.__get__(self))

    @property
    def dead(self) -> bool:
        """Whether it will not run any more."""
        return self._is_unbegun_end or bool(RawGreenlet.dead.__get__(self))

    def successful(self) -> bool:
        """Whether it has ended without an exception; GreenletExit counts as none."""
        return self.ready() and self._raised is None

    @property
    def exception(self) -> BaseException | None:
        """What the function has raised; None otherwise."""
        return self._raised

    @property
    def exc_info(self) -> tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]:
        """The same as `sys.exc_info` would tell it."""
        raised = self._raised
        return (None, None, None) if raised is None else (type(raised), raised, raised.__traceback__)

    # -- links ---------------------------------------------------------------------------------------

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Have the hub call `callback(self)` when it has ended; the callback may not block."""
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        self._links.append(callback)
        if self.ready():
            self._notify_soon()

    def link(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:  # noqa: N803 - gevent's
        """Have `callback(self)` run in a green thread of its own when it has ended."""
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else _Link(callback))

    def link_value(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:  # noqa: N803
        """The same if it has succeeded."""
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else _Link(callback, if_succeeded=True))

    def link_exception(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:  # noqa: N803
        """The same if it has failed."""
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else _Link(callback, if_succeeded=False))

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Call `callback` no more."""
        unlink(self._links, callback)

    def unlink_all(self) -> None:
        """Call nobody any more."""
        self._links.clear()

    def _notify_soon(self) -> None:
        if not self._is_notifying and not self.hub.asyncio_loop.is_closed():
            self._is_notifying = True
            self.hub.run_callback_threadsafe(self._notify)

    def _notify(self) -> None:
        self._is_notifying = False
        for _ in range(len(self._links)):
            if not self._links:
                return
            link = self._links.popleft()
            try:
                link(self)
            except BaseException as error:  # noqa: BLE001 - it is reported
                self.hub.handle_error((link, self), type(error), error, error.__traceback__)

    # -- waiting for it ------------------------------------------------------------------------------

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, for at most so many seconds."""
        if self.ready():
            return
        if self is getcurrent():
            raise RuntimeError("a green thread cannot wait for itself")
        hub = get_hub()
        waiter = Waiter(hub)
        self.rawlink(waiter.wake)
        try:
            wait_for(waiter, hub, timeout)
        finally:
            self.unlink(waiter.wake)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """What the function has returned.

        Raises:
            Timeout: it has not ended, and `block` is false or the time is up.
            BaseException: what the function has raised.
        """
        if not self.ready():
            if not block:
                raise Timeout
            self.join(timeout)
            if not self.ready():
                raise Timeout(timeout)
        if self._raised is not None:
            raise self._raised
        return self.value

    def __await__(self) -> Generator[Any, None, Any]:
        """What the function returns, for a coroutine of the same loop. Cancelled, the green thread is cancelled too.

        Raises:
            asyncio.CancelledError: it has ended with GreenletExit.
        """
        from oneloop.green.bridge import ended

        return ended(self).__await__()

    # -- ending it -----------------------------------------------------------------------------------

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Raise an exception where it waits, and wait until it has ended; if it has not begun, it never will."""
        self._kill_soon(exception)
        if block and self is not getcurrent() and not self.ready():
            self.join(timeout)

    def _kill_soon(self, exception: Any) -> None:
        self._never_start()
        if self.ready():
            return
        raised = exception() if isinstance(exception, type) else exception
        if not RawGreenlet.__bool__(self):
            # It has not begun.
            self._end_unbegun(raised)
        elif self is getcurrent():
            raise raised
        else:
            self.hub.throw_soon(self, raised)

    def _never_start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._start is not None and not RawGreenlet.__bool__(self):
            self._start.let_go()

    def _end_unbegun(self, raised: BaseException) -> None:
        self._is_unbegun_end = True
        if isinstance(raised, GreenletExit):
            self._end(raised, None)
        else:
            self._end(None, raised)
            self._report(raised)

    def throw(self, *args: Any) -> Any:
        """Raise an exception where it waits, and switch to it at once; see greenlet."""
        self._never_start()
        if not RawGreenlet.__bool__(self) and not self.ready():
            kind = args[0] if args else GreenletExit
            raised = kind if isinstance(kind, BaseException) else kind(*args[1:2])
            self._end_unbegun(raised)
            return None
        return RawGreenlet.throw(self, *args)

    # -- as a context --------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for its end; after an exception, kill it first."""
        if value is not None:
            self.kill(block=False)
        self.join()

    # -- names ---------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """`Greenlet-N`, unless it is assigned."""
        return str(self.__dict__.get("_name") or f"{type(self).__name__}-{id(self):x}")

    @name.setter
    def name(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __repr__(self) -> str:
        run = self.__dict__.get("_run")
        what = "" if run is None else f": {getattr(run, '__qualname__', run)}"
        return f"<{type(self).__name__} {self.name!r} at {hex(id(self))}{what}>"


def unlink(links: deque[Any], callback: Callable[[Any], object]) -> None:
    """Remove a link, which other threads may do at the same time."""
    for link in list(links):
        if link == callback:
            with contextlib.suppress(ValueError, IndexError):
                links.remove(link)
            return


class _Link:
    """Runs a callback in a green thread of its own."""

    __slots__ = ("callback", "if_succeeded")

    def __init__(self, callback: Callable[[Any], object], if_succeeded: bool | None = None) -> None:
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        self.callback = callback
        self.if_succeeded = if_succeeded

    def __call__(self, source: Any) -> None:
        if self.if_succeeded is None or self.if_succeeded == source.successful():
            Greenlet.spawn(self.callback, source)

    def __eq__(self, other: object) -> bool:
        return self.callback == getattr(other, "callback", other)

    def __hash__(self) -> int:
        return hash(self.callback)


spawn = Greenlet.spawn
spawn_later = Greenlet.spawn_later


def spawn_raw(function: Callable[..., Any], *args: Any, **kwargs: Any) -> RawGreenlet:
    """A started greenlet without links and without a result: cheaper."""
    hub = get_hub()
    if args or kwargs:
        plain = function

        def function() -> Any:
            return plain(*args, **kwargs)

    greenlet = RawGreenlet(function)
    hub.start(greenlet)
    return greenlet


def kill(greenlet: RawGreenlet, exception: Any = GreenletExit) -> None:
    """Raise an exception in a greenlet where it waits, soon; without waiting for its end."""
    if isinstance(greenlet, Greenlet):
        greenlet.kill(exception, block=False)
    elif not greenlet.dead:
        raised = exception() if isinstance(exception, type) else exception
        get_hub().throw_soon(greenlet, raised)


def joinall(
    greenlets: Iterable[Any], timeout: float | None = None, raise_error: bool = False, count: int | None = None
) -> list[Any]:
    """Wait until all (or `count`) have ended, for at most so many seconds; those that have.

    Raises:
        BaseException: with `raise_error`, what the first of them that has failed has raised.
    """
    done = []
    for greenlet in iwait(list(greenlets), timeout, count):
        if raise_error and getattr(greenlet, "exception", None) is not None:
            greenlet.get()
        done.append(greenlet)
    return done


def iwait(objects: Iterable[Any], timeout: float | None = None, count: int | None = None) -> Generator[Any, None, None]:
    """The objects (green threads, events, results: what has `rawlink`) as they become ready, for at most so long."""
    waited = list(objects)
    left = len(waited) if count is None else min(count, len(waited))
    hub = get_hub()
    ready: deque[Any] = deque()
    waiter = Waiter(hub)

    is_late = False

    def note(source: Any) -> None:
        ready.append(source)
        waiter.wake()

    def be_late() -> None:
        nonlocal is_late
        is_late = True
        waiter.wake()

    timer = None if timeout is None else hub.call_later(max(timeout, 0), be_late)
    for one in waited:
        one.rawlink(note)
    try:
        while left > 0:
            while not ready:
                if is_late:
                    return
                # Perhaps at once, for what was noted while nobody waited.
                waiter.get()
            left -= 1
            yield ready.popleft()
    finally:
        if timer is not None:
            timer.cancel()
        for one in waited:
            one.unlink(note)


def wait(objects: Iterable[Any] | None = None, timeout: float | None = None, count: int | None = None) -> Any:
    """Wait for the objects, as `iwait`; a list of those that are ready.

    Without objects, wait until nothing is left that could go on, as `hub.join`: False if the time was up.
    """
    if objects is None:
        return get_hub().join(timeout)
    return list(iwait(objects, timeout, count))


def killall(
    greenlets: Iterable[Any], exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
) -> None:
    """Kill all, and wait until they have ended.

    Raises:
        Timeout: the time is up.
    """
    killed = list(greenlets)
    for greenlet in killed:
        kill(greenlet, exception)
    if block:
        waited = [greenlet for greenlet in killed if isinstance(greenlet, Greenlet)]
        if len(joinall(waited, timeout)) < len(waited):
            raise Timeout(timeout)
