"""`aiofiles.base`: `wrap`, and the base of the file classes and context managers."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oneloop.files.binary import BinaryFile
from oneloop.files.engine import current
from oneloop.files.text import TextFile
from oneloop.files.unbuffered import UnbufferedFile
from oneloop.loop import Loop

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "AiofilesContextManager",
    "AsyncBase",
    "AsyncIndirectBase",
    "call",
    "wrap",
]

T = TypeVar("T")

# File classes whose methods are already coroutines.
OURS = (BinaryFile, TextFile, UnbufferedFile)


def call(loop: Any, executor: Any, function: Callable[..., T], *args: Any, **kwargs: Any) -> Awaitable[T]:
    """Run a function in oneloop's thread pool, or in the executor or loop that the program passed."""
    running = loop or get_running_loop()
    if executor is None and isinstance(running, Loop):
        return current().call(function, *args, **kwargs)
    chosen: Awaitable[T] = running.run_in_executor(executor, partial(function, *args, **kwargs))
    return chosen


def wrap(func: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that runs `func` in the pool. It also accepts `loop` and `executor`."""

    @wraps(func)
    async def run(*args: Any, loop: Any = None, executor: Any = None, **kwargs: Any) -> Any:
        return await call(loop, executor, func, *args, **kwargs)

    return run


def present(ours: Callable[..., Awaitable[T]], func: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, T]]:
    """Like `wrap(func)`, but on a oneloop loop without an executor, await `ours`, which does the same."""

    @wraps(func)
    async def run(*args: Any, loop: Any = None, executor: Any = None, **kwargs: Any) -> T:
        if executor is None and isinstance(loop or get_running_loop(), Loop):
            return await ours(*args, **kwargs)
        return await call(loop, executor, func, *args, **kwargs)

    return run


class AsyncBase:
    """A file: a oneloop file, or an io file whose methods run in the pool."""

    def __init__(self, file: Any, loop: Any, executor: Any) -> None:
        self._file = file
        self._executor = executor
        self._ref_loop = loop

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = self._ref_loop or get_running_loop()
        return loop

    def __aiter__(self) -> Any:
        """Return the file itself."""
        return self

    def __repr__(self) -> str:
        return super().__repr__() + " wrapping " + repr(self._file)

    async def __anext__(self) -> Any:
        """Return the next line."""
        if line := await self.readline():  # type: ignore[attr-defined]
            return line
        raise StopAsyncIteration


class AsyncIndirectBase(AsyncBase):
    """A file that is looked up at each use, because the program may replace it (`sys.stdin`)."""

    def __init__(self, name: str, loop: Any, executor: Any, indirect: Callable[[], Any]) -> None:
        self._indirect = indirect
        self._name = name
        super().__init__(None, loop, executor)

    @property
    def _file(self) -> Any:
        return self._indirect()

    @_file.setter
    def _file(self, v: Any) -> None:
        """Ignored: the file is looked up at each use."""


class AiofilesContextManager(Awaitable[Any], AbstractAsyncContextManager[Any], Generic[T]):
    """Opens a file, with `await` or with `async with`. The latter also closes it."""

    __slots__ = ("_coro", "_obj")

    def __init__(self, coro: Coroutine[Any, Any, T]) -> None:
        self._coro = coro
        self._obj: Any = None

    def __await__(self) -> Generator[Any, Any, Any]:
        if self._obj is None:
            self._obj = yield from self._coro.__await__()
        return self._obj

    async def __aenter__(self) -> Any:
        return await self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        file = self._obj._file
        if isinstance(file, OURS):
            await file.close()
        else:
            await call(None, None, file.__exit__, exc_type, exc_val, exc_tb)
        self._obj = None
