"""`Watcher`: what the kinds of watchers have in common.

```text
made → active ⇄ pending   (something has happened; its callback runs in the loop's next turn)
  ↖ stopped ↙
```
A watcher belongs to its loop's thread. It may be started and stopped in the midst of its own callback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from oneloop.green.watchers.events import EVENTS, MAXPRI, MINPRI

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.green.loop import GreenLoop

__all__ = ["Watcher"]


class Watcher:
    """Calls a function on the hub whenever something happens. Made by the methods of `get_hub().loop`.

    Args:
        loop: whose hub calls.
        ref: while it is active, the loop counts as having something to wait for.
        priority: -2 to 2; of those that are pending, who has the highest goes first.
    """

    __slots__ = ("__weakref__", "_args", "_callback", "_events", "_is_active", "_priority", "_ref", "loop")

    def __init__(self, loop: GreenLoop, ref: bool = True, priority: int | None = None) -> None:
        self.loop = loop
        self._ref = bool(ref)
        self._priority = 0 if priority is None else max(MINPRI, min(MAXPRI, priority))
        self._callback: Callable[..., object] | None = None
        self._args: tuple[Any, ...] | None = None
        self._is_active = False
        # What has happened, and was not told yet.
        self._events = 0

    # -- what the kinds define -----------------------------------------------------------------------

    def _arm(self) -> None:
        """Begin to watch."""

    def _disarm(self) -> None:
        """Watch no more."""

    def _rearm(self) -> None:
        """Watch on: the loop below is another one, in the child of a fork."""
        self._arm()

    def _described(self) -> str:
        """What it watches, for `repr`."""
        return ""

    # -- for everybody -------------------------------------------------------------------------------

    def start(self, callback: Callable[..., object], *args: Any) -> None:
        """Call `callback(*args)` on the hub whenever it happens; it may not block. Started again, it calls another one.

        Raises:
            TypeError: the callback is none.
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
        """Watch no more; what has happened and was not told yet is not told any more."""
        if self._is_active:
            self._is_active = False
            self._disarm()
            self.loop._deactivated(self)
        self._events = 0
        self._callback = self._args = None

    def close(self) -> None:
        """Stop it for good."""
        self.stop()

    def feed(self, revents: int, callback: Callable[..., object], *args: Any) -> None:
        """Have the hub call `callback(*args)` as if `revents` had happened."""
        _check_callable(callback)
        self.loop._check_live()
        self._callback, self._args = callback, args
        self.loop._feed(self, revents)

    def _lapse(self) -> None:
        """It is over, though its callback is still to be called."""
        self._is_active = False
        self.loop._deactivated(self)

    @property
    def active(self) -> bool:
        """Whether it was started, and watches."""
        return self._is_active

    @property
    def pending(self) -> bool:
        """Whether it has happened, and the callback was not called yet."""
        return self._events != 0

    @property
    def callback(self) -> Callable[..., object] | None:
        """What is called; None if it is stopped."""
        return self._callback

    @callback.setter
    def callback(self, callback: Callable[..., object] | None) -> None:
        if callback is not None:
            _check_callable(callback)
        self._callback = callback

    @property
    def args(self) -> tuple[Any, ...] | None:
        """What it is called with."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...] | None) -> None:
        given: object = args
        if given is not None and not isinstance(given, tuple):
            raise TypeError(f"Expected tuple, got {type(given).__name__}")
        self._args = args

    @property
    def ref(self) -> bool:
        """Whether the loop has something to wait for while it is active."""
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
        """It was changed while the watcher is active."""

    @property
    def priority(self) -> int:
        """-2 to 2. AttributeError if it is changed while the watcher is active."""
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
        """Tell what has happened, if it was not stopped since."""
        events, self._events = self._events, 0
        callback, args = self._callback, self._args
        if not events or callback is None:
            return
        if args and args[0] is EVENTS:
            args = (events, *args[1:])
        try:
            self.loop._call(callback, args or ())
        except BaseException as error:  # noqa: BLE001 - it is the error handler's
            self._failed()
            self.loop._report(self, error)
        if not self._is_active and not self._events:
            # It has not been started again meanwhile.
            self._callback = self._args = None

    def _failed(self) -> None:
        """Its callback has raised."""


def _check_callable(callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"Expected callable, not {callback!r}")
