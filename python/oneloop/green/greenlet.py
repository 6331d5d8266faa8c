"""`Greenlet`: a green thread: a function that runs beside others and can wait as if it blocked.

```text
created → started → running ⇄ waiting → ended
     ↘ killed before it began ─────────↗
```
"""

from __future__ import annotations

import contextlib
import traceback
from operator import attrgetter
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Self

from greenlet import GreenletExit, getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop import _native
from oneloop.green.awaiting import ended
from oneloop.green.hub import Waiter, get_hub, wait_for
from oneloop.green.iwait import iwait
from oneloop.green.links import Link, own_links
from oneloop.green.raw_greenlet import exception_of, spawn_raw
from oneloop.green.settings import config
from oneloop.green.timeout import Timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from types import TracebackType
    from typing import ParamSpec, overload

    from typing_extensions import TypeVar

    P = ParamSpec("P")
    T_co = TypeVar("T_co", covariant=True, default=Any)
    R = TypeVar("R")
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

__all__ = ["Greenlet", "joinall", "kill", "killall", "spawn", "spawn_later", "spawn_raw"]


_parent: Any = vars(RawGreenlet)["parent"]


class Greenlet(RawGreenlet, Generic[T_co]):
    """A green thread. `spawn` creates and starts one. Subclasses may define `_run` instead of passing a function.

    Use it in the OS thread that created it. `value` is the function's return value, `exception` the exception it
    raised. A green thread that ends with GreenletExit counts as successful, and its `value` is that exception.
    """

    # The state and the steps that every green thread goes through are native code: `Life`.
    __slots__ = ("_is_unbegun_end", "_life", "_timer")

    _life: _native.Life

    if not TYPE_CHECKING:
        # `Greenlet[int]` is no class of its own.
        __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, /, run: Callable[..., T_co] | None = None, *args: Any, **kwargs: Any) -> None:
        # Its parent becomes the hub when it starts.
        RawGreenlet.__init__(self)
        self._life = _native.Life(get_hub(), run, args, kwargs or None)
        if not callable(getattr(self, "_run", None)):
            raise TypeError("The run argument or self._run must be callable")

    run = property(attrgetter("_life"), doc="The callable that the greenlet runs.")  # pyright: ignore[reportIncompatibleMethodOverride]
    hub = property(attrgetter("_life.hub"), doc="The hub of its thread.")

    @property
    def parent(self) -> Any:
        """The greenlet that continues when this one ends; before it has begun, the hub, which will set it."""
        return _parent.__get__(self) if RawGreenlet.__bool__(self) or self.dead else self.hub

    @parent.setter
    def parent(self, greenlet: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if greenlet is not self.hub:
            _parent.__set__(self, greenlet)

    spawning_greenlet = property(attrgetter("_life.spawner"), doc="A weak reference to the greenlet that created it.")
    spawn_tree_locals = property(
        attrgetter("_life.tree"), doc="A dictionary shared with the spawning green thread and those it spawns."
    )

    if TYPE_CHECKING:
        # Subclasses define it as a method.
        _run: Callable[..., Any]
    else:

        @property
        def _run(self):
            """The function to call; a function that does nothing if none was given or the green thread has ended."""
            return self._life.function or _do_nothing

        @_run.setter
        def _run(self, function):
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
    def value(self) -> T_co | None:
        """The function's return value; None before it returns, and if it raised an exception."""
        value: T_co | None = self._life.value
        return value

    @value.setter
    def value(self, value: Any) -> None:
        self._life.value = value

    # -- starting ------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        @overload
        @classmethod
        def spawn(cls, run: Callable[P, T_co], /, *args: P.args, **kwargs: P.kwargs) -> Self: ...
        @overload
        @classmethod
        def spawn(cls, *args: Any, **kwargs: Any) -> Self: ...
        @classmethod  # type: ignore[misc]  # as in pool.py
        def spawn(cls, *args: Any, **kwargs: Any) -> Any: ...

    else:
        spawn = classmethod(_native.spawn_green)

    @classmethod
    def spawn_later(cls, /, seconds: float, *args: Any, **kwargs: Any) -> Self:
        """Create a green thread that starts after `seconds` seconds."""
        if not args and cls is Greenlet:
            raise TypeError("spawn_later() requires a function")
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

    def __bool__(self) -> bool:
        """Whether it was started and has not ended."""
        return self.started

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
        hub = self.hub
        try:
            hub.handle_error(self, type(error), error, error.__traceback__)
        except Exception as failed:
            if failed is error or isinstance(failed, hub.SYSTEM_ERROR):
                raise
            # A program's own `handle_error` has failed.
            traceback.print_exception(failed)

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
    def exc_info(self) -> tuple[type[BaseException], BaseException, TracebackType | None] | None:
        """The exception in the form of `sys.exc_info()`; None if there is none."""
        raised = self._life.raised
        return None if raised is None else (type(raised), raised, raised.__traceback__)

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
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else Link(callback))

    def link_value(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:  # noqa: N803
        """Like `link`, but only if this green thread succeeds."""
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else Link(callback, if_succeeded=True))

    def link_exception(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:  # noqa: N803
        """Like `link`, but only if this green thread fails."""
        self.rawlink(SpawnedLink(callback) if SpawnedLink is not None else Link(callback, if_succeeded=False))

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
        return any(link not in own_links for link in self._life.links)

    # -- waiting -------------------------------------------------------------------------------------

    def join(self, timeout: float | Timeout | None = None) -> None:
        """Wait until it has ended.

        Args:
            timeout: the maximum time in seconds, or a `Timeout`; None means no limit.
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
        except Timeout as raised:
            if raised is not timeout:
                raise
        finally:
            self._life.remove_link(waiter)

    def get(self, block: bool = True, timeout: float | Timeout | None = None) -> T_co:
        """Wait for the function's return value.

        Args:
            block: whether to wait.
            timeout: the maximum time to wait, in seconds, or a `Timeout`; None means no limit.

        Raises:
            Timeout: it has not ended, and `block` is false or the timeout expired.
            BaseException: the exception that the function raised, or that of the `Timeout`.
        """
        if not self.ready():
            if not block:
                raise Timeout
            self.join(timeout)
            if not self.ready():
                raise timeout if isinstance(timeout, Timeout) else Timeout(timeout)
        raised = self._life.raised
        if raised is not None:
            # Each `raise` adds frames to the exception's traceback.
            raise raised.with_traceback(self.__dict__.setdefault("_raised_at", raised.__traceback__))
        value: T_co = self._life.value
        return value

    def __await__(self) -> Generator[Any, None, T_co]:
        """Wait for the return value in a coroutine of the same loop. Cancelling the wait cancels the green thread.

        Raises:
            asyncio.CancelledError: the green thread ended with GreenletExit.
        """
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
        raised = exception_of(exception)
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
            self._end_unbegun(exception_of(args if len(args) > 1 else args[0] if args else GreenletExit))
            return None
        return RawGreenlet.throw(self, *args)

    # -- context manager -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for its end. If the block or the wait raised an exception, kill the green thread."""
        if value is not None:
            self.kill((kind, value, trace))
            return
        try:
            self.join()
        finally:
            self.kill()

    # -- names ---------------------------------------------------------------------------------------

    @property
    def minimal_ident(self) -> int:
        """A small integer, unique among the living green threads of its hub; see `threading.get_ident`."""
        ident: int = self.hub.ident_registry.get_ident(self)
        self.__dict__["_is_named"] = True
        return ident

    @property
    def name(self) -> str:
        """The assigned name; by default the class name and `minimal_ident`."""
        return str(self.__dict__.get("_name") or f"{type(self).__name__}-{self.minimal_ident}")

    @name.setter
    def name(self, name: str) -> None:
        self.__dict__["_name"] = name
        self.__dict__["_is_named"] = True

    def __repr__(self) -> str:
        if getattr(self, "_life", None) is None:
            return object.__repr__(self)
        # A name is not made for this, because it would take an ident.
        name = f' "{self.name}" ' if "_is_named" in self.__dict__ else " "
        return f"<{type(self).__name__}{name}at {hex(id(self))}: {self._formatinfo()}>"

    def _formatinfo(self) -> str:
        """The call that it makes. When it has ended, only what an earlier call of this method returned is known."""
        known: str | None = self.__dict__.get("_formatted")
        if known is None:
            known = _call_text(self._run, self, self.args, self.kwargs)
            self.__dict__["_formatted"] = known
        return known


_native.set_greenlet_class(Greenlet)
_native.track_tree(config.track_greenlet_tree)


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing; runs in green threads without a function."""


def _call_text(function: Any, greenlet: Greenlet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    owner = getattr(function, "__self__", None)
    if owner is greenlet or function is _do_nothing:
        text = "_run"
    else:
        text = repr(function) if owner is not None else getattr(function, "__name__", "") or repr(function)
    shown = [repr(one)[:50] for one in args] + [f"{key}={repr(one)[:50]}" for key, one in kwargs.items()]
    return f"{text}({', '.join(shown)})" if shown else text


_spawn_callbacks: list[Callable[[Greenlet], object]] = []


def _call_all(greenlet: Greenlet) -> None:
    for callback in _spawn_callbacks:
        callback(greenlet)


if TYPE_CHECKING:

    def spawn(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Greenlet[R]: ...
    def spawn_later(seconds: float, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Greenlet[R]: ...

else:
    spawn = Greenlet.spawn
    spawn_later = Greenlet.spawn_later


def kill(greenlet: RawGreenlet, exception: Any = GreenletExit) -> None:
    """Raise an exception in a greenlet where it waits, soon. Does not wait for its end."""
    if isinstance(greenlet, Greenlet):
        greenlet.kill(exception, block=False)
    elif not greenlet.dead:
        get_hub().throw_soon(greenlet, exception_of(exception))


def joinall(
    greenlets: Iterable[R], timeout: float | None = None, raise_error: bool = False, count: int | None = None
) -> list[R]:
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
    greenlet: Any
    for greenlet in iwait(list(greenlets), timeout, count):
        if raise_error and getattr(greenlet, "exception", None) is not None:
            greenlet.get()
        done.append(greenlet)
    return done


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
