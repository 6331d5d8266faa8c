"""Small writes to files, in each rival's natural form; measured by the program of file calls.

A table has a context manager for each work. It returns the operation, which is called repeatedly. The executor uses the
operations of the blocking table.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
# The rivals are untyped or missing.
from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

BlockingCall = Callable[[], object]
AwaitedCall = Callable[[], Awaitable[object]]
BlockingTable = Mapping[str, Callable[[str], AbstractContextManager[BlockingCall]]]
AwaitedTable = Mapping[str, Callable[[str], AbstractAsyncContextManager[AwaitedCall]]]

CONTENT = bytes(range(256)) * 16
RECORD = b"." * 99 + b"\n"
LINE = "." * 79 + "\n"


@contextmanager
def _blocking_whole(path: str, mode: str, data: bytes) -> Iterator[BlockingCall]:
    def call() -> None:
        with open(path, mode) as file:
            file.write(data)

    yield call


@contextmanager
def _blocking_append_flush(path: str) -> Iterator[BlockingCall]:
    with open(path, "ab") as file:

        def call() -> None:
            file.write(RECORD)
            file.flush()

        yield call


@contextmanager
def _blocking_text(path: str, buffering: int) -> Iterator[BlockingCall]:
    with open(path, "a", buffering) as file:
        yield partial(file.write, LINE)


BLOCKING: BlockingTable = {
    "write-file": partial(_blocking_whole, mode="wb", data=CONTENT),
    "open-write-close": partial(_blocking_whole, mode="wb", data=CONTENT),
    "open-append-close": partial(_blocking_whole, mode="ab", data=RECORD),
    "append-flush": _blocking_append_flush,
    "text-append": partial(_blocking_text, buffering=-1),
    "line-append": partial(_blocking_text, buffering=1),
}


def _opener(module: str) -> Any:
    """The function `open` of a package with aiofiles' API."""
    return importlib.import_module(module).open


@asynccontextmanager
async def _aiofiles_whole(path: str, mode: str, data: bytes, module: str = "aiofiles") -> AsyncIterator[AwaitedCall]:
    open_file = _opener(module)

    async def call() -> None:
        async with open_file(path, mode) as file:
            await file.write(data)

    yield call


@asynccontextmanager
async def _aiofiles_append_flush(path: str, module: str = "aiofiles") -> AsyncIterator[AwaitedCall]:
    open_file = _opener(module)

    async with open_file(path, "ab") as file:

        async def call() -> None:
            await file.write(RECORD)
            await file.flush()

        yield call


@asynccontextmanager
async def _aiofiles_text(path: str, buffering: int, module: str = "aiofiles") -> AsyncIterator[AwaitedCall]:
    open_file = _opener(module)

    async with open_file(path, "a", buffering) as file:
        yield partial(file.write, LINE)


def _like_aiofiles(module: str) -> AwaitedTable:
    """What packages with aiofiles' API can."""
    return {
        "write-file": partial(_aiofiles_whole, mode="wb", data=CONTENT, module=module),
        "open-write-close": partial(_aiofiles_whole, mode="wb", data=CONTENT, module=module),
        "open-append-close": partial(_aiofiles_whole, mode="ab", data=RECORD, module=module),
        "append-flush": partial(_aiofiles_append_flush, module=module),
        "text-append": partial(_aiofiles_text, buffering=-1, module=module),
        "line-append": partial(_aiofiles_text, buffering=1, module=module),
    }


AIOFILES: AwaitedTable = _like_aiofiles("aiofiles")


@asynccontextmanager
async def _turbofile_write_file(path: str) -> AsyncIterator[AwaitedCall]:
    import turbofile

    yield partial(turbofile.write_bytes, path, CONTENT)


TURBOFILE: AwaitedTable = {**_like_aiofiles("turbofile"), "write-file": _turbofile_write_file}
#: Its files have no flush and no buffer.
ASYNCFILES: AwaitedTable = {
    work: call
    for work, call in _like_aiofiles("asyncfiles").items()
    if work in ("write-file", "open-write-close", "open-append-close")
}


@asynccontextmanager
async def _aiofile_whole(path: str, mode: str, data: bytes) -> AsyncIterator[AwaitedCall]:
    from aiofile import async_open

    async def call() -> None:
        async with async_open(path, mode) as file:
            await file.write(data)

    yield call


@asynccontextmanager
async def _aiofile_kept(path: str, mode: str, data: bytes | str) -> AsyncIterator[AwaitedCall]:
    """It has no buffer: when a write returns, the kernel has the data. Its flush would be fdatasync."""
    from aiofile import async_open

    async with async_open(path, mode) as file:
        yield partial(file.write, data)


AIOFILE: AwaitedTable = {
    "write-file": partial(_aiofile_whole, mode="wb", data=CONTENT),
    "open-write-close": partial(_aiofile_whole, mode="wb", data=CONTENT),
    "open-append-close": partial(_aiofile_whole, mode="ab", data=RECORD),
    "append-flush": partial(_aiofile_kept, mode="ab", data=RECORD),
    "line-append": partial(_aiofile_kept, mode="a", data=LINE),
}


@asynccontextmanager
async def _oneloop_write_file(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    yield partial(files.write_file, path, CONTENT)


@asynccontextmanager
async def _oneloop_open_write_close(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    async def call() -> None:
        async with files.open(path, "wb") as file:
            await file.write(CONTENT)

    yield call


@asynccontextmanager
async def _oneloop_open_append_close(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    async def call() -> None:
        async with files.open(path, "ab") as file:
            await file.write(RECORD)

    yield call


@asynccontextmanager
async def _oneloop_append_flush(path: str) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    async with files.open(path, "ab") as file:

        async def call() -> None:
            await file.write(RECORD)
            await file.flush()

        yield call


@asynccontextmanager
async def _oneloop_text(path: str, buffering: int) -> AsyncIterator[AwaitedCall]:
    from oneloop import files

    async with files.open(path, "a", buffering) as file:
        yield partial(file.write, LINE)


ONELOOP: AwaitedTable = {
    "write-file": _oneloop_write_file,
    "open-write-close": _oneloop_open_write_close,
    "open-append-close": _oneloop_open_append_close,
    "append-flush": _oneloop_append_flush,
    "text-append": partial(_oneloop_text, buffering=-1),
    "line-append": partial(_oneloop_text, buffering=1),
}
