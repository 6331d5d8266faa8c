"""`aiofiles.tempfile.temptypes`: the classes of spooled temporary files and temporary directories."""

from __future__ import annotations

from typing import Any

from oneloop.compat.aiofiles.base import AsyncBase, call
from oneloop.compat.aiofiles.threadpool.utils import (
    cond_delegate_to_executor,
    delegate_to_executor,
    proxy_property_directly,
)

__all__ = ["AsyncSpooledTemporaryFile", "AsyncTemporaryDirectory"]


@delegate_to_executor("fileno", "rollover")
@cond_delegate_to_executor(
    "close",
    "flush",
    "isatty",
    "read",
    "readline",
    "readlines",
    "seek",
    "tell",
    "truncate",
)
@proxy_property_directly("closed", "encoding", "mode", "name", "newlines")
class AsyncSpooledTemporaryFile(AsyncBase):
    """A temporary file that is kept in memory until it is too large."""

    async def _check(self) -> None:
        limit = self._file._max_size
        if not self._file._rolled and limit and self._file.tell() > limit:
            await self.rollover()  # type: ignore[attr-defined]

    async def write(self, s: Any) -> Any:
        """Write, and move the file to the disk if it is too large for memory."""
        return await self._put("write", s)

    async def writelines(self, iterable: Any) -> Any:
        """Write lines, and move the file to the disk if it is too large for memory."""
        return await self._put("writelines", iterable)

    async def _put(self, name: str, data: Any) -> Any:
        if self._file._rolled:
            return await call(self._loop, self._executor, getattr(self._file, name), data)
        # Bypass the file's own check, which would move the file to the disk on the event loop's thread.
        count = getattr(self._file._file, name)(data)
        await self._check()
        return count


@delegate_to_executor("cleanup")
@proxy_property_directly("name")
class AsyncTemporaryDirectory:
    """A temporary directory."""

    def __init__(self, file: Any, loop: Any, executor: Any) -> None:
        self._file = file
        self._loop = loop
        self._executor = executor

    async def close(self) -> None:
        """Remove the directory and its contents."""
        await self.cleanup()  # type: ignore[attr-defined]
