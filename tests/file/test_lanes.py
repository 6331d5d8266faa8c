"""What is short never stands behind what is long: beside long jobs, and more of them that wait, all else goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests import descriptors, programs

pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.engines_only("the stand-in has no threads"),
]

JOBS = 6
"""More than there are threads for long jobs."""
PROMPTLY_S = 30.0
"""What waits for the jobs waits until they are released, which comes behind that."""
LONG_BYTES = 64 << 20

Use = Callable[[Path], Coroutine[Any, Any, object]]


class LongJobs:
    """Copies of trees that wait until `release` is set, each in its first file."""

    def __init__(self, folder: Path) -> None:
        self.release = threading.Event()
        self.begun = threading.Semaphore(0)
        self._folder = folder
        self._source = folder / "source"
        self._source.mkdir()
        (self._source / "file").write_bytes(b"x")

    def _copy(self, src: Any, dst: Any, *, follow_symlinks: bool = True) -> Any:
        self.begun.release()
        assert self.release.wait(100)
        return dst

    def start(self, name: str, **options: Any) -> Coroutine[Any, Any, Any]:
        return files.copytree(self._source, self._folder / name, copy_function=self._copy, **options)


@contextlib.asynccontextmanager
async def under_way(folder: Path) -> AsyncIterator[LongJobs]:
    """So many jobs are under way, or wait for a thread, that the next one waits."""
    # From now on it is known that the filesystem is local.
    await files.stat(folder)
    jobs = LongJobs(folder)
    tasks = [asyncio.ensure_future(jobs.start(f"copy{number}")) for number in range(JOBS)]
    try:
        # As many as there are threads for have begun.
        while not jobs.begun.acquire(blocking=False):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        yield jobs
    finally:
        jobs.release.set()
        await asyncio.gather(*tasks)
    assert sorted(name for name in os.listdir(folder) if name.startswith("copy")) == [
        f"copy{number}" for number in range(JOBS)
    ]


def forget(path: Path) -> None:
    """Out of the page cache with it."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(number)


# -- what goes on -----------------------------------------------------------------------------------------


async def size_of(path: Path) -> object:
    return (await files.stat(path)).st_size


async def synced(path: Path) -> object:
    async with files.open(path, "r+b") as file:
        await file.write(b"new")
        await file.fsync()
    return path.stat().st_size


async def appended(path: Path) -> object:
    async with files.open(path, "ab") as file:
        await file.write(b"new")
        await file.flush()
    return path.stat().st_size


async def line_appended(path: Path) -> object:
    async with files.open(path, "a", buffering=1) as file:
        await file.write("new\n")
    return path.stat().st_size


async def folder_made(path: Path) -> object:
    await files.mkdir(path.with_name("folder"))
    return path.with_name("folder").is_dir()


async def listed(path: Path) -> object:
    return "big" in await files.listdir(path.parent)


async def renamed(path: Path) -> object:
    await files.rename(path, path.with_name("renamed"))
    return path.exists()


async def removed(path: Path) -> object:
    await files.unlink(path)
    return path.exists()


async def size_read(path: Path) -> object:
    return len(await files.read_file(path))


async def forgotten_and_read(path: Path) -> object:
    forget(path)
    return len(await files.read_file(path))


async def text_read(path: Path) -> object:
    return len(await files.read_text(path, encoding="utf-8"))


async def text_read_opened(path: Path) -> object:
    async with files.open(path, encoding="utf-8") as file:
        return len(await file.read())


async def replaced(path: Path) -> object:
    await files.write_file(path, b"new", atomic=True)
    return path.read_bytes()


async def copied(path: Path) -> object:
    await files.copyfile(path, path.with_name("other"))
    return path.with_name("other").stat().st_size


async def rewritten(path: Path) -> object:
    return await files.write_file(path, bytes(path.stat().st_size))


async def opened_and_rewritten(path: Path) -> object:
    async with files.open(path, "wb") as file:
        await file.write(b"x" * 300_000)
    return path.stat().st_size


async def scanned(path: Path) -> object:
    async with files.scandir(path.parent) as entries:
        return "big" in [entry.name async for entry in entries]


async def walked(path: Path) -> object:
    return [names async for _, _, names in files.walk(path.parent / "source")]


async def watched(path: Path) -> object:
    async with files.watch(path.parent, recursive=True):
        return True


async def tree_removed(path: Path) -> object:
    path.with_name("folder").mkdir()
    await files.rmtree(path.with_name("folder"))
    return path.with_name("folder").exists()


SMALL_BYTES, BIG_BYTES = 4000, 2 << 20
# The files' size, and what using it gives.
USES: dict[str, tuple[Use, int, object]] = {
    "stat": (size_of, SMALL_BYTES, SMALL_BYTES),
    "fsync": (synced, SMALL_BYTES, SMALL_BYTES),
    "append-flush": (appended, SMALL_BYTES, SMALL_BYTES + 3),
    "append-line": (line_appended, SMALL_BYTES, SMALL_BYTES + 4),
    "mkdir": (folder_made, SMALL_BYTES, True),
    "listdir": (listed, SMALL_BYTES, True),
    "rename": (renamed, SMALL_BYTES, False),
    "unlink": (removed, SMALL_BYTES, False),
    "write_file": (rewritten, SMALL_BYTES, SMALL_BYTES),
    "atomic": (replaced, SMALL_BYTES, b"new"),
    "scandir": (scanned, SMALL_BYTES, True),
    "walk": (walked, SMALL_BYTES, [["file"]]),
    "watch": (watched, SMALL_BYTES, True),
    "rmtree": (tree_removed, SMALL_BYTES, False),
    "read_file": (forgotten_and_read, SMALL_BYTES, SMALL_BYTES),
    "write": (opened_and_rewritten, SMALL_BYTES, 300_000),
    "read_text-longer": (text_read, 100_000, 100_000),
    "open-read-text-longer": (text_read_opened, 100_000, 100_000),
    "read_file-longer": (size_read, BIG_BYTES, BIG_BYTES),
    "read_file-longer-uncached": (forgotten_and_read, BIG_BYTES, BIG_BYTES),
    "write_file-longer": (rewritten, BIG_BYTES, BIG_BYTES),
    "unlink-longer": (removed, BIG_BYTES, False),
}


@pytest.mark.parametrize(("use", "size", "expected"), USES.values(), ids=USES)
async def test_beside_long_jobs(path: Path, use: Use, size: int, expected: object) -> None:
    path.write_bytes(b"x" * size)
    path.with_name("big").write_bytes(b"")
    async with under_way(path.parent) as jobs:
        task = asyncio.ensure_future(use(path))
        await asyncio.wait([task], timeout=PROMPTLY_S)
        is_prompt = task.done()
        jobs.release.set()
        assert await task == expected
    assert is_prompt


# -- jobs that wait for a thread --------------------------------------------------------------------------


async def test_a_timeout_in_the_queue(path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with under_way(path.parent) as jobs:
        began_s = loop.time()
        with pytest.raises(TimeoutError):
            await jobs.start("late", timeout=0.1)
        assert loop.time() - began_s < PROMPTLY_S
    await asyncio.sleep(0.05)
    # under_way() has looked at what there is, too.
    assert not (path.parent / "late").exists()


async def test_a_cancellation_in_the_queue(path: Path) -> None:
    async with under_way(path.parent) as jobs:
        task = asyncio.ensure_future(jobs.start("late"))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task], timeout=PROMPTLY_S)
        assert task.cancelled()
    await asyncio.sleep(0.05)
    assert not (path.parent / "late").exists()


async def test_atomic_replacement_is_cancelled_in_the_queue(path: Path) -> None:
    path.write_bytes(b"old")
    async with under_way(path.parent):
        with pytest.raises(TimeoutError):
            # As long as a copy, with which it waits.
            await files.write_file(path, bytes(BIG_BYTES), atomic=True, timeout=0.1)
    await asyncio.sleep(0.05)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_long_write_is_cancelled_in_the_queue(path: Path, is_there: bool) -> None:
    """It has not begun: the file is as it was, or is not there."""
    if is_there:
        path.write_bytes(b"old")
    data = bytes(LONG_BYTES)
    async with under_way(path.parent):
        # So many that they wait, whoever else has the threads.
        first = [asyncio.ensure_future(files.write_file(path.with_name(f"first{n}"), data)) for n in range(8)]
        await asyncio.sleep(0)
        task = asyncio.ensure_future(files.write_file(path, data))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=PROMPTLY_S)
        assert task.cancelled()
    await asyncio.gather(*first)
    await asyncio.sleep(0.05)
    assert path.exists() == is_there
    assert not is_there or path.read_bytes() == b"old"


@pytest.mark.parametrize("way", ["read_file", "read", "pread"])
async def test_a_long_read_is_cancelled_in_the_queue(path: Path, way: str) -> None:
    """Whoever gives up does not wait for those that are before it."""
    path.write_bytes(bytes(BIG_BYTES))

    async def read_opened() -> None:
        async with files.open(path, "rb") as file:
            await (file.read() if way == "read" else file.pread(BIG_BYTES, 0))

    async with under_way(path.parent) as jobs:
        task = asyncio.ensure_future(files.read_file(path) if way == "read_file" else read_opened())
        await asyncio.sleep(0.05)
        # Some engines have read it beside the jobs.
        task.cancel()
        await asyncio.wait([task], timeout=PROMPTLY_S)
        is_prompt = task.done()
        jobs.release.set()
        await asyncio.wait([task])
    assert is_prompt


# -- threads and descriptors -------------------------------------------------------------------------------


async def test_threads_for_appending(path: Path) -> None:
    async with files.open(path, "ab") as file:
        before = descriptors.open_descriptors()
        for number in range(200):
            await file.write(b"%3d\n" % number)
            await file.flush()
            assert files.engine_info().threads <= 6
        assert descriptors.opened_since(before) == {}
    assert path.read_bytes() == b"".join(b"%3d\n" % number for number in range(200))


async def test_threads_for_many_at_once(path: Path) -> None:
    """As many as the lanes are wide, however much is asked for."""

    async def used(number: int) -> None:
        own = path.with_name(f"own{number}")
        assert await files.write_file(own, b"%d" % number) == len(str(number))
        assert (await files.stat(own)).st_size == len(str(number))
        async with files.open(own, "ab") as file:
            await file.write(b"!")
            await file.fsync()
        assert await files.read_file(own) == b"%d!" % number

    # 4 near, 8 far, 4 long.
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, files.engine_info().threads)
            await asyncio.sleep(0.001)

    watching = asyncio.ensure_future(watch())
    await asyncio.gather(*(used(number) for number in range(200)))
    watching.cancel()
    await asyncio.wait([watching])
    assert most <= 16


def test_few_calls_are_not_looked_at() -> None:
    """Finding out on which mount a call works costs three system calls: only where threads could run out."""
    body = """
    from tests.seccomp import forbid
    from oneloop import files
    async def main():
        there = await files.listdir("/proc/self")
        try:
            forbid("openat2", is_fatal=True)
        except OSError as exc:
            print("no seccomp:", exc)
            return
        for _ in range(20):
            await files.listdir("/proc/self")
            await asyncio.gather(*(files.listdir("/proc/self") for _ in range(3)))
        print("unasked", flush=True)
        await asyncio.gather(*(files.listdir("/proc/self") for _ in range(50)))
    new_loop().run_until_complete(main())
    """
    done = programs.run("oneloop", body)
    if "no seccomp" in done.stdout:
        pytest.skip("seccomp filters are not available here")
    assert done.stdout == "unasked\n", done.stderr
    assert done.returncode == -signal.SIGSYS
