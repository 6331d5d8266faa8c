"""`Greenlet`: a green thread: a function that runs beside others and can wait as if it blocked.

```text
created → started → running ⇄ waiting → ended
     ↘ killed before it began ─────────↗
```
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from greenlet import GreenletExit, getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop import _native
from oneloop.green.hub import Waiter, get_hub, wait_for
from oneloop.green.timeout import Timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from types import TracebackType


__all__ = ["Greenlet", "iwait", "joinall", "kill", "killall", "spawn", "spawn_later", "spawn_raw", "wait"]


class Greenlet(RawGreenlet):
    """A green thread. `spawn` creates and starts one. Subclasses may define `_run` instead of passing a function.

    Use it in the OS thread that created it. `value` is the function's return value, `exception` the exception it
    raised. A green thread that ends with GreenletExit counts as successful, and its `value` is that exception.
    """

    # The state and the steps that every green thread goes through are native code: `Life`.
    __slots__ = ("_is_unbegun_end", "_life", "_timer")

    _life: _native.Life

    def __init__(self, /, run: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        # Its parent becomes the hub when it starts.
        RawGreenlet.__init__(self)
        self._life = _native.Life(get_hub(), run, args, kwargs or None)
        if not callable(getattr(self, "_run", None)):
            raise TypeError("The run argument or self._run must be callable")

    run = property(attrgetter("_life"), doc="The callable that the greenlet runs.")
    hub = property(attrgetter("_life.hub"), doc="The hub of its thread.")
    spawning_greenlet = property(attrgetter("_life.spawner"), doc="A weak reference to the greenlet that created it.")
    spawn_tree_locals = property(
        attrgetter("_life.tree"), doc="A dictionary shared with the spawning green thread and those it spawns."
    )

    @property
    def _run(self) -> Any:
        """The function to call; a function that does nothing if none was given or the green thread has ended."""
        return self._life.function or _do_nothing

    @_run.setter
    def _run(self, function: Callable[..., Any] | None) -> None:
        self._life.function = function

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the function; empty after the green thread has ended."""
        return self._life.args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._life.args = args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the function; empty after the green thread has ended."""
        return self._life.kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._life.kwargs = kwargs

    @property
    def value(self) -> Any:
        """The function's return value; None before it returns, and if it raised an exception."""
        return self._life.value

    @value.setter
    def value(self, value: Any) -> None:
        self._life.value = value

    # -- starting ------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        @classmethod
        def spawn(cls, *args: Any, **kwargs: Any) -> Self: ...

    else:
        spawn = classmethod(_native.spawn_green)

    @classmethod
    def spawn_later(cls, /, seconds: float, *args: Any, **kwargs: Any) -> Self:
        """Create a green thread that starts after `seconds` seconds."""
        greenlet = cls(*args, **kwargs)
        greenlet.start_later(seconds)
        return greenlet

    def start(self) -> None:
        """Start in the loop's next tick. No effect if it was started before."""
        if self._is_unstarted():
            _call_all(self)
            self._life.begin(self)

    def start_later(self, seconds: float) -> None:
        """Start after `seconds` seconds. No effect if it was started before."""
        if self._is_unstarted():
            _call_all(self)
            self._timer = self.hub.call_later(seconds, self._start_now)

    def _is_unstarted(self) -> bool:
        return self._life.start is None and not self._has_timer() and not self.ready()

    def _has_timer(self) -> bool:
        return getattr(self, "_timer", None) is not None

    def _start_now(self) -> None:
        self._timer = None
        self._life.begin(self)

    @property
    def started(self) -> bool:
        """Whether it was started and has not ended."""
        return not self.ready() and (self._life.start is not None or self._has_timer() or RawGreenlet.__bool__(self))

    @staticmethod
    def add_spawn_callback(callback: Callable[[Greenlet], object]) -> None:
        """Call `callback(greenlet)` for each green thread started from now on, in the greenlet that starts it."""
        _spawn_callbacks.append(callback)
        _native.watch_starts(True)

    @staticmethod
    def remove_spawn_callback(callback: Callable[[Greenlet], object]) -> None:
        """Remove a spawn callback. No effect if it was not added."""
        with contextlib.suppress(ValueError):
            _spawn_callbacks.remove(callback)
        _native.watch_starts(bool(_spawn_callbacks))

    def _report(self, error: BaseException) -> None:
        self.hub.handle_error(self, type(error), error, error.__traceback__)

    # -- outcome -------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether it has ended."""
        return self._life.is_ready or bool(RawGreenlet.dead.__get__(self))

    @property
    def dead(self) -> bool:
        """Whether it will not run any more."""
        return hasattr(self, "_is_unbegun_end") or bool(RawGreenlet.dead.__get__(self))

    def successful(self) -> bool:
        """Whether it has ended without an exception. GreenletExit counts as success."""
        return self.ready() and self._life.raised is None

    @property
    def exception(self) -> BaseException | None:
        """The exception that the function raised, or None."""
        return self._life.raised

    @property
    def exc_info(self) -> tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]:
        """The exception in the form of `sys.exc_info()`; three times None if there is none."""
        raised = self._life.raised
        return (None, None, None) if raised is None else (type(raised), raised, raised.__traceback__)

    # -- links ---------------------------------------------------------------------------------------

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Make the hub call `callback(self)` when this green thread has ended.

        The callback must not block. If the green thread has ended already, it is called soon.

        Args:
            callback: called with this green thread as its only argument.

        Raises:
            TypeError: `callback` is not callable.
        """
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        self._life.add_link(callback)
        if self.ready():
            self._life.notify_soon(self)

    def link(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:  # noqa: N803 - gevent's
        """Run `callback(self)` in a new green thread when this one has ended."""
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else _Link(callback))

    def link_value(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:  # noqa: N803
        """Like `link`, but only if this green thread succeeds."""
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else _Link(callback, if_succeeded=True))

    def link_exception(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:  # noqa: N803
        """Like `link`, but only if this green thread fails."""
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else _Link(callback, if_succeeded=False))

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Remove a link."""
        life = self._life
        if life.remove_link(callback):
            return
        for link in life.links:
            if link == callback and life.remove_link(link):
                return

    def unlink_all(self) -> None:
        """Remove all links."""
        while self._life.pop_link() is not None:
            pass

    def has_links(self) -> bool:
        """Whether any link is registered."""
        return bool(self._life.links)

    # -- waiting -------------------------------------------------------------------------------------

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended.

        Args:
            timeout: the maximum time in seconds; None means no limit.
        """
        if self.ready():
            return
        if timeout is None:
            self._life.join(self)
            return
        if self is getcurrent():
            raise RuntimeError("a green thread cannot join itself")
        hub = get_hub()
        waiter = Waiter(hub)
        self._life.add_link(waiter)
        if self._life.is_ready:
            # It ended in another thread in the meantime.
            self._life.remove_link(waiter)
            return
        try:
            wait_for(waiter, timeout)
        finally:
            self._life.remove_link(waiter)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Wait for the function's return value.

        Args:
            block: whether to wait.
            timeout: the maximum time to wait, in seconds; None means no limit.

        Raises:
            Timeout: it has not ended, and `block` is false or the timeout expired.
            BaseException: the exception that the function raised.
        """
        if not self.ready():
            if not block:
                raise Timeout
            self.join(timeout)
            if not self.ready():
                raise Timeout(timeout)
        raised = self._life.raised
        if raised is not None:
            raise raised
        return self._life.value

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the return value in a coroutine of the same loop. Cancelling the wait cancels the green thread.

        Raises:
            asyncio.CancelledError: the green thread ended with GreenletExit.
        """
        from oneloop.green.bridge import ended

        return ended(self).__await__()

    # -- killing -------------------------------------------------------------------------------------

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Raise an exception where the green thread waits, and wait until it has ended.

        A green thread that has not started never starts.

        Args:
            exception: an exception or an exception class.
            block: whether to wait for the end.
            timeout: the maximum time to wait, in seconds; None means no limit.
        """
        self._kill_soon(exception)
        if block and self is not getcurrent() and not self.ready():
            self.join(timeout)

    def _kill_soon(self, exception: Any) -> None:
        self._never_start()
        if self.ready():
            return
        raised = exception() if isinstance(exception, type) else exception
        if not RawGreenlet.__bool__(self):
            # It has not started.
            self._end_unbegun(raised)
        elif self is getcurrent():
            raise raised
        else:
            self.hub.throw_soon(self, raised)

    def _never_start(self) -> None:
        timer = getattr(self, "_timer", None)
        if timer is not None:
            timer.cancel()
            self._timer = None
        start = self._life.start
        if start is not None and not RawGreenlet.__bool__(self):
            start.let_go()

    def _end_unbegun(self, raised: BaseException) -> None:
        self._is_unbegun_end = True
        if isinstance(raised, GreenletExit):
            self._life.end(self, raised, None)
        else:
            self._life.end(self, None, raised)
            self._report(raised)

    def throw(self, *args: Any) -> Any:
        """Raise an exception where it waits, and switch to it immediately; see greenlet's `throw`."""
        self._never_start()
        if not RawGreenlet.__bool__(self) and not self.ready():
            kind = args[0] if args else GreenletExit
            raised = kind if isinstance(kind, BaseException) else kind(*args[1:2])
            self._end_unbegun(raised)
            return None
        return RawGreenlet.throw(self, *args)

    # -- context manager -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for its end. If the block raised an exception, kill the green thread first."""
        if value is not None:
            self.kill(block=False)
        self.join()

    # -- names ---------------------------------------------------------------------------------------

    @property
    def minimal_ident(self) -> int:
        """A small integer, unique among the living green threads of its hub; see `threading.get_ident`."""
        ident: int = self.hub.ident_registry.get_ident(self)
        return ident

    @property
    def name(self) -> str:
        """The assigned name; by default the class name and `minimal_ident`."""
        return str(self.__dict__.get("_name") or f"{type(self).__name__}-{self.minimal_ident}")

    @name.setter
    def name(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __repr__(self) -> str:
        life = getattr(self, "_life", None)
        if life is None:
            return object.__repr__(self)
        run = life.function
        what = "" if run is None else f": {getattr(run, '__qualname__', run)}"
        return f"<{type(self).__name__} {self.name!r} at {hex(id(self))}{what}>"


_native.set_greenlet_class(Greenlet)


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing; runs in green threads without a function."""


_spawn_callbacks: list[Callable[[Greenlet], object]] = []


def _call_all(greenlet: Greenlet) -> None:
    for callback in _spawn_callbacks:
        callback(greenlet)


def unlink(links: deque[Any], callback: Callable[[Any], object]) -> None:
    """Remove a link. Other threads may change `links` at the same time."""
    while True:
        try:
            links.remove(callback)
        except IndexError:
            continue  # another thread changed it in the meantime
        except ValueError:
            pass
        return


class _Link:
    """Runs a callback in a new green thread."""

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
    """Start a plain greenlet, without links and without a result. Cheaper than `spawn`."""
    hub = get_hub()
    if args or kwargs:
        plain = function

        def function() -> Any:
            return plain(*args, **kwargs)

    greenlet = RawGreenlet(function)
    hub.start(greenlet)
    return greenlet


def kill(greenlet: RawGreenlet, exception: Any = GreenletExit) -> None:
    """Raise an exception in a greenlet where it waits, soon. Does not wait for its end."""
    if isinstance(greenlet, Greenlet):
        greenlet.kill(exception, block=False)
    elif not greenlet.dead:
        raised = exception() if isinstance(exception, type) else exception
        get_hub().throw_soon(greenlet, raised)


def joinall(
    greenlets: Iterable[Any], timeout: float | None = None, raise_error: bool = False, count: int | None = None
) -> list[Any]:
    """Wait until all green threads (or `count` of them) have ended.

    Args:
        greenlets: the green threads.
        timeout: the maximum time in seconds; None means no limit.
        raise_error: raise the exception of the first green thread that fails.
        count: the number of green threads to wait for; None means all.

    Returns:
        The green threads that have ended, in the order in which they ended.

    Raises:
        BaseException: with `raise_error`, the exception of the first green thread that failed.
    """
    done = []
    for greenlet in iwait(list(greenlets), timeout, count):
        if raise_error and getattr(greenlet, "exception", None) is not None:
            greenlet.get()
        done.append(greenlet)
    return done


class iwait(Iterator[Any]):  # noqa: N801 - gevent's name
    """An iterator over objects (green threads, events, results: objects with `rawlink`) in the order they become ready.

    It ends after all objects, or `count` of them, or when `timeout` seconds have passed. It is also a context manager:
    leaving the `with` block ends it.
    """

    def __init__(self, objects: Iterable[Any], timeout: float | None = None, count: int | None = None) -> None:
        self._left = _each(list(objects), timeout, count)

    def __next__(self) -> Any:
        return next(self._left)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._left.close()


def _each(waited: list[Any], timeout: float | None, count: int | None) -> Generator[Any, None, None]:
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
                # Returns immediately if an object became ready while nobody waited.
                waiter.get()
            left -= 1
            yield ready.popleft()
    finally:
        if timer is not None:
            timer.cancel()
        for one in waited:
            one.unlink(note)


def wait(objects: Iterable[Any] | None = None, timeout: float | None = None, count: int | None = None) -> Any:
    """Wait for objects as `iwait` does, and return the list of those that are ready.

    Without objects, wait until the hub has nothing left to wait for, as `hub.join` does, and return False if the
    timeout expired first.
    """
    if objects is None:
        return get_hub().join(timeout)
    return list(iwait(objects, timeout, count))


def killall(
    greenlets: Iterable[Any], exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
) -> None:
    """Kill green threads and wait until they have ended.

    Args:
        greenlets: the green threads.
        exception: an exception or an exception class.
        block: whether to wait for their end.
        timeout: the maximum time to wait, in seconds; None means no limit.

    Raises:
        Timeout: the timeout expired.
    """
    killed = list(greenlets)
    for greenlet in killed:
        kill(greenlet, exception)
    if block:
        waited = [greenlet for greenlet in killed if isinstance(greenlet, Greenlet)]
        if len(joinall(waited, timeout)) < len(waited):
            raise Timeout(timeout)
