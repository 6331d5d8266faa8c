"""`Crew`: tasks that work for one consumer, who hears of what they find and of the first that fails."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

__all__ = ["Crew"]

Found = TypeVar("Found")


class Crew(Generic[Found]):
    """Used within `async with`, whose end ends its tasks."""

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
        """One more task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._failure is None:
            self._failure = error
        self._news.set()

    def add(self, found: Found) -> None:
        """Tell the consumer."""
        self.found.append(found)
        self._news.set()

    async def wait_for_room(self) -> None:
        """Until the consumer has taken all that was found."""
        self._room.clear()
        await self._room.wait()

    async def all(self) -> AsyncGenerator[Found]:
        """What the tasks find, until all of them have ended; raises the error of the first that fails."""
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
