"""`SpooledTemporaryFile`: in memory until it becomes large."""

from __future__ import annotations

import asyncio
import io
import os
from typing import TYPE_CHECKING, Any, Self, final

from oneloop.files.temporary import Affix, Folder, TemporaryFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType


__all__ = ["SpooledTemporaryFile"]


@final
class SpooledTemporaryFile:
    """A file in memory that is moved to the disk once it has more than `max_size` bytes (0: never).

    Like `tempfile.SpooledTemporaryFile`, but its methods are coroutines, also while it is in memory. Use it with
    `async with`, or directly.
    """

    def __init__(
        self,
        max_size: int = 0,
        mode: str = "w+b",
        buffering: int = -1,
        encoding: str | None = None,
        newline: str | None = None,
        suffix: Affix = None,
        prefix: Affix = None,
        dir: Folder = None,
        *,
        errors: str | None = None,
    ) -> None:
        self._max_size = max_size
        self._rolled = False
        # Held while the memory is used or moved to the disk.
        self._turn = asyncio.Lock()
        self._opening = TemporaryFile(mode, buffering, encoding, newline, suffix, prefix, dir, errors=errors)
        self._mode = mode
        memory = io.BytesIO()
        self._file: Any = memory
        if "b" not in mode:
            style = self._opening._request.style
            assert style is not None
            self._file = io.TextIOWrapper(memory, style.encoding, style.errors, newline)

    async def __aenter__(self) -> Self:
        if self.closed:
            raise ValueError("Cannot enter context with closed file")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def __getattr__(self, name: str) -> Any:
        if name in ("encoding", "errors", "newlines", "readable", "writable", "seekable", "isatty"):
            return getattr(self._file, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def closed(self) -> bool:
        """True once the file is closed."""
        return bool(self._file.closed)

    @property
    def mode(self) -> str:
        """The `mode` argument, or the mode of the file on the disk."""
        return str(self._file.mode) if self._rolled else self._mode

    @property
    def name(self) -> int | None:
        """The descriptor once the file is on the disk, else None."""
        return self._file.name if self._rolled else None

    async def rollover(self) -> None:
        """Move the file to the disk now."""
        async with self._turn:
            await self._roll()

    async def _roll(self) -> None:
        """Move the file to the disk. The lock is held, so no write to the memory is lost."""
        if self._rolled:
            return
        memory = self._file
        position = memory.tell()
        is_text = isinstance(memory, io.TextIOWrapper)
        if is_text:
            memory.flush()
        file: Any = await self._opening
        try:
            binary = file.buffer if is_text else file
            await binary.write((memory.buffer if is_text else memory).getvalue())
            await file.seek(position)
        except BaseException:
            await file.close()
            raise
        self._file = file
        self._rolled = True

    async def fileno(self) -> int:
        """Move the file to the disk, and return the descriptor."""
        await self.rollover()
        return int(self._file.fileno())

    async def read(self, size: int | None = -1, /) -> Any:
        """Like the method of a file from `open`."""
        return await self._do("read", size)

    async def readline(self, size: int = -1, /) -> Any:
        """Like the method of a file from `open`."""
        return await self._do("readline", size)

    async def readlines(self, hint: int = -1, /) -> Any:
        """Like the method of a file from `open`."""
        return await self._do("readlines", hint)

    async def readinto(self, buffer: Any, /) -> int:
        """Like the method of a file from `open`."""
        return int(await self._do("readinto", buffer))

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Like the method of a file from `open`."""
        return int(await self._do("seek", offset, whence))

    async def tell(self) -> int:
        """Like the method of a file from `open`."""
        return int(await self._do("tell"))

    async def flush(self) -> None:
        """Like the method of a file from `open`."""
        await self._do("flush")

    async def close(self) -> None:
        """Close the file and free its content."""
        await self._do("close")

    async def truncate(self, size: int | None = None, /) -> int:
        """Like the method of a file from `open`. Moves the file to the disk if `size` is above `max_size`."""
        if size is not None and self._max_size and size > self._max_size:
            await self.rollover()
        return int(await self._do("truncate", size))

    async def write(self, data: Any, /) -> int:
        """Like the method of a file from `open`. Moves the file to the disk if it exceeds `max_size`."""
        return int(await self._do("write", data))

    async def writelines(self, lines: Iterable[Any], /) -> None:
        """Like the method of a file from `open`. Moves the file to the disk if it exceeds `max_size`."""
        await self._do("writelines", lines)

    async def _do(self, name: str, *arguments: Any) -> Any:
        if not self._rolled:
            async with self._turn:
                # Another task may have moved the file to the disk meanwhile.
                if not self._rolled:
                    done = getattr(self._file, name)(*arguments)
                    is_writing = name in ("write", "writelines")
                    if is_writing and self._max_size and self._file.tell() > self._max_size:
                        await self._roll()
                    return done
        return await getattr(self._file, name)(*arguments)
