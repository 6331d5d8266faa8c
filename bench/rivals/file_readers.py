"""Reading whole files and blocks of files, in each rival's natural form. Used by the programs of the files suite.

An asyncio reader is a coroutine function; the others are plain functions, and the programs call both.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
# The rivals are untyped or missing.
from __future__ import annotations

import asyncio
import mmap
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

BLOCK = 4096
IN_FLIGHT = 32
CHUNK = 1 << 20
#: The number of lines for rivals that pass each line to a thread.
FEW_LINES = 20_000


class Reader(Protocol):
    """The functions that the programs need from a rival."""

    async def read_all(self, paths: Sequence[str]) -> int:
        """Reads every file completely; returns the number of bytes."""

    async def read_blocks(self, path: str, offsets: Sequence[int], direct: bool) -> int:
        """Reads 4 KiB at each offset, up to 32 at a time; returns the number of bytes."""

    async def read_on(self, path: str) -> int:
        """Reads a file from start to end, one MiB at a time; returns the number of bytes."""

    async def read_lines(self, path: str) -> int:
        """Iterates over a text file, or a part of it; returns the number of lines."""

    async def copy(self, source: str, target: str) -> None:
        """Copies a file."""


async def _lengths(paths: Sequence[str], read: Callable[[str], Awaitable[bytes]]) -> int:
    """Reads every file; several at once by a gather, which makes a task of each, one alone without it."""
    if len(paths) == 1:
        return len(await read(paths[0]))
    return sum(map(len, await asyncio.gather(*(read(path) for path in paths))))


async def _in_flight(offsets: Sequence[int], read: Callable[[int], Awaitable[int]]) -> int:
    """Runs as many tasks as there may be reads in flight; they share the offsets."""
    pending = iter(offsets)

    async def work() -> int:
        return sum([await read(offset) for offset in pending])

    return sum(await asyncio.gather(*(work() for _ in range(IN_FLIGHT))))


def _flags(direct: bool) -> int:
    return os.O_RDONLY | (os.O_DIRECT if direct else 0)


def _whole(path: str) -> bytes:
    """A whole file, by the usual `open`, which makes a buffered reader."""
    with open(path, "rb") as file:
        return file.read()


class Blocking:
    """open(): blocks the loop during each read. All contents are kept until the last is read, as by a gather."""

    async def read_all(self, paths: Sequence[str]) -> int:
        return sum(map(len, [_whole(path) for path in paths]))

    async def read_blocks(self, path: str, offsets: Sequence[int], direct: bool) -> int:
        buffer = mmap.mmap(-1, BLOCK)  # page-aligned, as O_DIRECT requires
        fd = os.open(path, _flags(direct))
        try:
            total = 0
            for offset in offsets:
                total += os.preadv(fd, [buffer], offset)
                await asyncio.sleep(0)
            return total
        finally:
            os.close(fd)

    async def read_on(self, path: str) -> int:
        total = 0
        with open(path, "rb", buffering=0) as file:
            while data := file.read(CHUNK):
                total += len(data)
        return total

    async def read_lines(self, path: str) -> int:
        lines = 0
        with open(path) as file:
            for _ in file:
                lines += 1
        return lines

    async def copy(self, source: str, target: str) -> None:
        shutil.copyfile(source, target)


class PlainCalls(Blocking):
    """os.open, os.fstat, os.read, os.close: what a whole file costs without a reader around it."""

    @staticmethod
    def _one(path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    async def read_all(self, paths: Sequence[str]) -> int:
        return sum(map(len, [self._one(path) for path in paths]))


class Aiofiles:
    """aiofiles: every call in an executor, which has as many threads as there are reads in flight."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(IN_FLIGHT)

    async def read_all(self, paths: Sequence[str]) -> int:
        import aiofiles

        async def one(path: str) -> bytes:
            async with aiofiles.open(path, "rb") as file:
                return bytes(await file.read())

        return await _lengths(paths, one)

    async def read_blocks(self, path: str, offsets: Sequence[int], direct: bool) -> int:
        import aiofiles

        files = [await aiofiles.open(path, "rb", buffering=0, executor=self.pool) for _ in range(IN_FLIGHT)]
        idle = list(files)

        async def one(offset: int) -> int:
            file = idle.pop()
            await file.seek(offset)
            got = len(await file.read(BLOCK))
            idle.append(file)
            return got

        total = await _in_flight(offsets, one)
        for file in files:
            await file.close()
        return total

    async def read_on(self, path: str) -> int:
        import aiofiles

        total = 0
        async with aiofiles.open(path, "rb", buffering=0) as file:
            while data := await file.read(CHUNK):
                total += len(data)
        return total

    async def read_lines(self, path: str) -> int:
        import aiofiles

        lines = 0
        async with aiofiles.open(path) as file:
            async for _ in file:
                lines += 1
                if lines == FEW_LINES:
                    break
        return lines

    async def copy(self, source: str, target: str) -> None:
        import aiofiles

        async with aiofiles.open(source, "rb") as reader, aiofiles.open(target, "wb") as writer:
            while data := await reader.read(CHUNK):
                await writer.write(data)


class Turbofile(Blocking):
    """turbofile: io_uring in Rust. What is cached it reads when it is called, and returns a future that is done."""

    async def read_all(self, paths: Sequence[str]) -> int:
        import turbofile

        return await _lengths(paths, turbofile.read_bytes)


class Asyncfiles(Blocking):
    """py-asyncfiles: io_uring or libuv."""

    async def read_all(self, paths: Sequence[str]) -> int:
        import asyncfiles

        async def one(path: str) -> bytes:
            async with asyncfiles.open(path, "rb") as file:
                return bytes(await file.read())

        return await _lengths(paths, one)


class Executor:
    """A thread pool, as a program can use it without any package."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(IN_FLIGHT)

    async def read_all(self, paths: Sequence[str]) -> int:
        loop = asyncio.get_running_loop()
        return await _lengths(paths, lambda path: loop.run_in_executor(self.pool, _whole, path))

    async def read_blocks(self, path: str, offsets: Sequence[int], direct: bool) -> int:
        loop = asyncio.get_running_loop()
        fd = os.open(path, _flags(direct))
        idle = [mmap.mmap(-1, BLOCK) for _ in range(IN_FLIGHT)]

        async def one(offset: int) -> int:
            buffer = idle.pop()
            got = await loop.run_in_executor(self.pool, os.preadv, fd, [buffer], offset)
            idle.append(buffer)
            return got

        try:
            return await _in_flight(offsets, one)
        finally:
            os.close(fd)

    async def read_on(self, path: str) -> int:
        loop = asyncio.get_running_loop()
        total = 0
        with open(path, "rb", buffering=0) as file:
            while data := await loop.run_in_executor(self.pool, file.read, CHUNK):
                total += len(data)
        return total

    async def read_lines(self, path: str) -> int:
        loop = asyncio.get_running_loop()
        lines = 0
        with open(path) as text:
            for _ in range(FEW_LINES):
                await loop.run_in_executor(self.pool, text.readline)
                lines += 1
        return lines

    async def copy(self, source: str, target: str) -> None:
        await asyncio.get_running_loop().run_in_executor(self.pool, shutil.copyfile, source, target)


class Aiofile:
    """aiofile, based on caio, which chooses Linux AIO, threads or io_uring."""

    async def read_all(self, paths: Sequence[str]) -> int:
        from aiofile import async_open

        async def one(path: str) -> bytes:
            async with async_open(path, "rb") as file:
                return bytes(await file.read())

        return await _lengths(paths, one)

    async def read_blocks(self, path: str, offsets: Sequence[int], direct: bool) -> int:
        from aiofile import AIOFile

        async with AIOFile(path, "rb") as file:

            async def one(offset: int) -> int:
                return len(await file.read_bytes(BLOCK, offset))

            return await _in_flight(offsets, one)

    async def read_on(self, path: str) -> int:
        from aiofile import AIOFile

        total = 0
        async with AIOFile(path, "rb") as file:
            while data := await file.read_bytes(CHUNK, total):
                total += len(data)
        return total

    async def read_lines(self, path: str) -> int:
        from aiofile import async_open

        lines = 0
        async with async_open(path) as file:
            async for _ in file:
                lines += 1
                if lines == FEW_LINES:
                    break
        return lines

    async def copy(self, source: str, target: str) -> None:
        from aiofile import async_open

        async with async_open(source, "rb") as reader, async_open(target, "wb") as writer:
            async for data in reader.iter_chunked(CHUNK):
                await writer.write(data)


class Libaio:
    """libaio: Linux AIO, polled. It has no asyncio support, so the loop waits for it."""

    def __init__(self) -> None:
        import libaio

        self.aio = libaio
        self.context = libaio.AIOContext(IN_FLIGHT * 4)

    async def read_all(self, paths: Sequence[str]) -> int:
        files = [open(path, "rb", buffering=0) for path in paths]  # noqa: SIM115 - closed together below
        try:
            blocks = [
                self.aio.AIOBlock(self.aio.AIOBLOCK_MODE_READ, file, [bytearray(os.fstat(file.fileno()).st_size)], 0)
                for file in files
            ]
            self.context.submit(blocks)
            events = self.context.getEvents(len(blocks))
            return sum(int(event[1]) for event in events)
        finally:
            for file in files:
                file.close()

    async def read_blocks(self, path: str, offsets: Sequence[int], direct: bool) -> int:
        fd = os.open(path, _flags(direct))
        idle = [mmap.mmap(-1, BLOCK) for _ in range(IN_FLIGHT)]
        reading: dict[int, mmap.mmap] = {}
        total = at = 0
        try:
            while at < len(offsets) or reading:
                blocks = []
                while idle and at < len(offsets):
                    block = self.aio.AIOBlock(self.aio.AIOBLOCK_MODE_READ, fd, [idle[-1]], offsets[at])
                    reading[id(block)] = idle.pop()
                    blocks.append(block)
                    at += 1
                if blocks:
                    self.context.submit(blocks)
                # One or more have ended: their buffers are used again.
                for block, got, *_rest in self.context.getEvents(1, IN_FLIGHT):
                    total += int(got)
                    idle.append(reading.pop(id(block)))
                await asyncio.sleep(0)
        finally:
            os.close(fd)
        return total

    async def read_on(self, path: str) -> int:
        total = 0
        buffer = mmap.mmap(-1, CHUNK)
        with open(path, "rb", buffering=0) as file:
            while got := self._read_one(file, buffer, total):
                total += got
        return total

    def _read_one(self, file: object, buffer: mmap.mmap, offset: int) -> int:
        self.context.submit([self.aio.AIOBlock(self.aio.AIOBLOCK_MODE_READ, file, [buffer], offset)])
        ((_, got, *_rest),) = self.context.getEvents(1)
        return int(got)

    async def read_lines(self, path: str) -> int:
        raise NotImplementedError("libaio has no lines")

    async def copy(self, source: str, target: str) -> None:
        raise NotImplementedError("libaio has no copy")


class Oneloop:
    """oneloop.files."""

    def __init__(self) -> None:
        from oneloop import files

        self.files = files

    async def read_all(self, paths: Sequence[str]) -> int:
        return await _lengths(paths, self.files.read_file)

    async def read_blocks(self, path: str, offsets: Sequence[int], direct: bool) -> int:
        async with self.files.open(path, "rb", buffering=0, direct=direct) as file:

            async def one(offset: int) -> int:
                return len(await file.pread(BLOCK, offset))

            return await _in_flight(offsets, one)

    async def read_on(self, path: str) -> int:
        total = 0
        async with self.files.open(path, "rb", buffering=0) as file:
            while data := await file.read(CHUNK):
                total += len(data)
        return total

    async def read_lines(self, path: str) -> int:
        lines = 0
        async with self.files.open(path) as file:
            async for _ in file:
                lines += 1
        return lines

    async def copy(self, source: str, target: str) -> None:
        await self.files.copyfile(source, target)


READERS: dict[str, Callable[[], Reader]] = {
    "open": Blocking,
    "os": PlainCalls,
    "executor": Executor,
    "aiofiles": Aiofiles,
    "aiofile": Aiofile,
    "turbofile": Turbofile,
    "asyncfiles": Asyncfiles,
    "libaio": Libaio,
    "oneloop": Oneloop,
}
