"""Engine × kind of file × cancelled at each step: the same values and errors as `open()`, and nothing is lost or left.

The cells that others have: opens of FIFOs (test_fifo.py), buffers of the program (test_borrowed.py), filesystems that
hang (test_hanging_mount.py), long jobs (test_lanes.py), forbidden engines (test_sandboxed.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests import descriptors
from tests.conftest import cancelled
from tests.file.slow_filesystem import mounted

pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.engines_only("the stand-in does no more than `open()`"),
]

CONTENT = bytes(range(256)) * 64
PIECE = 1000
STEPS = range(5)


class Kind:
    """Makes files of one kind; `strike` is what happens to an open one after its first read."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._made: list[Path] = []
        self._left = contextlib.ExitStack()

    def make(self) -> Path:
        if self.name.startswith("/"):
            return Path(self.name)
        path = self._folder / f"file{len(self._made)}"
        self._made.append(path)
        if self.name == "fifo":
            os.mkfifo(path)
            # It has a reader and a writer at any time.
            other = os.open(path, os.O_RDWR)
            self._left.callback(os.close, other)
            os.write(other, CONTENT)
            return path
        path.write_bytes(CONTENT)
        if self.name == "cold":
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def strike(self, path: Path) -> None:
        if self.name == "deleted":
            path.unlink()
        elif self.name == "truncated":
            os.truncate(path, PIECE // 2)

    def end(self) -> None:
        self._left.close()
        for path in self._made:
            path.unlink(missing_ok=True)


KINDS = ["regular", "cold", "fifo", "deleted", "truncated", "fuse"]
KINDS += ["/dev/zero", "/dev/full", "/dev/null", "/proc/version", "/proc/sys/kernel/ostype", "/proc/self/mem", "/tmp"]


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | str]:
    """A folder on a FUSE filesystem, or why there is none."""
    with contextlib.ExitStack() as stack:
        try:
            found: Path | str = stack.enter_context(mounted(tmp_path_factory.mktemp("far"))).folder
        except pytest.skip.Exception as reason:
            found = str(reason)
        yield found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path, far: Path | str) -> Iterator[Kind]:
    folder: Path | str = far if request.param == "fuse" else tmp_path
    if isinstance(folder, str):
        pytest.skip(folder)
    made = Kind(request.param, folder)
    yield made
    made.end()


def described(error: OSError) -> object:
    return type(error), error.errno


@pytest.mark.parametrize("buffering", [0, -1])
async def test_reads_are_as_with_the_built_in(kind: Kind, buffering: int) -> None:
    expected: list[object] = []
    found: list[object] = []
    try:
        with open(path := kind.make(), "rb", buffering=buffering) as plain:
            expected.append(plain.read(PIECE))
            kind.strike(path)
            expected.append(plain.read(PIECE))
    except OSError as error:
        expected.append(described(error))
    try:
        file: Any
        async with files.open(path := kind.make(), "rb", buffering=buffering) as file:
            found.append(await file.read(PIECE))
            kind.strike(path)
            found.append(await file.read(PIECE))
    except OSError as error:
        found.append(described(error))
    assert found == expected


@pytest.mark.parametrize("mode", ["r+b", "wb", "ab"])
async def test_writes_are_as_with_the_built_in(kind: Kind, mode: str) -> None:
    if kind.name in ("/proc/sys/kernel/ostype", "/proc/self/mem"):
        pytest.skip("a write could change this system or this process")
    expected: list[object] = []
    found: list[object] = []
    try:
        with open(kind.make(), mode, buffering=0) as plain:
            expected.append(plain.write(b"x" * PIECE))
    except OSError as error:
        expected.append(described(error))
    try:
        file: Any
        async with files.open(kind.make(), mode, buffering=0) as file:
            found.append(await file.write(b"x" * PIECE))
    except OSError as error:
        found.append(described(error))
    assert found == expected


async def settled(before: dict[int, str]) -> None:
    """Until no operation is under way and no descriptor is left; a test that hangs here has failed."""
    while files.engine_info().operations or len(descriptors.open_descriptors()) > len(before):
        await asyncio.sleep(0.001)


async def used(use: Callable[[Any], Any], path: Path, mode: str) -> Any:
    async with files.open(path, mode, buffering=0) as file:
        return await use(file)


@pytest.mark.parametrize("after", STEPS)
@pytest.mark.parametrize("mode", ["rb", "wb"])
async def test_what_is_cancelled_leaves_nothing(kind: Kind, mode: str, after: int) -> None:
    """Opening, using and closing, cancelled after so many ticks."""
    if mode == "wb" and kind.name.startswith("/proc"):
        pytest.skip("a write could change this system or this process")
    # What the engine itself opens.
    await files.read_file(os.devnull)
    await files.stat(os.devnull)
    path = kind.make()
    before = descriptors.open_descriptors()
    use: Callable[[Any], Any] = (lambda file: file.read(PIECE)) if mode == "rb" else (lambda file: file.write(CONTENT))
    task = asyncio.ensure_future(used(use, path, mode))
    if not (await cancelled(task, after)).cancelled():
        assert task.exception() is None or isinstance(task.exception(), OSError)
    await settled(before)


@pytest.mark.parametrize("after", STEPS)
@pytest.mark.parametrize("buffering", [0, -1])
async def test_a_cancelled_read_loses_nothing(kind: Kind, buffering: int, after: int) -> None:
    """The next read goes on where it was: the data that came meanwhile is not lost, also that of a pipe."""
    if not kind.name.startswith("/proc/v") and kind.name.startswith("/"):
        pytest.skip("a device has no data to lose")
    path = kind.make()
    file: Any
    async with files.open(path, "rb", buffering=buffering) as file:
        expected = path.read_bytes()[: 2 * PIECE] if kind.name != "fifo" else CONTENT[: 2 * PIECE]
        reading = asyncio.ensure_future(file.read(PIECE))
        content = b"" if (await cancelled(reading, after)).cancelled() else reading.result()
        kind.strike(path)
        content += await file.read(PIECE)
        if kind.name == "truncated":
            assert expected.startswith(content)
        else:
            assert content == expected[: len(content)]
            assert len(content) >= min(PIECE, len(expected))
    while files.engine_info().operations:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("mode", ["wb", "r+b", "w"])
@pytest.mark.parametrize("buffering", [0, -1])
async def test_a_file_that_has_a_position_and_writes_nowhere_else(mode: str, buffering: int) -> None:
    """Most writable files of procfs: pwrite(2) fails with ESPIPE."""
    if mode == "w" and not buffering:
        pytest.skip("text is always buffered")
    path = Path(f"/proc/{os.getpid()}/comm")
    before = path.read_text().strip()
    try:
        async with files.open(path, mode, buffering=buffering) as file:
            data: Any = "written" if mode == "w" else b"written"
            assert await file.write(data) == 7
        assert path.read_text() == "written\n"
        assert await files.write_file(path, b"at once") == 7
        assert path.read_text() == "at once\n"
    finally:
        path.write_text(before)
