"""Small existing files: opened for writing, overwritten and closed in short trips to a thread, or without one."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.conftest import settle

pytestmark = pytest.mark.usefixtures("engine")

SMALL = b"x" * 4096


async def opened_and_written(path: Path) -> int:
    async with files.open(path, "wb") as file:
        assert path.read_bytes() == b"", "truncated when it is open"
        assert os.get_blocking(file.fileno())
        return await file.write(SMALL)


async def overwritten(path: Path) -> int:
    return await files.write_file(path, SMALL)


WAYS = pytest.mark.parametrize("write", [opened_and_written, overwritten], ids=lambda write: write.__name__)


@WAYS
@pytest.mark.parametrize("size", [0, 100, 1 << 20, 3 << 20])
async def test_what_was_there_is_replaced(path: Path, write: Any, size: int) -> None:
    path.write_bytes(b"y" * size)
    path.chmod(0o640)
    await files.stat(path)
    for _ in range(3):
        assert await write(path) == len(SMALL)
        assert path.read_bytes() == SMALL
    assert path.stat().st_mode & 0o777 == 0o640


@contextmanager
def leased(path: Path) -> Iterator[None]:
    """A lease: whoever opens the file for writing waits until the signal's handler gives it back."""
    fd = os.open(path, os.O_RDONLY)

    def give_back(*_: object) -> None:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    before = signal.signal(signal.SIGIO, give_back)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        yield
    finally:
        signal.signal(signal.SIGIO, before)
        os.close(fd)


@WAYS
async def test_a_lease_is_waited_for(path: Path, write: Any) -> None:
    path.write_bytes(SMALL)
    await files.stat(path)
    with leased(path):
        assert await asyncio.wait_for(write(path), 60) == len(SMALL)
    assert path.read_bytes() == SMALL


@WAYS
async def test_errors_are_those_of_open(path: Path, write: Any) -> None:
    path.mkdir()
    await files.stat(path)
    with pytest.raises(IsADirectoryError) as raised:
        await write(path)
    assert raised.value.filename in (path, str(path))


@WAYS
@pytest.mark.parametrize(
    ("behind", "kind"), [("/", IsADirectoryError), ("/x", NotADirectoryError), ("-none/", IsADirectoryError)]
)
async def test_a_file_as_a_folder(path: Path, write: Any, behind: str, kind: type[OSError]) -> None:
    path.write_bytes(SMALL)
    name = str(path) + behind
    with pytest.raises(kind):
        open(name, "wb")
    with pytest.raises(kind) as raised:
        await write(name)
    assert raised.value.filename == name
    assert path.read_bytes() == SMALL


@WAYS
async def test_cancelled_at_once(path: Path, write: Any) -> None:
    """Whenever it ends: no descriptor is left (the fixture's audit), and the file is usable."""
    path.write_bytes(SMALL)
    await files.stat(path)
    for steps in range(4):
        task = asyncio.ensure_future(write(path))
        await settle(steps)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert await overwritten(path) == len(SMALL)
    assert path.read_bytes() == SMALL


async def test_many_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(50)]
    for path in paths:
        path.write_bytes(b"y")
    await asyncio.gather(*(write(path) for path in paths for write in (opened_and_written, overwritten)[:1]))
    assert {path.read_bytes() for path in paths} == {SMALL}
    await asyncio.gather(*map(overwritten, paths))
    assert {path.read_bytes() for path in paths} == {SMALL}


async def test_appended_where_the_file_ends(path: Path) -> None:
    path.write_bytes(b"one")
    async with files.open(path, "ab") as file:
        assert await file.tell() == 3
        await file.write(b"two")
        assert await file.tell() == 6
        await file.flush()
        number = file.fileno()
        assert os.lseek(number, 0, os.SEEK_CUR) == 6
    async with files.open(path, "ab") as file:
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 6
    assert path.read_bytes() == b"onetwo"
