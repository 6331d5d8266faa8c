"""After a call has returned or raised, its buffer is the program's again.

What it is then filled with is not written, and nothing is read into it any more. Calls × kinds of files × cancelled at
each step, on each engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from oneloop.files import borrowed
from oneloop.files.descriptor import Descriptor
from tests.conftest import cancelled
from tests.file.slow_filesystem import SlowFilesystem

pytestmark = pytest.mark.usefixtures("loop")

SIZE = 2 << 20
# For the local disk, where a transfer must last while its buffer is filled again.
LONG = 4 << 20
STEPS = [1, 2, 8]
OLD, DATA, LATER = b"o", b"d", b"L"


async def written(file: Any, data: Any) -> None:
    await file.write(data)


async def pwritten(file: Any, data: Any) -> None:
    await file.pwrite(data, 0)


async def writev(file: Any, data: Any) -> None:
    half = len(data) // 2
    await file.writev([data[:half], data[half:]], 0)


async def read_into(file: Any, data: Any) -> None:
    await file.readinto(data)


async def readv(file: Any, data: Any) -> None:
    half = len(data) // 2
    await file.readv([data[:half], data[half:]], 0)


Use = Callable[[Any, Any], Coroutine[Any, Any, None]]
WRITES: dict[str, tuple[str, int, Use]] = {
    "write": ("r+b", -1, written),
    "write-unbuffered": ("r+b", 0, written),
    "append": ("ab", 0, written),
    "pwrite": ("r+b", -1, pwritten),
    "writev": ("r+b", -1, writev),
}
READS: dict[str, tuple[str, int, Use]] = {
    "readinto": ("rb", -1, read_into),
    "readinto-unbuffered": ("rb", 0, read_into),
    "readv": ("rb", -1, readv),
}


@pytest.fixture
def length(place: Path, path: Path) -> int:
    """The length of the transfers."""
    return LONG if place == path else SIZE


@pytest.fixture(params=["local", "far"])
def place(request: pytest.FixtureRequest, slow_filesystem: SlowFilesystem, path: Path) -> Path:
    if request.param == "local":
        return path
    for name in os.listdir(slow_filesystem.folder):
        os.unlink(slow_filesystem.folder / name)
    return slow_filesystem.folder / "file"


LATER_VIEW = memoryview(LATER * LONG)


def refill(data: bytearray) -> None:
    """Use the buffer for something else: first its end, which a transfer comes to last."""
    # Assigning to a bytearray would copy the new content first.
    view, half = memoryview(data), len(data) // 2
    view[half:] = LATER_VIEW[half : len(data)]
    view[:half] = LATER_VIEW[:half]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("use", WRITES)
async def test_a_cancelled_write(place: Path, length: int, use: str, steps: int) -> None:
    place.write_bytes(OLD * length)
    mode, buffering, call = WRITES[use]
    data = bytearray(DATA * length)
    file = await files.open(place, mode, buffering)
    # A read-only view of memory that can change is no different.
    view = memoryview(data).toreadonly() if steps % 2 else memoryview(data)
    await cancelled(call(file, view), steps)
    refill(data)
    await file.close()
    assert LATER not in place.read_bytes()


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("use", READS)
async def test_a_cancelled_read(place: Path, length: int, use: str, steps: int) -> None:
    place.write_bytes(OLD * length)
    mode, buffering, call = READS[use]
    data = bytearray(length)
    file = await files.open(place, mode, buffering)
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    await cancelled(call(file, memoryview(data)), steps)
    refill(data)
    await file.close()
    assert data == LATER_VIEW[: len(data)]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("atomic", [False, True])
async def test_a_cancelled_write_of_a_whole_file(
    place: Path, length: int, atomic: bool, is_long: bool, steps: int
) -> None:
    place.write_bytes(OLD)
    data = bytearray(DATA * (length if is_long else 1000))
    await cancelled(files.write_file(place, data, atomic=atomic), steps)
    refill(data)
    await asyncio.sleep(0.05)
    assert LATER not in place.read_bytes()


@pytest.mark.engines_only("the stand-in makes its calls on the loop")
@pytest.mark.parametrize("buffering", [-1, 0])
async def test_a_write_to_a_pipe_that_nobody_reads(path: Path, buffering: int) -> None:
    """CancelledError does not wait for a reader, and what the reader then gets is what was written."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = await files.open(path, "wb", buffering)
    data = bytearray(DATA * SIZE)

    async def fill() -> None:
        # One unbuffered write may take less than all.
        while True:
            await file.write(data)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(fill(), 0.1)
    refill(data)
    closing = asyncio.ensure_future(file.close())
    read = b""
    while not closing.done():
        with contextlib.suppress(BlockingIOError):
            read += os.read(reader, 1 << 20)
        await asyncio.sleep(0.001)
    await closing
    os.close(reader)
    assert set(read) <= set(DATA)


@pytest.mark.engines_only("the stand-in makes its calls on the loop")
async def test_a_timeout_where_the_filesystem_hangs(slow_filesystem: SlowFilesystem) -> None:
    """It does not wait for the filesystem."""
    path = slow_filesystem.folder / "slow"
    path.write_bytes(OLD)
    loop = asyncio.get_running_loop()
    file = await files.open(path, "r+b", 0)
    with slow_filesystem.slow(100.0):
        began_s = loop.time()
        for use, buffer in ((file.write, bytearray(2 * SIZE)), (file.readinto, bytearray(SIZE))):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(use(buffer), 0.1)
        for size in (1000, 2 * SIZE):
            with pytest.raises(TimeoutError):
                await files.write_file(path, bytearray(size), timeout=0.1)
        waited_s = loop.time() - began_s
    await file.close()
    assert waited_s < 50


@pytest.mark.parametrize("use", ["write", "write-unbuffered"])
async def test_more_than_one_piece_is_written_whole(place: Path, use: str) -> None:
    mode, buffering, call = WRITES[use]
    place.write_bytes(b"")
    data = bytearray(os.urandom(borrowed.PIECE_BYTES * 2 + 12345))
    opening: Any = files.open(place, mode, buffering)
    async with opening as file:
        await call(file, data)
        assert await file.tell() == len(data)
        back = bytearray(len(data) + 10)
        await file.seek(0)
        assert await file.readinto(back) == len(data)
    assert place.read_bytes() == data == back[: len(data)]


@pytest.mark.engines_only("the stand-in makes its calls on the loop")
@pytest.mark.parametrize("use", [*WRITES, *READS])
async def test_a_transfer_that_lends_memory_is_waited_for(
    slow_filesystem: SlowFilesystem, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a local filesystem, whose transfers are too fast to be cancelled reliably."""
    monkeypatch.setattr(Descriptor, "lends", True)
    path = slow_filesystem.folder / "lent"
    path.write_bytes(OLD * SIZE)
    mode, buffering, call = (WRITES | READS)[use]
    data = bytearray(DATA * SIZE)
    file = await files.open(path, mode, buffering)
    with slow_filesystem.slow(0.02) as calls:
        task = asyncio.ensure_future(call(file, memoryview(data)))
        await asyncio.sleep(0.05)
        task.cancel()
        while not task.done():
            slow_filesystem.tick()
            await asyncio.sleep(0.002)
        refill(data)
    await file.close()
    assert calls.made > 0
    assert task.cancelled()
    assert LATER not in path.read_bytes()
    assert data == LATER_VIEW[:SIZE]
