"""Many files at once: what is cached never sees an engine; what is not never uses up the process's descriptors."""

from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path

import pytest

from oneloop import files
from tests import programs

pytestmark = pytest.mark.engines_only("the stand-in makes its calls on the loop")


@pytest.mark.parametrize("size", [100, 4000, 100_000])
async def test_cached_files_need_no_engine(engine: str, loop: asyncio.AbstractEventLoop, path: Path, size: int) -> None:
    """Read at once, or in the next ticks out of the cache."""
    paths = [path.with_name(f"file{number}") for number in range(24)]
    for number, each in enumerate(paths):
        each.write_bytes(bytes([number]) * size)
        each.read_bytes()
    seen: list[tuple[int, int]] = []

    def look() -> None:
        info = files.engine_info()
        seen.append((info.operations, info.threads))

    async def one(number: int) -> None:
        look()
        assert await files.read_file(paths[number]) == bytes([number]) * size
        look()

    async def watch() -> None:
        while True:
            look()
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch())
    for _ in range(20):
        await asyncio.gather(*(one(number) for number in range(24)))
    watching.cancel()
    await asyncio.wait([watching])
    assert set(seen) == {(0, 0)}


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
import oneloop
from oneloop import files
FOLDER = {folder!r}
COUNT, SIZE = 5000, 700

def name(number):
    return os.path.join(FOLDER, str(number))

def content(number):
    return str(number).encode() * (SIZE // len(str(number)))

for number in range(COUNT):
    with open(name(number), "wb") as file:
        file.write(content(number))
if not {is_cached}:
    os.sync()
    for number in range(COUNT):
        fd = os.open(name(number), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
fifos = [os.path.join(FOLDER, "fifo%d" % number) for number in range({fifos})]
for fifo in fifos:
    os.mkfifo(fifo)

async def main():
    files.use_engine({engine!r})
    waiting = [asyncio.ensure_future(files.read_file(fifo)) for fifo in fifos]
    found = await asyncio.gather(*(files.{function}(name(number)) for number in range(COUNT)))
    decode = bytes.decode if {function!r} == "read_text" else bytes
    wrong = [number for number in range(COUNT) if found[number] != decode(content(number))]
    assert not wrong, wrong
    assert not [task for task in waiting if task.done()]
    for task in waiting:
        task.cancel()
    if waiting:
        done, pending = await asyncio.wait(waiting, timeout=60)
        assert not pending and all(task.cancelled() for task in waiting)

before = len(os.listdir("/proc/self/fd"))
oneloop.run(main())
assert len(os.listdir("/proc/self/fd")) == before
print("done")
"""


@pytest.mark.parametrize("function", ["read_file", "read_text"])
@pytest.mark.parametrize("fifos", [0, 3])
@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.time_limit(180)
def test_more_files_than_descriptors(
    engine: str, loop: asyncio.AbstractEventLoop, tmp_path: Path, is_cached: bool, fifos: int, function: str
) -> None:
    """`loop` skips the test where the kernel has no such engine."""
    body = LIMITED.format(folder=str(tmp_path), is_cached=is_cached, fifos=fifos, engine=engine, function=function)
    assert programs.run_ok("oneloop", textwrap.dedent(body), limit_s=40.0) == "done\n"
