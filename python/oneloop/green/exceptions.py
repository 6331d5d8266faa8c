"""Exceptions of green threads, with gevent's names."""

from __future__ import annotations

from greenlet import GreenletExit

__all__ = [
    "BlockingSwitchOutError",
    "ConcurrentObjectUseError",
    "GreenletExit",
    "HubDestroyed",
    "InvalidSwitchError",
    "InvalidThreadUseError",
    "LoopExit",
]


class LoopExit(Exception):  # noqa: N818 - gevent's name
    """The loop has nothing left that could wake the waiting green thread."""


class BlockingSwitchOutError(AssertionError):
    """A blocking call where nothing can run meanwhile: in a coroutine or a callback that may not block.

    That is one of oneloop's own loop; in a program that is not patched, of any loop.
    """


class InvalidSwitchError(AssertionError):
    """A switch to a greenlet that cannot be resumed."""


class ConcurrentObjectUseError(AssertionError):
    """Two green threads use an object that supports only one at a time."""


class InvalidThreadUseError(RuntimeError):
    """An object is used in a thread that it does not belong to."""


class HubDestroyed(GreenletExit):
    """Ends the greenlet of a hub that is destroyed."""

    def __init__(self, destroy_loop: bool = True) -> None:
        super().__init__(destroy_loop)
        self.destroy_loop = destroy_loop
