"""A slow filesystem, as of a network, does not hold the loop: each call to it takes `DELAY_S`, and then until a tick.

A call that the loop itself makes, or waits for, sees no tick: after `HELD_S` the filesystem ends it, and tells of it.
So a loaded machine and a loop that is held are told apart.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests import descriptors
from tests.conftest import close_audited
from tests.file.slow_filesystem import DELAY_S, Calls, SlowFilesystem

pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.engines_only("the stand-in makes its calls on the loop"),
]

TICK_S = 0.005
TEXT = "".join(f"line {number}\n" for number in range(2000))
CONTENT = TEXT.encode()

Use = Callable[[Path], Coroutine[Any, Any, object]]
UseOfFile = Callable[[files.BinaryFile], Coroutine[Any, Any, object]]


class Ticker:
    """Ticks while its block runs; each slow call waits for a tick."""

    def __init__(self, filesystem: SlowFilesystem) -> None:
        self._filesystem = filesystem

    async def _tick(self) -> None:
        while True:
            self._filesystem.tick()
            await asyncio.sleep(TICK_S)

    async def __aenter__(self) -> None:
        self._ticking = asyncio.ensure_future(self._tick())

    async def __aexit__(self, *_exc: object) -> None:
        self._ticking.cancel()
        await asyncio.wait([self._ticking])


def check(calls: Calls) -> None:
    assert calls.made > 0, "no slow call was made"
    assert calls.held == 0, f"the loop was held during {calls.held} of {calls.made} calls"


async def watched(filesystem: SlowFilesystem, using: Awaitable[object]) -> object:
    """Await on the slow filesystem; the loop may not be held meanwhile, and at least one slow call must be made."""
    with filesystem.slow() as calls:
        async with Ticker(filesystem):
            result = await using
    check(calls)
    return result


@pytest.fixture
def path(slow_filesystem: SlowFilesystem) -> Path:
    """A file with `CONTENT`, the only one there. What the kernel had of it is dropped by each opening."""
    for name in os.listdir(slow_filesystem.folder):
        os.unlink(slow_filesystem.folder / name)
    path = slow_filesystem.folder / "file"
    path.write_bytes(CONTENT)
    return path


async def test_a_loop_that_is_held_is_told_of(slow_filesystem: SlowFilesystem, path: Path) -> None:
    with slow_filesystem.slow() as calls:
        async with Ticker(slow_filesystem):
            await asyncio.sleep(0)
            path.stat()
    with pytest.raises(AssertionError, match="the loop was held during"):
        check(calls)


# -- functions and whole files -----------------------------------------------------------------------


async def opened_and_read(path: Path) -> object:
    async with files.open(path, "rb") as file:
        return await file.read()


async def opened_and_read_as_text(path: Path) -> object:
    async with files.open(path, encoding="utf-8") as file:
        return await file.read()


async def opened_and_read_without_buffer(path: Path) -> object:
    async with files.open(path, "rb", buffering=0) as file:
        return await file.readall()


async def opened_and_lines_read(path: Path) -> object:
    async with files.open(path, "rb") as file:
        return b"".join([line async for line in file])


async def opened_and_closed(path: Path) -> object:
    file = await files.open(path, "rb")
    await file.close()
    return file.closed


async def opened_and_written(path: Path) -> object:
    async with files.open(path, "wb") as file:
        return await file.write(b"new")


async def opened_and_written_as_text(path: Path) -> object:
    async with files.open(path, "w", encoding="utf-8") as file:
        return await file.write("new")


async def opened_and_appended(path: Path) -> object:
    async with files.open(path, "ab") as file:
        await file.write(b"new")
        return await file.tell()


async def opened_and_appended_as_text(path: Path) -> object:
    async with files.open(path, "a", encoding="utf-8") as file:
        return await file.write("new")


async def scanned(path: Path) -> object:
    async with files.scandir(path.parent) as entries:
        return [(entry.name, (await entry.stat()).st_size) async for entry in entries]


async def size_by_stat(path: Path) -> object:
    return (await files.stat(path)).st_size


# What to do, what it returns, and what is in the file afterwards (None: it is gone).
ON_PATHS: list[tuple[Use, object, bytes | None]] = [
    (files.read_file, CONTENT, CONTENT),
    (lambda path: files.read_text(path, encoding="utf-8"), TEXT, CONTENT),
    (lambda path: files.write_file(path, b"new"), 3, b"new"),
    (lambda path: files.write_text(path, "new", encoding="utf-8"), 3, b"new"),
    (opened_and_read, CONTENT, CONTENT),
    (opened_and_read_as_text, TEXT, CONTENT),
    (opened_and_read_without_buffer, CONTENT, CONTENT),
    (opened_and_lines_read, CONTENT, CONTENT),
    (opened_and_closed, True, CONTENT),
    (opened_and_written, 3, b"new"),
    (opened_and_written_as_text, 3, b"new"),
    (opened_and_appended, len(CONTENT) + 3, CONTENT + b"new"),
    (opened_and_appended_as_text, 3, CONTENT + b"new"),
    (size_by_stat, len(CONTENT), CONTENT),
    (files.exists, True, CONTENT),
    (lambda path: files.exists(path.with_name("absent")), False, CONTENT),
    (files.getsize, len(CONTENT), CONTENT),
    (lambda path: files.listdir(path.parent), ["file"], CONTENT),
    (scanned, [("file", len(CONTENT))], CONTENT),
    (lambda path: files.truncate(path, 10), None, CONTENT[:10]),
    (files.unlink, None, None),
]
NAMES = [
    *("read_file", "read_text", "write_file", "write_text", "open-read", "open-read-text", "open-read-unbuffered"),
    *("open-lines", "open-close", "open-write", "open-write-text", "open-append", "open-append-text", "stat", "exists"),
    *("exists-not", "getsize", "listdir", "scandir", "truncate", "unlink"),
]


@pytest.mark.parametrize(("use", "expected", "left"), ON_PATHS, ids=NAMES)
async def test_functions(
    slow_filesystem: SlowFilesystem, path: Path, use: Use, expected: object, left: bytes | None
) -> None:
    assert await watched(slow_filesystem, use(path)) == expected
    assert (path.read_bytes() if path.exists() else None) == left


async def test_a_new_file(slow_filesystem: SlowFilesystem, path: Path) -> None:
    new = path.with_name("new")
    assert await watched(slow_filesystem, opened_and_written(new)) == 3
    assert new.read_bytes() == b"new"


async def test_more_than_one_call_reads_at_once(slow_filesystem: SlowFilesystem, path: Path) -> None:
    content = os.urandom(1 << 20)
    path.write_bytes(content)
    assert await watched(slow_filesystem, files.read_file(path)) == content


async def test_a_timeout_is_kept(slow_filesystem: SlowFilesystem, path: Path) -> None:
    with slow_filesystem.slow(delay_s=100) as calls:
        async with Ticker(slow_filesystem):
            with pytest.raises(TimeoutError):
                # Long enough for a thread to begin the call on a busy machine.
                await files.stat(path, timeout=3)
    # An engine may ask the filesystem more than once in so long a time.
    assert 1 <= calls.made == calls.under_way


# -- open files ----------------------------------------------------------------------------------------


async def written(file: files.BinaryFile) -> object:
    """Through the buffer, so that it is `flush()` that writes."""
    await file.write(b"new")
    await file.flush()
    return await file.tell()


async def read_to_the_end(file: files.BinaryFile) -> object:
    return await file.read()


OF_FILES: dict[str, tuple[UseOfFile, object]] = {
    "read": (lambda file: file.read(20), CONTENT[:20]),
    "read-all": (read_to_the_end, CONTENT),
    "readline": (lambda file: file.readline(), CONTENT[:7]),
    "pread": (lambda file: file.pread(20, 1000), CONTENT[1000:1020]),
    "pwrite": (lambda file: file.pwrite(b"new", 0), 3),
    "seek-end": (lambda file: file.seek(0, os.SEEK_END), len(CONTENT)),
    "truncate": (lambda file: file.truncate(10), 10),
    "fsync": (lambda file: file.fsync(), None),
    "write-flush": (written, 3),
    "close": (lambda file: file.close(), None),
}


@pytest.mark.parametrize(("use", "expected"), OF_FILES.values(), ids=OF_FILES)
async def test_open_files(slow_filesystem: SlowFilesystem, path: Path, use: UseOfFile, expected: object) -> None:
    async with files.open(path, "r+b") as file:
        assert await watched(slow_filesystem, use(file)) == expected


# -- what nobody waits for -----------------------------------------------------------------------------


async def closed_late(path: Path) -> None:
    """Wait until no descriptor is on the file any more."""
    deadline_s = asyncio.get_running_loop().time() + 300 * DELAY_S
    while str(path) in descriptors.open_descriptors().values():
        assert asyncio.get_running_loop().time() < deadline_s, "it is not closed"
        await asyncio.sleep(TICK_S)


@pytest.mark.parametrize("mode", ["rb", "r+b", "r"])
async def test_a_file_that_is_left_open(slow_filesystem: SlowFilesystem, path: Path, mode: str) -> None:
    file: object = await files.open(path, mode)
    with slow_filesystem.slow() as calls:
        async with Ticker(slow_filesystem):
            left = weakref.ref(file)
            with pytest.warns(ResourceWarning, match="unclosed"):
                del file
            assert left() is None
            await closed_late(path)
    # The number goes before the kernel asks the filesystem: perhaps it has not yet.
    assert calls.held == 0


@pytest.mark.parametrize("mode", ["w+b", "w+"])
async def test_a_temporary_file_that_is_left_open(slow_filesystem: SlowFilesystem, path: Path, mode: str) -> None:
    file: Any = await files.NamedTemporaryFile(mode, dir=path.parent)
    name = Path(file.name)
    with slow_filesystem.slow() as calls:
        async with Ticker(slow_filesystem):
            with pytest.warns(ResourceWarning, match="unclosed"):
                del file
            await closed_late(name)
            while await files.exists(name):
                await asyncio.sleep(TICK_S)
    assert calls.held == 0


async def left_at_the_end(folder: Path) -> Path:
    file: Any = await files.NamedTemporaryFile(dir=folder)
    name = Path(file.name)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del file
    return name


def test_a_temporary_file_that_is_left_when_the_loop_ends(loop: Any, path: Path) -> None:
    name = loop.run_until_complete(left_at_the_end(path.parent))
    close_audited(loop)
    assert not name.exists()


@pytest.mark.parametrize("after_calls", [0.5, 1.5, 2.5])
async def test_an_opening_that_is_cancelled(slow_filesystem: SlowFilesystem, path: Path, after_calls: float) -> None:
    """In its first call, in its second, and in what follows: its late close holds nobody."""

    async def opened() -> files.BinaryFile:
        return await files.open(path, "rb")

    with slow_filesystem.slow() as calls:
        async with Ticker(slow_filesystem):
            opening = asyncio.ensure_future(opened())
            await asyncio.wait([opening], timeout=after_calls * DELAY_S)
            if not opening.cancel():
                await (await opening).close()
            await asyncio.wait([opening])
            # The opening ends after so long at most, and its close after one call more.
            await asyncio.sleep(3 * DELAY_S)
            await closed_late(path)
    assert calls.held == 0


async def test_a_reading_that_is_cancelled(slow_filesystem: SlowFilesystem, path: Path) -> None:
    with slow_filesystem.slow() as calls:
        async with Ticker(slow_filesystem):
            reading = asyncio.ensure_future(files.read_file(path))
            await asyncio.wait([reading], timeout=2.5 * DELAY_S)
            reading.cancel()
            await asyncio.wait([reading])
            await asyncio.sleep(3 * DELAY_S)
            await closed_late(path)
    assert calls.held == 0


@pytest.mark.parametrize("ask", [files.stat, files.exists, files.isfile, files.getsize], ids=lambda ask: ask.__name__)
async def test_the_status_of_a_descriptor(slow_filesystem: SlowFilesystem, path: Path, ask: Any) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        expected: Any = await ask(path)
        # The kernel forgets what it knows of it.
        os.utime(path)
        found: Any = await watched(slow_filesystem, ask(number))
    finally:
        os.close(number)
    if ask is files.stat:
        found, expected = found.st_size, expected.st_size
    assert found == expected
