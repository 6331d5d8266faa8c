"""`bounded`: gives a coroutine function its `timeout=`."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["bounded", "within"]

P = ParamSpec("P")
T = TypeVar("T")


async def within(timeout_s: float, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine for at most so many seconds.

    Raises:
        TimeoutError: the time is up; the coroutine has been cancelled and has ended.
    """
    async with asyncio.timeout(timeout_s):
        return await coroutine


def bounded(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make the `timeout` (seconds or None) that a coroutine function declares, and never looks at, true."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        timeout: Any = kwargs.pop("timeout", None)
        if timeout is None:
            return function(*args, **kwargs)
        return within(timeout, function(*args, **kwargs))

    if hasattr(inspect, "markcoroutinefunction"):  # from Python 3.12 on
        inspect.markcoroutinefunction(call)
    return call
