"""`PublicHub`: the part of gevent's hub interface that programs use and our own modules (`hub.py`) do not need."""

from __future__ import annotations

import _thread
import pprint
import sys
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from oneloop.green.exceptions import ConcurrentObjectUseError, LoopExit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oneloop.green.hub import Hub
    from oneloop.green.hub_loop import HubLoop
    from oneloop.green.watchers import Watcher

__all__ = ["PublicHub"]

_MAIN_THREAD_IDENT = _thread.get_ident()


class PublicHub:
    """Gevent's interface of a hub; base class of `oneloop.green.hub.Hub`. Use it only in the loop's thread."""

    backend = None
    """The libev backend that was requested: always None."""
    name = ""
    """A name for reports."""
    format_context: Callable[[object], str] = staticmethod(pprint.saferepr)
    """Formats the object that an exception was raised in, for reports."""

    _green_loop: HubLoop | None = None
    _exception_stream: Any = ...
    _resolver: Any = None
    resolver_class: Any = None
    """Called with the hub to create `resolver`. None: use GEVENT_RESOLVER, see `oneloop.green.resolver`."""

    @property
    def loop(self: Any) -> HubLoop:
        """Gevent's interface of the loop: watchers and callbacks. `asyncio_loop` is the loop below it."""
        if self._green_loop is None:
            from oneloop.green.hub_loop import HubLoop

            self._green_loop = HubLoop(self)
        return self._green_loop  # type: ignore[no-any-return]

    @property
    def loop_class(self) -> type[Any]:
        """The class of standalone loops."""
        from oneloop.green import core

        return core.loop

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

    # -- names ---------------------------------------------------------------------------------------

    @property
    def resolver(self) -> Any:
        """The resolver for the socket module's name lookups; created on first use, can be assigned."""
        if self._resolver is None:
            from oneloop.green.resolver import resolver_class

            self._resolver = (self.resolver_class or resolver_class())(self)
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
            BlockingSwitchOutError: called in a callback or a coroutine.
        """
        hub = self.greenlet
        if hub is getcurrent():
            raise self._parking_refused()
        if hub is None or not self.asyncio_loop.is_running():
            hub = self._make_greenlet()
        return hub.switch()

    def wait(self: Any, watcher: Watcher) -> None:
        """Start a watcher, wait until it calls back, and stop it.

        Raises:
            ConcurrentObjectUseError: another green thread is waiting for the watcher.
        """
        from oneloop.green.waiter import Waiter

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
        from oneloop.green.waiter import Waiter

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
        try:
            waiter.get()
        except LoopExit:
            return True
        finally:
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
