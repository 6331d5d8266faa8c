"""FIFOs: looked at before they are opened, so that nobody at the other end is killed or loses what it wrote."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import threading
from pathlib import Path

import pytest

from oneloop import files

MESSAGES = 40

pytestmark = pytest.mark.engines_only("the stand-in opens where it stands")


async def all_of(path: Path, how: str) -> bytes:
    if how == "read_file":
        return await files.read_file(path)
    if how == "read_text":
        return (await files.read_text(path)).encode()
    async with files.open(path, "rb") as file:
        return await file.read()


@pytest.mark.parametrize("how", ["read_file", "read_text", "open"])
async def test_one_reader_after_the_other(engine: str, tmp_path: Path, how: str) -> None:
    """Each reader gets what one writer wrote; looking at the path counts as no reader."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    may_write = threading.Semaphore(1)
    killed: list[int] = []

    def write() -> None:
        for number in range(MESSAGES):
            may_write.acquire()
            try:
                with open(path, "wb", buffering=0) as file:
                    file.write(b"message %d" % number)
            except BrokenPipeError:
                killed.append(number)

    writing = asyncio.get_running_loop().run_in_executor(None, write)
    for number in range(MESSAGES):
        assert await all_of(path, how) == b"message %d" % number
        may_write.release()
    await writing
    assert killed == []


@pytest.mark.parametrize("mode", ["rb", "wb", "r+b"])
async def test_a_cancelled_opening_is_nobody(engine: str, tmp_path: Path, mode: str) -> None:
    """The next one that opens the other end does not meet it."""
    path = tmp_path / "fifo"
    os.mkfifo(path)

    async def opening() -> None:
        async with files.open(path, mode, buffering=0):
            await asyncio.sleep(3600)

    task = asyncio.create_task(opening())
    await asyncio.sleep(0.03)
    task.cancel()
    await asyncio.wait([task])
    for _ in range(200):  # the thread or the kernel hears of it a little later
        await asyncio.sleep(0.005)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as exc:
            if exc.errno != errno.ENXIO:
                raise
            break
    else:
        pytest.fail("a reader is still there")
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for _ in range(200):  # a writer whose end the kernel has not heard of yet meets this reader
            with contextlib.suppress(BlockingIOError):
                assert os.read(reading, 1) == b""
                break
            await asyncio.sleep(0.005)
        else:
            pytest.fail("a writer is still there")
    finally:
        os.close(reading)


async def test_a_writer_that_says_nothing_lets_the_reader_in(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    opening = asyncio.ensure_future(files.open(path, "rb", buffering=0).__aenter__())
    await asyncio.sleep(0.03)
    assert not opening.done()
    writing = await asyncio.get_running_loop().run_in_executor(None, os.open, path, os.O_WRONLY)
    reader = await opening
    os.write(writing, b"hello")
    assert await reader.read(5) == b"hello"
    os.close(writing)
    assert await reader.read(5) == b""
    await reader.close()


async def test_a_reader_lets_the_writer_in(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    opening = asyncio.ensure_future(files.open(path, "wb", buffering=0).__aenter__())
    await asyncio.sleep(0.03)
    assert not opening.done()
    reading = await asyncio.get_running_loop().run_in_executor(None, os.open, path, os.O_RDONLY)
    writer = await opening
    await writer.write(b"hello")
    assert os.read(reading, 10) == b"hello"
    await writer.close()
    assert os.read(reading, 10) == b""
    os.close(reading)


async def test_a_file_that_grows_while_it_is_read(engine: str, tmp_path: Path) -> None:
    """What was looked at and what is opened may differ: read_file takes all there is."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    stop = threading.Event()
    contents = [b"x" * 100, b"y" * 5000, b""]

    def replace() -> None:
        number = 0
        while not stop.is_set():
            other = tmp_path / "other"
            other.write_bytes(contents[number % 3])
            other.rename(path)
            number += 1

    replacing = asyncio.get_running_loop().run_in_executor(None, replace)
    try:
        for _ in range(300):
            assert await files.read_file(path) in contents
    finally:
        stop.set()
        await replacing


async def test_a_write_that_waits_for_its_reader_can_be_cancelled(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        writing = asyncio.ensure_future(files.write_file(path, bytes(1 << 20)))
        await asyncio.get_running_loop().run_in_executor(None, select.select, [reader], [], [])
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert os.read(reader, 4096) == bytes(4096)
    finally:
        os.close(reader)


async def test_a_long_write_comes_whole_and_in_order(engine: str, tmp_path: Path) -> None:
    path, content = tmp_path / "fifo", os.urandom(1 << 20)
    os.mkfifo(path)
    reading = asyncio.ensure_future(files.read_file(path))
    await files.write_file(path, content)
    assert await reading == content
