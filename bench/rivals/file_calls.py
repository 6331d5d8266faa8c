"""Small reads of cached files, lines and stat, in each rival's natural form; see file_writers for the tables.

The path of `gathered` and `in-sequence` is a folder; of the others, a file.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
# The rivals are untyped or missing.
from __future__ import annotations

import asyncio
import importlib
import mmap
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bench.rivals.file_writers import AwaitedCall, AwaitedTable, BlockingCall, BlockingTable

BLOCK = 4096
PREADS = 4000


def offsets(path: str) -> list[int]:
    """The offsets of 4000 blocks of a file, in random order."""
    blocks = Path(path).stat().st_size // BLOCK
    return [number * BLOCK for number in random.Random(3).choices(range(blocks), k=PREADS)]


def paths_in(folder: str) -> list[str]:
    """The files of a folder, in order."""
    return sorted(entry.path for entry in os.scandir(folder))


@contextmanager
def _blocking_whole(path: str, mode: str) -> Iterator[BlockingCall]:
    def call() -> None:
        with open(path, mode) as file:
            file.read()

    yield call


@contextmanager
def _blocking_read_file(path: str) -> Iterator[BlockingCall]:
    yield Path(path).read_bytes


@contextmanager
def _blocking_readline(path: str) -> Iterator[BlockingCall]:
    with open(path) as file:
        yield file.readline


@contextmanager
def _blocking_lines(path: str, newline: str | None) -> Iterator[BlockingCall]:
    def call() -> None:
        with open(path, newline=newline) as file:
            for _ in file:
                pass

    yield call


@contextmanager
def _blocking_long_line(path: str) -> Iterator[BlockingCall]:
    def call() -> None:
        with open(path, "r+") as file:
            file.readline()

    yield call


@contextmanager
def _blocking_preads(path: str) -> Iterator[BlockingCall]:
    wanted = offsets(path)
    with open(path, "rb", buffering=0) as file:
        fd = file.fileno()

        def call() -> None:
            for offset in wanted:
                os.pread(fd, BLOCK, offset)

        yield call


@contextmanager
def _blocking_stat(path: str) -> Iterator[BlockingCall]:
    yield partial(os.stat, path)


@contextmanager
def _blocking_many(folder: str) -> Iterator[BlockingCall]:
    paths = paths_in(folder)

    def call() -> None:
        for path in paths:
            with open(path, "rb") as file:
                file.read()

    yield call


BLOCKING: BlockingTable = {
    "read-file": _blocking_read_file,
    "open-read-close": partial(_blocking_whole, mode="rb"),
    "open-read-close-text": partial(_blocking_whole, mode="r"),
    "readline": _blocking_readline,
    "lines": partial(_blocking_lines, newline=None),
    "lines-as-they-are": partial(_blocking_lines, newline=""),
    "long-line": _blocking_long_line,
    "preads": _blocking_preads,
    "stat": _blocking_stat,
    "gathered": _blocking_many,
    "in-sequence": _blocking_many,
}


def _read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


@asynccontextmanager
async def _executor_preads(path: str) -> AsyncIterator[AwaitedCall]:
    wanted = offsets(path)
    with open(path, "rb", buffering=0) as file:
        fd = file.fileno()

        async def call() -> None:
            await asyncio.gather(*(asyncio.to_thread(os.pread, fd, BLOCK, offset) for offset in wanted))

        yield call


@asynccontextmanager
async def _executor_gathered(folder: str) -> AsyncIterator[AwaitedCall]:
    paths = paths_in(folder)

    async def call() -> None:
        await asyncio.gather(*(asyncio.to_thread(_read_bytes, path) for path in paths))

    yield call


@asynccontextmanager
async def _executor_in_sequence(folder: str) -> AsyncIterator[AwaitedCall]:
    paths = paths_in(folder)

    async def call() -> None:
        for path in paths:
            await asyncio.to_thread(_read_bytes, path)

    yield call


#: The works for which the executor does not make one blocking call in a thread.
EXECUTOR: AwaitedTable = {
    "preads": _executor_preads,
    "gathered": _executor_gathered,
    "in-sequence": _executor_in_sequence,
}


def _opener(module: str) -> Any:
    """The function `open` of a package with aiofiles' API."""
    return importlib.import_module(module).open


@asynccontextmanager
async def _aiofiles_whole(path: str, mode: str, module: str = "aiofiles") -> AsyncIterator[AwaitedCall]:
    open_file = _opener(module)

    async def call() -> None:
        async with open_file(path, mode) as file:
            await file.read()

    yield call


@asynccontextmanager
async def _aiofiles_readline(path: str, module: str = "aiofiles") -> AsyncIterator[AwaitedCall]:
    open_file = _opener(module)

    async with open_file(path) as file:
        yield file.readline


@asynccontextmanager
async def _aiofiles_lines(path: str, newline: str | None, module: str = "aiofiles") -> AsyncIterator[AwaitedCall]:
    open_file = _opener(module)
    options = {} if newline is None else {"newline": newline}

    async def call() -> None:
        async with open_file(path, **options) as file:
            async for _ in file:
                pass

    yield call


@asynccontextmanager
async def _aiofiles_long_line(path: str, module: str = "aiofiles") -> AsyncIterator[AwaitedCall]:
    open_file = _opener(module)

    async def call() -> None:
        async with open_file(path, "r+") as file:
            await file.readline()

    yield call


@asynccontextmanager
async def _aiofiles_stat(path: str) -> AsyncIterator[AwaitedCall]:
    import aiofiles.os

    yield partial(aiofiles.os.stat, path)


@asynccontextmanager
async def _aiofiles_many(folder: str, gathered: bool, module: str = "aiofiles") -> AsyncIterator[AwaitedCall]:
    open_file = _opener(module)

    paths = paths_in(folder)

    async def one(path: str) -> None:
        async with open_file(path, "rb") as file:
            await file.read()

    yield partial(_all, [partial(one, path) for path in paths], gathered)


async def _all(calls: list[AwaitedCall], gathered: bool) -> None:
    """All of them concurrently, or one after the other."""
    if gathered:
        await asyncio.gather(*(call() for call in calls))
    else:
        for call in calls:
            await call()


def _like_aiofiles(module: str) -> AwaitedTable:
    """What packages with aiofiles' API can."""
    return {
        "read-file": partial(_aiofiles_whole, mode="rb", module=module),
        "open-read-close": partial(_aiofiles_whole, mode="rb", module=module),
        "open-read-close-text": partial(_aiofiles_whole, mode="r", module=module),
        "readline": partial(_aiofiles_readline, module=module),
        "lines": partial(_aiofiles_lines, newline=None, module=module),
        "lines-as-they-are": partial(_aiofiles_lines, newline="", module=module),
        "long-line": partial(_aiofiles_long_line, module=module),
        "gathered": partial(_aiofiles_many, gathered=True, module=module),
        "in-sequence": partial(_aiofiles_many, gathered=False, module=module),
    }


AIOFILES: AwaitedTable = {**_like_aiofiles("aiofiles"), "stat": _aiofiles_stat}


@asynccontextmanager
async def _turbofile_read_file(path: str) -> AsyncIterator[AwaitedCall]:
    import turbofile

    yield partial(turbofile.read_bytes, path)


@asynccontextmanager
async def _turbofile_many(folder: str, gathered: bool) -> AsyncIterator[AwaitedCall]:
    import turbofile

    yield partial(_all, [partial(turbofile.read_bytes, path) for path in paths_in(folder)], gathered)


#: Its function for whole files reads when it is called, and returns a future that is done.
TURBOFILE: AwaitedTable = {
    **_like_aiofiles("turbofile"),
    "read-file": _turbofile_read_file,
    "gathered": partial(_turbofile_many, gathered=True),
    "in-sequence": partial(_turbofile_many, gathered=False),
}
#: Its files have no readline and no newline.
ASYNCFILES: AwaitedTable = {
    work: call
    for work, call in _like_aiofiles("asyncfiles").items()
    if work in ("read-file", "open-read-close", "open-read-close-text", "lines", "gathered", "in-sequence")
}


@asynccontextmanager
async def _aiofile_whole(path: str, mode: str) -> AsyncIterator[AwaitedCall]:
    from aiofile import async_open

    async def call() -> None:
        async with async_open(path, mode) as file:
            await file.read()

    yield call


@asynccontextmanager
async def _aiofile_readline(path: str) -> AsyncIterator[AwaitedCall]:
    from aiofile import async_open

    async with async_open(path) as file:
        yield file.readline


@asynccontextmanager
async def _aiofile_lines(path: str) -> AsyncIterator[AwaitedCall]:
    from aiofile import async_open

    async def call() -> None:
        async with async_open(path) as file:
            async for _ in file:
                pass

    yield call


@asynccontextmanager
async def _aiofile_long_line(path: str) -> AsyncIterator[AwaitedCall]:
    from aiofile import async_open

    async def call() -> None:
        async with async_open(path, "r+") as file:
            await file.readline()

    yield call


@asynccontextmanager
async def _aiofile_preads(path: str) -> AsyncIterator[AwaitedCall]:
    from aiofile import AIOFile

    wanted = offsets(path)
    async with AIOFile(path, "rb") as file:

        async def call() -> None:
            await asyncio.gather(*(file.read_bytes(BLOCK, offset) for offset in wanted))

        yield call


@asynccontextmanager
async def _aiofile_many(folder: str, gathered: bool) -> AsyncIterator[AwaitedCall]:
    from aiofile import async_open

    async def one(path: str) -> None:
        async with async_open(path, "rb") as file:
            await file.read()

    yield partial(_all, [partial(one, path) for path in paths_in(folder)], gathered)


AIOFILE: AwaitedTable = {
    "read-file": partial(_aiofile_whole, mode="rb"),
    "open-read-close": partial(_aiofile_whole, mode="rb"),
    "open-read-close-text": partial(_aiofile_whole, mode="r"),
    "readline": _aiofile_readline,
    "lines": _aiofile_lines,
    "long-line": _aiofile_long_line,
    "preads": _aiofile_preads,
    "gathered": partial(_aiofile_many, gathered=True),
    "in-sequence": partial(_aiofile_many, gathered=False),
}


@contextmanager
def _libaio_preads(path: str) -> Iterator[BlockingCall]:
    """Submits as many requests together as the context accepts."""
    import libaio

    at_once = 128
    context = libaio.AIOContext(at_once)
    wanted = offsets(path)
    buffers = [mmap.mmap(-1, BLOCK) for _ in range(at_once)]
    with open(path, "rb", buffering=0) as file:

        def call() -> None:
            for start in range(0, PREADS, at_once):
                part = wanted[start : start + at_once]
                blocks = [
                    libaio.AIOBlock(libaio.AIOBLOCK_MODE_READ, file, [buffer], offset)
                    for offset, buffer in zip(part, buffers, strict=False)
                ]
                context.submit(blocks)
                context.getEvents(len(blocks))

        yield call


LIBAIO: BlockingTable = {"preads": _libaio_preads}


@asynccontextmanager
async def _oneloop_read_file(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    yield partial(files.read_file, path)


@asynccontextmanager
async def _oneloop_whole(path: str, mode: Literal["r", "rb"]) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    async def call() -> None:
        async with files.open(path, mode) as file:
            await file.read()

    yield call


@asynccontextmanager
async def _oneloop_readline(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    async with files.open(path) as file:
        yield file.readline


@asynccontextmanager
async def _oneloop_lines(path: str, newline: str | None) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    async def call() -> None:
        async with files.open(path, newline=newline) as file:
            async for _ in file:
                pass

    yield call


@asynccontextmanager
async def _oneloop_long_line(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    async def call() -> None:
        async with files.open(path, "r+") as file:
            await file.readline()

    yield call


@asynccontextmanager
async def _oneloop_preads(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    wanted = offsets(path)
    async with files.open(path, "rb", buffering=0) as file:

        async def call() -> None:
            await asyncio.gather(*(file.pread(BLOCK, offset) for offset in wanted))

        yield call


@asynccontextmanager
async def _oneloop_stat(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    yield partial(files.stat, path)


@asynccontextmanager
async def _oneloop_many(folder: str, gathered: bool) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    yield partial(_all, [partial(files.read_file, path) for path in paths_in(folder)], gathered)


ONELOOP: AwaitedTable = {
    "read-file": _oneloop_read_file,
    "open-read-close": partial(_oneloop_whole, mode="rb"),
    "open-read-close-text": partial(_oneloop_whole, mode="r"),
    "readline": _oneloop_readline,
    "lines": partial(_oneloop_lines, newline=None),
    "lines-as-they-are": partial(_oneloop_lines, newline=""),
    "long-line": _oneloop_long_line,
    "preads": _oneloop_preads,
    "stat": _oneloop_stat,
    "gathered": partial(_oneloop_many, gathered=True),
    "in-sequence": partial(_oneloop_many, gathered=False),
}
