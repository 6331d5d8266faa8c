"""Files. The sources are in `records/files.toml`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oneloop import files
from tests import descriptors
from tests.conftest import cancelled

ENDS = ["normal", "closed before", "exception", "cancelled"]


@pytest.fixture
def loop_name() -> str:
    """`oneloop.files` has no stock variant."""
    return "oneloop"


@pytest.mark.parametrize("end", ENDS)
async def test_a_temporary_file_that_is_kept_until_the_end_of_its_block(end: str) -> None:
    names: list[str] = []

    async def use() -> None:
        async with files.NamedTemporaryFile(delete_on_close=False) as file:
            names.append(str(file.name))
            if end == "closed before":
                await file.close()
                assert Path(names[0]).exists()
            if end == "exception":
                raise LookupError
            if end == "cancelled":
                await asyncio.Event().wait()

    task = asyncio.ensure_future(use())
    while not names:
        await asyncio.sleep(0)
    if end == "cancelled":
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() == (end == "cancelled")
    if not task.cancelled():
        assert isinstance(task.exception(), LookupError) == (end == "exception")
    assert not Path(names[0]).exists()


async def test_the_cleanup_of_a_temporary_directory_is_not_cut() -> None:
    """Called by a task that is cancelled already: it goes on, on its thread."""
    places: list[Path] = []

    async def use() -> None:
        directory = files.TemporaryDirectory()
        places.append(Path(await directory.__aenter__()))
        (places[0] / "file").touch()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await directory.cleanup()

    task = asyncio.ensure_future(use())
    await asyncio.wait([task])
    while places[0].exists():
        await asyncio.sleep(0)


@pytest.mark.parametrize("ticks", range(5))
async def test_an_open_that_is_cancelled_leaves_no_descriptor(tmp_path: Path, ticks: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")

    async def read() -> bytes:
        async with files.open(path, "rb") as file:
            return await file.read()

    # The descriptors of the engine.
    assert await read() == b"x"
    before = descriptors.open_descriptors()
    for _ in range(10):
        await cancelled(read(), ticks)
    while str(path) in descriptors.opened_since(before).values():
        await asyncio.sleep(0)
