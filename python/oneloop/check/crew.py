"""`Crew`: a group of tasks that pass items to one consumer. The first exception of a task is raised to the consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

__all__ = ["Crew"]

Found = TypeVar("Found")


class Crew(Generic[Found]):
    """A group of tasks. Use it in `async with`; at the end of the block the tasks are cancelled."""

    def __init__(self) -> None:
        self.found: deque[Found] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start another task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._failure is None:
            self._failure = error
        self._news.set()

    def add(self, found: Found) -> None:
        """Pass an item to the consumer."""
        self.found.append(found)
        self._news.set()

    async def wait_for_room(self) -> None:
        """Wait until the consumer has taken all items."""
        self._room.clear()
        await self._room.wait()

    async def all(self) -> AsyncGenerator[Found]:
        """Yield the items until all tasks have ended.

        Raises:
            BaseException: the exception of the first task that failed.
        """
        while True:
            while self.found:
                yield self.found.popleft()
            self._room.set()
            if self._failure is not None:
                raise self._failure
            if not self._tasks:
                return
            self._news.clear()
            await self._news.wait()
