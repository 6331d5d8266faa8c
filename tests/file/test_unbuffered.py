"""Binary files without a buffer: after a cancelled call, and where a transfer takes only a part."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.conftest import settle
from tests.file.stand_in import StandIn

TEXT = b"abcdefgh\nijk\n"


async def cancelled_while_held(held: StandIn, call: Awaitable[Any]) -> None:
    """Cancel a call whose transfer is under way; then that happens."""
    held.mode = "held"
    task = asyncio.ensure_future(call)
    await settle()
    task.cancel()
    await settle()
    held.mode = "now"
    held.release()
    await asyncio.wait([task])
    assert task.cancelled()
    await settle()


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_of_a_cancelled_write_comes_behind_a_later_one(held: StandIn, path: Path, fails: bool) -> None:
    async with files.open(path, "wb", 0) as file:
        held.limit_bytes = 3
        if fails:
            held.faults["write"] = [OSError(errno.ENOSPC, "full")]
        await cancelled_while_held(held, file.write(b"AAAAAA"))
        held.limit_bytes = None
        written = b"" if fails else b"AAA"
        assert await file.tell() == len(written)
        assert await file.write(b"B") == 1
    assert path.read_bytes() == written + b"B"


async def read(file: Any) -> bytes:
    return bytes(await file.read(4))


async def readinto(file: Any) -> bytes:
    buffer = bytearray(4)
    return bytes(buffer[: await file.readinto(buffer)])


async def readline(file: Any) -> bytes:
    return bytes(await file.readline())


async def write(file: Any) -> bytes:
    await file.write(b"X")
    await file.seek(0)
    return bytes(await file.read(4))


NEXT: dict[Callable[[Any], Awaitable[bytes]], bytes] = {
    read: b"abcd", readinto: b"abcd", readline: b"abcdefgh\n", write: b"Xbcd",
}  # fmt: skip


@pytest.mark.parametrize("call", NEXT, ids=lambda call: call.__name__)
@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("size", [4, -1])
async def test_a_cancelled_read_has_read_nothing(
    held: StandIn, path: Path, call: Callable[[Any], Awaitable[bytes]], is_shared: bool, size: int
) -> None:
    path.write_bytes(TEXT)
    async with files.open(os.open(path, os.O_RDWR) if is_shared else path, "r+b", 0) as file:
        held.limit_bytes = 6
        if size < 0:
            # It has a part, and is cancelled while it waits for the next one.
            reading = asyncio.ensure_future(file.read())
            held.mode = "held"
            await settle()
            while held.log.count("read") < 2:
                held.release(1)
                await settle()
            reading.cancel()
            await settle()
            held.mode = "now"
            held.release()
            await asyncio.wait([reading])
            await settle()
        else:
            await cancelled_while_held(held, file.read(size))
        held.limit_bytes = None
        assert await file.tell() == 0
        assert await call(file) == NEXT[call]


async def test_a_file_is_read_and_written_whole_though_its_system_takes_parts(held: StandIn, path: Path) -> None:
    path.write_bytes(TEXT)
    held.limit_bytes = 4
    async with files.open(path, "r+b", 0) as file:
        assert await file.read(len(TEXT)) == TEXT
        assert await file.read(4) == b""
        await file.seek(2)
        assert await file.read(100) == TEXT[2:]
        await file.seek(0)
        buffer = bytearray(100)
        assert await file.readinto(buffer) == len(TEXT)
        assert buffer[: len(TEXT)] == TEXT
        assert await file.write(TEXT) == len(TEXT)
        assert await file.tell() == 2 * len(TEXT)
    assert path.read_bytes() == 2 * TEXT


async def test_a_close_whose_task_was_cancelled_can_be_repeated(held: StandIn, path: Path) -> None:
    file = await files.open(path, "wb", 0)
    number = file.fileno()
    held.mode = "held"
    writing = asyncio.ensure_future(file.write(b"A"))
    await settle()
    closing = asyncio.ensure_future(file.close())
    await settle()
    # As the end of a loop cancels all tasks.
    assert file.handle.closing is not None
    file.handle.closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    held.mode = "now"
    held.release()
    await writing
    await file.close()
    assert not Path(f"/proc/self/fd/{number}").exists()
    assert path.read_bytes() == b"A"


async def test_a_write_that_fails_behind_a_part_tells_the_part(held: StandIn, path: Path) -> None:
    async with files.open(path, "wb", 0) as file:
        held.limit_bytes = 4
        fail_after(held, 1, "write")
        assert await file.write(TEXT) == 4
        assert await file.tell() == 4
    assert path.read_bytes() == TEXT[:4]


@pytest.mark.parametrize("call", ["read", "readinto"])
async def test_a_read_that_fails_behind_a_part_gives_the_part(held: StandIn, path: Path, call: str) -> None:
    path.write_bytes(TEXT)
    async with files.open(path, "rb", 0) as file:
        held.limit_bytes = 4
        fail_after(held, 1, "read")
        buffer = bytearray(len(TEXT))
        if call == "read":
            assert await file.read(len(TEXT)) == TEXT[:4]
        else:
            assert await file.readinto(buffer) == 4
            assert buffer[:4] == TEXT[:4]
        assert await file.tell() == 4
        # It failed only once.
        assert await file.read(4) == TEXT[4:8]


def fail_after(held: StandIn, count: int, failing: str) -> None:
    """Let so many calls succeed; the next one fails."""
    act = held._act

    def counting(name: str, operation: Callable[[], Any]) -> Any:
        nonlocal count
        if name == failing:
            count -= 1
            if count == -1:
                raise OSError(errno.ENOSPC, "full")
        return act(name, operation)

    held._act = counting  # type: ignore[method-assign]
