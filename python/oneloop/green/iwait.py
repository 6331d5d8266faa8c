"""`iwait` and `wait`: several objects at once, in the order in which they become ready."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from oneloop.green.hub import Waiter, get_hub

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

__all__ = ["iwait", "wait"]

T = TypeVar("T")


class iwait(Iterator[T]):  # noqa: N801 - gevent's name
    """An iterator over objects (green threads, events, results: objects with `rawlink`) in the order they become ready.

    It ends after all objects, or `count` of them, or when `timeout` seconds have passed. It is also a context manager:
    leaving the `with` block ends it.
    """

    def __init__(self, objects: Iterable[T], timeout: float | None = None, count: int | None = None) -> None:
        self._left: Generator[T, None, None] = _each(list(objects), timeout, count)

    def __next__(self) -> T:
        return next(self._left)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._left.close()


def _drop(objects: list[Any], wanted: Any) -> bool:
    """Remove an object, compared by identity, from a list. Return whether it was there."""
    for at, one in enumerate(objects):
        if one is wanted:
            del objects[at]
            return True
    return False


def is_ready(waited: Any) -> bool:
    """Whether a callback of `rawlink` would be called at once."""
    ask = getattr(waited, "ready", None)
    return callable(ask) and bool(ask())


def _each(waited: list[Any], timeout: float | None, count: int | None) -> Generator[Any, None, None]:
    left = len(waited) if count is None else min(count, len(waited))
    hub = get_hub()
    ready: deque[Any] = deque()
    waiter = Waiter(hub)

    is_late = False
    # Those that are ready now come first, and nothing else runs before them.
    early = [one for one in waited if is_ready(one)]
    ready.extend(early)

    def note(source: Any) -> None:
        if not _drop(early, source):
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


@overload
def wait(objects: Iterable[T], timeout: float | None = None, count: int | None = None) -> list[T]: ...
@overload
def wait(objects: None = None, timeout: float | None = None, count: int | None = None) -> bool: ...
def wait(
    objects: Iterable[Any] | None = None, timeout: float | None = None, count: int | None = None
) -> list[Any] | bool:
    """Wait for objects as `iwait` does, and return the list of those that are ready.

    Without objects, wait until the hub has nothing left to wait for, as `hub.join` does, and return False if the
    timeout expired first.
    """
    if objects is None:
        return get_hub().join(timeout)
    return list(iwait(objects, timeout, count))
