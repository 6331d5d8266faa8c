"""`Watcher`: the base class of all watchers.

```text
created → active ⇄ pending   (an event has occurred; the callback runs in the loop's next turn)
     ↖ stopped ↙
```
Use a watcher in its loop's thread. It can be started and stopped during its own callback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from oneloop.green.watchers.events import EVENTS, MAXPRI, MINPRI

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.green.loop import GreenLoop

__all__ = ["Watcher"]


class Watcher:
    """Calls a function on the hub when an event occurs. Created by the methods of `get_hub().loop`.

    Args:
        loop: the loop whose hub calls the function.
        ref: whether the active watcher keeps the loop alive.
        priority: -2 to 2; of the pending watchers, those with higher priority are called first.
    """

    __slots__ = ("__weakref__", "_args", "_callback", "_events", "_is_active", "_priority", "_ref", "loop")

    def __init__(self, loop: GreenLoop, ref: bool = True, priority: int | None = None) -> None:
        self.loop = loop
        self._ref = bool(ref)
        self._priority = 0 if priority is None else max(MINPRI, min(MAXPRI, priority))
        self._callback: Callable[..., object] | None = None
        self._args: tuple[Any, ...] | None = None
        self._is_active = False
        # The events that have occurred and were not delivered yet.
        self._events = 0

    # -- hooks for subclasses --------------------------------------------------------------------------

    def _arm(self) -> None:
        """Start watching."""

    def _disarm(self) -> None:
        """Stop watching."""

    def _rearm(self) -> None:
        """Start watching on a new loop below, in a forked child."""
        self._arm()

    def _described(self) -> str:
        """What is watched, for `repr`."""
        return ""

    # -- public methods ------------------------------------------------------------------------------

    def start(self, callback: Callable[..., object], *args: Any) -> None:
        """Call `callback(*args)` on the hub when the event occurs. The callback must not block.

        If the watcher is active, this replaces its callback.

        Args:
            callback: the function to call.
            *args: its arguments.

        Raises:
            TypeError: `callback` is not callable.
            ValueError: the loop is destroyed.
        """
        self._begin(callback, args)

    def _begin(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        _check_callable(callback)
        self.loop._check_live()
        self._callback, self._args = callback, args
        if not self._is_active:
            self._is_active = True
            self.loop._activated(self)
            try:
                self._arm()
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Stop watching. Events that were not delivered yet are dropped."""
        if self._is_active:
            self._is_active = False
            self._disarm()
            self.loop._deactivated(self)
        self._events = 0
        self._callback = self._args = None

    def close(self) -> None:
        """Stop permanently."""
        self.stop()

    def feed(self, revents: int, callback: Callable[..., object], *args: Any) -> None:
        """Make the hub call `callback(*args)` as if the events `revents` had occurred."""
        _check_callable(callback)
        self.loop._check_live()
        self._callback, self._args = callback, args
        self.loop._feed(self, revents)

    def _lapse(self) -> None:
        """Deactivate the watcher; its pending callback still runs."""
        self._is_active = False
        self.loop._deactivated(self)

    @property
    def active(self) -> bool:
        """Whether the watcher was started and is watching."""
        return self._is_active

    @property
    def pending(self) -> bool:
        """Whether an event has occurred and the callback has not run yet."""
        return self._events != 0

    @property
    def callback(self) -> Callable[..., object] | None:
        """The callback; None if the watcher is stopped."""
        return self._callback

    @callback.setter
    def callback(self, callback: Callable[..., object] | None) -> None:
        if callback is not None:
            _check_callable(callback)
        self._callback = callback

    @property
    def args(self) -> tuple[Any, ...] | None:
        """The arguments of the callback."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...] | None) -> None:
        given: object = args
        if given is not None and not isinstance(given, tuple):
            raise TypeError(f"Expected tuple, got {type(given).__name__}")
        self._args = args

    @property
    def ref(self) -> bool:
        """Whether the active watcher keeps the loop alive."""
        return self._ref

    @ref.setter
    def ref(self, ref: bool) -> None:
        ref = bool(ref)
        if ref is self._ref:
            return
        if not self._is_active:
            self._ref = ref
            return
        self.loop._deactivated(self)
        self._ref = ref
        self.loop._activated(self)
        self._ref_changed()

    def _ref_changed(self) -> None:
        """Called when `ref` was changed while the watcher is active."""

    @property
    def priority(self) -> int:
        """The priority, -2 to 2. Changing it while the watcher is active raises AttributeError."""
        return self._priority

    @priority.setter
    def priority(self, priority: int) -> None:
        if self._is_active:
            raise AttributeError("Cannot set priority of an active watcher")
        self._priority = max(MINPRI, min(MAXPRI, priority))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        words = [f"<{type(self).__name__} at {hex(id(self))}{self._described()}"]
        words += ["active"] if self._is_active else []
        words += ["pending"] if self._events else []
        words += [f"callback={self._callback!r}"] if self._callback is not None else []
        words += [f"args={self._args!r}"] if self._args else []
        words += [] if self._ref else ["ref=False"]
        return " ".join(words) + ">"

    # -- for the loop --------------------------------------------------------------------------------

    def _call(self) -> None:
        """Call the callback with the events that have occurred, unless the watcher was stopped."""
        events, self._events = self._events, 0
        callback, args = self._callback, self._args
        if not events or callback is None:
            return
        if args and args[0] is EVENTS:
            args = (events, *args[1:])
        try:
            self.loop._call(callback, args or ())
        except BaseException as error:  # noqa: BLE001 - passed to the error handler
            self._failed()
            self.loop._report(self, error)
        if not self._is_active and not self._events:
            # The watcher was not started again in its callback.
            self._callback = self._args = None

    def _failed(self) -> None:
        """Called when the callback has raised an exception."""


def _check_callable(callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"Expected callable, not {callback!r}")
