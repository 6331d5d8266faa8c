"""Binary files: failing writes, the end, and what a buffer does to either."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.conftest import settle
from tests.file.stand_in import StandIn

pytestmark = pytest.mark.usefixtures("loop")


# -- failing writes ----------------------------------------------------------------------------------


async def test_a_full_disk_is_told_and_nothing_is_forgotten() -> None:
    """What is told when is io's way: at each flush, and at close, which closes."""
    with open("/dev/full", "wb") as model:
        file = await files.open("/dev/full", "wb")
        for target in (model, file):
            assert await outcome(target.write(b"x" * 100)) == 100
            for _ in range(2):
                with pytest.raises(OSError, match="No space left"):
                    await outcome(target.flush())
            with pytest.raises(OSError, match="No space left"):
                await outcome(target.write(b"y" * 1_000_000))
            with pytest.raises(OSError, match="No space left"):
                await outcome(target.close())
            assert target.closed
            await outcome(target.close())


async def outcome(result: Any) -> Any:
    return await result if asyncio.iscoroutine(result) else result


async def test_a_failed_flush_keeps_what_it_could_not_write(held: StandIn, path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"0123456789")
        held.limit_bytes = 4
        await file.flush()
        await file.write(b"abc")
        held.faults["write"] = [OSError(errno.EIO, "broken")]
        with pytest.raises(OSError, match="broken"):
            await file.flush()
        assert await file.tell() == 13
        await file.write(b"def")
    assert path.read_bytes() == b"0123456789abcdef"


async def test_a_read_that_cannot_write_before_gives_the_turn_back(held: StandIn, path: Path) -> None:
    async with files.open(path, "w+b") as file:
        await file.write(b"pending")
        held.faults["write"] = [OSError(errno.ENOSPC, "full")]
        with pytest.raises(OSError, match="full"):
            await file.read()
        await file.seek(0)
        assert await file.read() == b"pending"


# -- the end -----------------------------------------------------------------------------------------


async def test_close_is_shielded_and_happens_once(held: StandIn, path: Path) -> None:
    file = await files.open(path, "wb")
    await file.write(b"x" * 10)
    held.mode = "held"
    closing = [asyncio.ensure_future(file.close()) for _ in range(3)]
    await settle()
    closing[0].cancel()
    await settle()
    assert closing[0].cancelled()
    for _ in range(3):
        held.release()
        await settle()
    await asyncio.gather(*closing[1:])
    assert held.log.count("close") == 1
    assert path.read_bytes() == b"x" * 10
    await file.close()


async def test_the_number_stays_open_until_the_last_operation(held: StandIn, path: Path) -> None:
    path.write_bytes(b"x" * 10)
    file = await files.open(path, "rb")
    held.mode = "held"
    reading = asyncio.ensure_future(file.pread(10, 0))
    await settle()
    reading.cancel()
    closing = asyncio.ensure_future(file.close())
    await settle()
    assert "close" not in held.log
    held.mode = "now"
    held.release()
    await closing
    assert held.log[-2:] == ["read", "close"]


async def test_a_failing_close_is_told(held: StandIn, path: Path) -> None:
    for mode in ("now", "later"):
        file = await files.open(path, "wb")
        number = file.handle.number
        held.mode = mode
        held.faults["close"] = [OSError(errno.EIO, "late news")]
        with pytest.raises(OSError, match="late news"):
            await file.close()
        assert file.closed
        held.mode = "now"
        os.close(number)


@pytest.mark.parametrize("buffering", [-1, 0])
async def test_a_closed_file_says_so(path: Path, buffering: int) -> None:
    file: Any = await files.open(path, "w+b", buffering)
    await file.close()
    await file.close()
    for name, arguments in {
        "read": (),
        "readall": (),
        "readline": (),
        "readlines": (),
        "readinto": (bytearray(1),),
        "write": (b"x",),
        "writelines": ([b"x"],),
        "seek": (0,),
        "tell": (),
        "truncate": (),
        "flush": (),
        "fsync": (),
        "fdatasync": (),
        "pread": (1, 0),
        "pwrite": (b"x", 0),
        "readv": ([bytearray(1)], 0),
        "writev": ([b"x"], 0),
    }.items():
        with pytest.raises(ValueError, match="I/O operation on closed file"):
            await getattr(file, name)(*arguments)
    for name in ("fileno", "isatty", "readable", "writable", "seekable", "__aiter__"):
        with pytest.raises(ValueError, match="I/O operation on closed file"):
            getattr(file, name)()
    with pytest.raises(ValueError, match="I/O operation on closed file"):
        async with file:
            pass


async def test_syncing(path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"x")
        await file.fsync()
        assert path.read_bytes() == b"x"
        await file.write(b"y")
        await file.fdatasync()
        assert path.read_bytes() == b"xy"


@pytest.mark.parametrize("wrong", ["text", 3, None])
async def test_what_is_not_bytes_is_refused(path: Path, wrong: Any) -> None:
    async with files.open(path, "w+b") as file:
        with pytest.raises(TypeError, match="a bytes-like object is required, not"):
            await file.write(wrong)
        with pytest.raises(TypeError, match=r"readinto\(\) argument must be read-write bytes-like object, not"):
            await file.readinto(wrong)
        with pytest.raises(TypeError, match="not bytes"):
            await file.readinto(b"xyz")  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("size", [3, 4, 5, 8, 9])
async def test_what_fills_the_buffer_goes_when_open_lets_it_go(path: Path, engine: str, before: int, size: int) -> None:
    theirs = path.with_name("model")
    with theirs.open("ab", 4) as model:
        model.write(b"a" * before)
        model.write(b"b" * size)
        async with files.open(path, "ab", 4) as file:
            await file.write(b"a" * before)
            await file.write(b"b" * size)
            assert path.stat().st_size == theirs.stat().st_size
            assert await file.tell() == model.tell()


@pytest.mark.parametrize("reader", ["read", "readline", "peek"])
async def test_what_a_finished_pwrite_has_written_is_read(path: Path, reader: str) -> None:
    """Whatever was read ahead before it or while it went on."""
    old, new = b"old line\n" * 2000, b"new line\n" * 2000
    for steps in range(8):
        path.write_bytes(old)
        async with files.open(path, "r+b") as file:
            first = await file.readline()
            writing = asyncio.create_task(file.pwrite(new, 0))
            await settle(steps)
            got = b"" if reader == "peek" else await getattr(file, reader)(9)
            if reader == "peek":
                await file.peek(9)
            assert await writing == len(new)
            assert (first, got in (b"", old[:9], new[:9])) == (old[:9], True)
            assert await file.read() == new[9 + len(got) :], steps


async def test_what_a_pwrite_made_old_is_forgotten_once_the_turn_is_free(held: StandIn, path: Path) -> None:
    path.write_bytes(b"old line\n" * 2)
    async with files.open(path, "r+b") as file:
        assert await file.readline() == b"old line\n"
        held.mode = "held"
        writing = asyncio.ensure_future(file.pwrite(b"new line\n", 9))
        await settle()
        held.mode = "now"
        assert file.handle.take_turn()
        held.release()
        assert await writing == 9
        await settle()
        file.handle.leave()
        await settle()
        assert await file.readline() == b"new line\n"


@pytest.mark.parametrize(("mode", "buffering"), [("rb", -1), ("r", -1), ("rb", 0)])
@pytest.mark.parametrize("hint", [-1, 0, 1, 5, 6, 7, 11, 12, 13, 100, None])
async def test_readlines_stops_where_open_does(path: Path, mode: str, buffering: int, hint: int | None) -> None:
    path.write_bytes(b"first\nsecond\nthird\n" * 2)
    with open(path, mode, buffering) as model:
        expected = model.readlines(hint) if hint is not None else model.readlines()
        rest = model.read()
    async with files.open(path, mode, buffering) as file:
        assert await file.readlines(hint) == expected
        assert await file.read() == rest
