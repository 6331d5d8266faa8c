"""`PublicHub`: the part of gevent's hub interface that programs use and our own modules (`hub.py`) do not need."""

from __future__ import annotations

import _thread
import asyncio
import heapq
import pprint
import sys
import weakref
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from oneloop import _native
from oneloop.green.exceptions import ConcurrentObjectUseError, LoopExit
from oneloop.green.hub_loop import HubLoop
from oneloop.green.settings import config, resolver_class
from oneloop.green.waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oneloop.green.hub import Hub
    from oneloop.green.watchers import Watcher

__all__ = ["Idents", "PublicHub"]

_MAIN_THREAD_IDENT = _thread.get_ident()


class PublicHub:
    """Gevent's interface of a hub; base class of `oneloop.green.hub.Hub`. Use it only in the loop's thread."""

    backend = None
    """The libev backend that was requested: always None."""
    name = ""
    """A name for reports."""
    format_context: Callable[[object], str] = staticmethod(pprint.saferepr)
    """Formats the object that an exception was raised in, for reports."""

    minimal_ident = 0
    """For programs that ask a green thread's parent; green threads have their own numbers, from 0."""

    _green_loop: HubLoop | None = None
    _is_joining = False
    _exception_stream: Any = ...
    _resolver: Any = None
    resolver_class: Any = None
    """Called with the hub to create `resolver`. None: use `config.resolver`, see `oneloop.green.resolver`."""

    @property
    def loop(self: Any) -> HubLoop:
        """Gevent's interface of the loop: watchers and callbacks. `asyncio_loop` is the loop below it."""
        if self._green_loop is None:
            self._green_loop = HubLoop(self)
        return self._green_loop  # type: ignore[no-any-return]

    @loop.setter
    def loop(self, loop: Any) -> None:
        self._green_loop = loop

    @property
    def loop_class(self) -> type[Any]:
        """The class of standalone loops."""
        kind: type[Any] = config.loop
        return kind

    @property
    def thread_ident(self: Any) -> int:
        """The ident of the hub's thread."""
        return self._thread_ident  # type: ignore[no-any-return]

    @property
    def main_hub(self: Any) -> bool:
        """Whether this is the hub of the main thread."""
        return bool(self._thread_ident == _MAIN_THREAD_IDENT)

    @property
    def dead(self) -> bool:
        """Always False: if the hub's greenlet has ended, a new one is created when it is needed."""
        return False

    @property
    def parent(self: Any) -> Any:
        """The thread's main greenlet."""
        return self.main

    # -- reports -------------------------------------------------------------------------------------

    @property
    def exception_stream(self) -> Any:
        """The stream for exception reports: `sys.stderr` unless another one is assigned; None disables the reports."""
        return sys.stderr if self._exception_stream is ... else self._exception_stream

    @exception_stream.setter
    def exception_stream(self, stream: Any) -> None:
        self._exception_stream = stream

    @exception_stream.deleter
    def exception_stream(self) -> None:
        self._exception_stream = ...

    @staticmethod
    def _normalize_exception(kind: Any, value: Any, trace: Any) -> tuple[Any, Any, Any]:
        """Return an exception's type, instance and traceback. Subclasses that override `handle_error` call it."""
        if isinstance(value, str):
            value = kind(value)
        if value is None:
            value = kind()
        return kind, value, value.__traceback__ if trace is None else trace

    # -- names ---------------------------------------------------------------------------------------

    @property
    def resolver(self) -> Any:
        """The resolver for the socket module's name lookups; created on first use, can be assigned."""
        if self._resolver is None:
            chosen = config.resolver if "resolver" in vars(config) else resolver_class()
            self._resolver = (self.resolver_class or chosen)(self)
        return self._resolver

    @resolver.setter
    def resolver(self, resolver: Any) -> None:
        self._resolver = resolver

    @resolver.deleter
    def resolver(self) -> None:
        self._resolver = None

    # -- waiting -------------------------------------------------------------------------------------

    def switch(self: Any) -> Any:
        """Run other green threads until another one switches back to this greenlet.

        Returns:
            The value that was passed to this greenlet's `switch`.

        Raises:
            BlockingSwitchOutError: called in a callback of the hub.
        """
        hub = self.greenlet
        if hub is getcurrent():
            raise self._parking_refused()
        if hub is None or not self.asyncio_loop.is_running():
            hub = self._make_greenlet()
        if asyncio._get_running_loop() is not None and self._may_block_in_step():
            return _native.call_hidden(hub.switch)
        return hub.switch()

    def wait(self: Any, watcher: Watcher) -> None:
        """Start a watcher, wait until it calls back, and stop it.

        Raises:
            ConcurrentObjectUseError: another green thread is waiting for the watcher.
        """
        if watcher.callback is not None:
            raise ConcurrentObjectUseError(f"This object is already used by another green thread: {watcher.callback!r}")
        waiter = Waiter(self)
        watcher.start(waiter.switch, waiter)
        try:
            waiter.get()
        finally:
            watcher.stop()

    def cancel_wait(self, watcher: Watcher | None, error: Any, close_watcher: bool = False) -> None:
        """Raise `error` in the green thread that waits for `watcher` in `wait`.

        Nothing is raised if no green thread waits for it. `watcher` may be None.
        """
        if watcher is None:
            return
        if watcher.callback is not None:
            self.loop.run_callback(_cancel, watcher, error, close_watcher)
        elif close_watcher:
            watcher.close()

    def cancel_waits_close_and_then(
        self, watchers: Iterable[Watcher | None], exc_kind: Any, then: Callable[..., object], *then_args: Any
    ) -> None:
        """Like `cancel_wait` for several watchers, and close them; then call `then(*then_args)`."""
        waited = []
        for watcher in watchers:
            if watcher is None:
                continue
            if watcher.callback is None:
                watcher.close()
            else:
                waited.append(watcher)
        if not waited:
            then(*then_args)
            return

        def cancel_all() -> None:
            for watcher in waited:
                _cancel(watcher, exc_kind, True)
            then(*then_args)

        self.loop.run_callback(cancel_all)

    def join(self: Any, timeout: float | None = None) -> bool:
        """Wait until this hub's loop has nothing left to wait for. Call it in the thread's main greenlet.

        Args:
            timeout: the maximum time in seconds; None means no limit.

        Returns:
            True, or False if the timeout expired first.

        Raises:
            AssertionError: called in another greenlet.
            RuntimeError: the program runs this hub's loop itself.
        """
        hub: Hub = self
        if getcurrent() is not hub.main:
            raise AssertionError("only possible from the MAIN greenlet")
        if not hub.is_owner:
            raise RuntimeError(
                "the program runs this loop itself (oneloop.run()), so the hub cannot be joined: join green threads "
                "with joinall() or wait(objects)"
            )
        waiter = Waiter(hub)
        timer = None if timeout is None else self.loop.timer(timeout, ref=False)
        if timer is not None:
            timer.start(waiter.switch, None)
        self._is_joining = True
        try:
            waiter.get()
        except LoopExit:
            return True
        finally:
            self._is_joining = False
            if timer is not None:
                timer.close()
        return False


def _cancel(watcher: Watcher, error: Any, close_watcher: bool) -> None:
    is_active, callback = watcher.active, watcher.callback
    if close_watcher:
        watcher.close()
    waiting = getattr(callback, "__self__", None)
    if is_active and waiting is not None:
        waiting.throw(error)


class Idents:
    """Small numbers for objects, which it does not keep alive. A freed object's number is used again. For one thread.

    Its length is the number of objects that have a number.
    """

    def __init__(self) -> None:
        self._given: dict[weakref.ref[Any], int] = {}
        self._free: list[int] = []

    def get_ident(self, of: Any) -> int:
        """Return the object's number, which stays the same during its lifetime."""
        key = weakref.ref(of, self._give_back)
        number = self._given.get(key)
        if number is None:
            number = heapq.heappop(self._free) if self._free else len(self._given)
            self._given[key] = number
        return number

    def _give_back(self, key: weakref.ref[Any]) -> None:
        number = self._given.pop(key, None)
        if number is not None:
            heapq.heappush(self._free, number)

    def __len__(self) -> int:
        return len(self._given)
