"""A filesystem that hangs stops the work on itself and no other: many calls on it, of each kind, and local ones."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.file.slow_filesystem import SlowFilesystem

pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.engines_only("the stand-in makes its calls on the loop"),
]

# More than any lane has threads, or the kernel has workers.
CALLS = 24
PROMPTLY_S = 30.0
HANGS_S = 1000.0

Use = Callable[[Path], Coroutine[Any, Any, object]]


async def written(path: Path) -> None:
    await files.write_file(path, b"x")


async def written_much(path: Path) -> None:
    await files.write_file(path, bytes(2 << 20))


async def replaced(path: Path) -> None:
    await files.write_file(path, b"new", atomic=True)


async def created(path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"x")


async def synced(path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"x")
        await file.fsync()


async def copied(path: Path) -> None:
    await files.copyfile(__file__, path)


async def removed(path: Path) -> None:
    await files.makedirs(path)
    await files.rmtree(path)


async def renamed(path: Path) -> None:
    await files.write_file(path, b"x")
    await files.rename(path, f"{path}.new")


async def listed(path: Path) -> None:
    await files.listdir(path.parent)


async def scanned(path: Path) -> None:
    async with files.scandir(path.parent) as entries:
        async for _ in entries:
            pass


async def moded(path: Path) -> None:
    await files.chmod(path.parent, 0o755)


async def looked(path: Path) -> None:
    await files.exists(path)


async def by_pathlib(path: Path) -> None:
    await files.Path(path).mkdir(exist_ok=True)


async def read(path: Path) -> None:
    await files.read_file(path.parent / "there")


USES: dict[str, Use] = {
    use.__name__: use
    for use in (
        written, written_much, replaced, created, synced, copied, removed, renamed, listed, scanned, moded, looked,
        by_pathlib, read,
    )
}  # fmt: skip


@pytest.mark.parametrize("hanging", USES)
async def test_local_work_goes_on(slow_filesystem: SlowFilesystem, tmp_path: Path, hanging: str) -> None:
    for name in os.listdir(slow_filesystem.folder):
        if (slow_filesystem.folder / name).is_file():
            (slow_filesystem.folder / name).unlink()
    for folder in (slow_filesystem.folder, tmp_path):
        (folder / "there").write_bytes(b"x")
    late: list[str] = []
    with slow_filesystem.slow(HANGS_S):
        hung = [
            asyncio.ensure_future(USES[hanging](slow_filesystem.folder / f"{hanging}{number}"))
            for number in range(CALLS)
        ]
        await asyncio.sleep(0.05)
        for name, use in USES.items():
            task = asyncio.ensure_future(use(tmp_path / name))
            await asyncio.wait([task], timeout=PROMPTLY_S)
            if not task.done():
                late.append(name)
                break
            task.result()
        is_hanging = not any(task.done() for task in hung)
    await asyncio.gather(*hung, return_exceptions=True)
    if late:
        await asyncio.wait([task])
    assert is_hanging
    assert not late


async def test_an_open_file_that_hangs(slow_filesystem: SlowFilesystem, tmp_path: Path) -> None:
    """Reads of open files, which the ring executes."""
    path = slow_filesystem.folder / "there"
    path.write_bytes(bytes(1 << 20))
    opened: list[Any] = [await files.open(path, "r+b") for _ in range(CALLS)]
    with slow_filesystem.slow(HANGS_S):
        hung = [asyncio.ensure_future(file.fsync()) for file in opened]
        await asyncio.sleep(0.05)
        task = asyncio.ensure_future(synced(tmp_path / "file"))
        await asyncio.wait([task], timeout=PROMPTLY_S)
        is_prompt = task.done()
    await asyncio.gather(*hung, task)
    for file in opened:
        await file.close()
    assert is_prompt
