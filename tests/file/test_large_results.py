"""A large regular file: one buffer, which a thread or the kernel fills, and nothing of it after a cancellation."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from oneloop import files
from tests.conftest import cancelled
from tests.file.turns import HeldUpError, Turns, measured

pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.engines_only("the stand-in reads on the loop's thread"),
]

SIZE = 32 << 20
CONTENT = os.urandom(1 << 20) * 32
HEAD = 10

Read = Callable[[Path], Coroutine[Any, Any, bytes]]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "file"
    path.write_bytes(CONTENT)
    return path


async def whole(path: Path) -> bytes:
    return await files.read_file(path)


async def buffered(path: Path) -> bytes:
    async with files.open(path, "rb") as file:
        return await file.read()


async def after_its_head(path: Path) -> bytes:
    async with files.open(path, "rb") as file:
        head = await file.read(HEAD)
        assert head == CONTENT[:HEAD]
        return await file.read()


async def unbuffered(path: Path) -> bytes:
    async with files.open(path, "rb", buffering=0) as file:
        return await file.read()


async def at_an_offset(path: Path) -> bytes:
    async with files.open(path, "rb") as file:
        return await file.pread(SIZE, 0)


async def opened_direct(path: Path) -> Any:
    try:
        return await files.open(path, "rb", direct=True)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pytest.skip("this filesystem has no O_DIRECT")


async def direct(path: Path) -> bytes:
    async with await opened_direct(path) as file:
        content: bytes = await file.read()
        return content


async def direct_at_an_offset(path: Path) -> bytes:
    async with await opened_direct(path) as file:
        content: bytes = await file.pread(SIZE, 0)
        return content


READS: list[Read] = [whole, buffered, after_its_head, unbuffered, at_an_offset, direct, direct_at_an_offset]


def copying_s() -> float:
    """What it costs a thread to join two halves of such a result."""
    halves = [CONTENT[: SIZE // 2], CONTENT[SIZE // 2 :]]
    began_s = thread_time()
    b"".join(halves)
    return thread_time() - began_s


@pytest.mark.parametrize("read", READS)
@measured
async def test_the_loops_thread_copies_nothing(large: Path, read: Read) -> None:
    control_s = copying_s()
    turns = Turns()
    content = await turns.beside(read(large))
    assert content == CONTENT[-len(content) :]
    if not max(turns.gaps_s) < control_s / 2:
        raise HeldUpError(f"{turns}; copying it takes {control_s * 1e3:.1f} ms")


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start(1)
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("read", READS)
async def test_its_memory_is_needed_once(large: Path, read: Read) -> None:
    tracemalloc.reset_peak()
    content = await read(large)
    assert len(content) >= SIZE - HEAD
    _, peak = tracemalloc.get_traced_memory()
    assert peak < 1.5 * SIZE


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.parametrize("head", [0, HEAD])
@pytest.mark.parametrize("after", range(4))
async def test_a_cancelled_read_loses_nothing(large: Path, head: int, after: int, is_direct: bool) -> None:
    # What is not aligned, direct I/O refuses.
    head *= 4096 if is_direct else 1
    file = await opened_direct(large) if is_direct else await files.open(large, "rb")
    async with file:
        assert await file.read(head) == CONTENT[:head]
        before, _ = tracemalloc.get_traced_memory()
        reading = await cancelled(file.read(), after)
        if not reading.cancelled():
            assert reading.result() == CONTENT[head:]
            return
        # Its traceback has the future, perhaps with a result that came in the same tick.
        del reading
        assert await file.tell() == head
        while files.engine_info().operations:
            await asyncio.sleep(0.001)
        gc.collect()
        now, _ = tracemalloc.get_traced_memory()
        assert now - before < SIZE // 4, "the buffer is not freed"
        assert await file.read() == CONTENT[head:]


async def test_a_direct_read_whose_end_is_not_aligned(large: Path) -> None:
    """The kernel refuses it, however long it is."""
    async with await opened_direct(large) as file:
        number = file.fileno()
        odd = SIZE - 100
        try:
            os.preadv(number, [files.aligned_buffer(4096)[:100]], 0)
        except OSError as exc:
            expected: int | None = exc.errno
        else:
            expected = None
        for size in (100, odd):
            try:
                content = await file.pread(size, 0)
            except OSError as exc:
                found: int | bytes | None = exc.errno
            else:
                found = content
            assert found == (CONTENT[:size] if expected is None else expected)


async def test_a_direct_file_is_closed_while_it_is_read(large: Path) -> None:
    """Its number is not released before the read has ended."""
    file = await opened_direct(large)
    reading = asyncio.ensure_future(file.pread(SIZE, 0))
    await asyncio.sleep(0)
    await file.close()
    await asyncio.wait([reading])
    if reading.exception() is None:
        assert reading.result() == CONTENT
    else:
        assert isinstance(reading.exception(), ValueError)
