"""Temporary files and directories: tempfile's own, and nothing stays behind, whatever is cancelled."""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import random
import shutil
import stat
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.conftest import cancelled, settle
from tests.file.stand_in import StandIn

pytestmark = pytest.mark.usefixtures("loop")


@pytest.mark.parametrize("name", ["TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory"])
def test_signatures_are_tempfiles(name: str) -> None:
    ours = inspect.signature(getattr(files, name)).parameters
    theirs = inspect.signature(getattr(tempfile, name)).parameters
    # Those of the newest version, whatever the running one has.
    later = {"delete", "delete_on_close"}
    assert [word for word in ours if word not in later] == [word for word in theirs if word not in later]
    assert {word: ours[word].default for word in theirs} == {word: theirs[word].default for word in theirs}


@pytest.mark.parametrize("mode", ["w+b", "w+", "wb"])
async def test_a_file_without_a_name(tmp_path: Path, mode: str) -> None:
    opening: Any = files.TemporaryFile(mode, dir=tmp_path)
    async with opening as file:
        content: Any = "x" if mode == "w+" else b"x"
        await file.write(content)
        await file.flush()
        assert not list(tmp_path.iterdir())
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        if "+" in mode:
            await file.seek(0)
            assert await file.read() == content
    file = await files.TemporaryFile()
    await file.close()


async def test_a_file_system_that_has_no_nameless_files(loop: Any, tmp_path: Path) -> None:
    engine = loop._files = StandIn(loop, "mixed")
    engine.faults["open"] = [OSError(errno.EOPNOTSUPP, "no such thing")]
    async with files.TemporaryFile(dir=tmp_path) as file:
        assert not list(tmp_path.iterdir())
        await file.write(b"x")
    assert engine.log.count("open") == 2


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for make in (files.TemporaryFile, files.NamedTemporaryFile):
        with pytest.raises(FileNotFoundError) as caught:
            await make(dir=missing)
        assert str(caught.value.filename).startswith(str(missing))


async def test_a_file_with_a_name(tmp_path: Path) -> None:
    async with files.NamedTemporaryFile("w+", suffix=".txt", prefix="some", dir=tmp_path) as file:
        name = Path(str(file.name))
        assert name.parent == tmp_path
        assert name.name.startswith("some")
        assert name.name.endswith(".txt")
        assert stat.S_IMODE(name.stat().st_mode) == 0o600
        await file.write("a\nb\n")
        await file.flush()
        assert name.read_text() == "a\nb\n"
        await file.seek(0)
        assert [line async for line in file] == ["a\n", "b\n"]
    assert not name.exists()


async def test_a_file_with_a_name_may_stay(tmp_path: Path) -> None:
    async with files.NamedTemporaryFile(dir=tmp_path, delete=False) as file:
        kept = Path(str(file.name))
    assert kept.exists()
    async with files.NamedTemporaryFile(dir=tmp_path, delete_on_close=False) as file:
        name = Path(str(file.name))
        await file.close()
        assert name.exists()
    assert not name.exists()
    named = await files.NamedTemporaryFile(dir=os.fsencode(tmp_path))
    assert isinstance(named.name, bytes)
    await named.close()
    assert list(tmp_path.iterdir()) == [kept]


async def test_cancelled_at_every_step_nothing_stays(loop: Any, tmp_path: Path) -> None:
    loop._files = StandIn(loop, "later")
    for make in (files.TemporaryFile, files.NamedTemporaryFile, files.TemporaryDirectory):
        for steps in range(6):

            async def use(make: Any = make) -> None:
                async with make(dir=tmp_path):
                    await asyncio.sleep(0)

            await cancelled(use(), steps)
            await settle(10)
            assert not list(tmp_path.iterdir()), (make, steps)


@pytest.mark.parametrize("mode", ["w+b", "w+"])
async def test_a_spooled_file_is_in_memory_first(tmp_path: Path, mode: str) -> None:
    text = mode == "w+"

    def of(content: str) -> Any:
        return content if text else content.encode()

    async with files.SpooledTemporaryFile(10, mode, dir=tmp_path) as file:
        assert file.name is None
        assert await file.write(of("one\ntwo\n")) == 8
        await file.seek(4)
        assert await file.readline() == of("two\n")
        assert not file._rolled
        await file.write(of("three\n"))
        assert file._rolled
        assert isinstance(file.name, int)
        await file.seek(0)
        assert [line async for line in file] == [of("one\n"), of("two\n"), of("three\n")]
        assert await file.truncate(4) == 4
        await file.seek(0)
        assert await file.read() == of("one\n")
    assert file.closed


async def test_a_spooled_file_moves_when_its_number_is_asked_for(tmp_path: Path) -> None:
    async with files.SpooledTemporaryFile(dir=tmp_path) as file:
        await file.write(b"x")
        assert os.fstat(await file.fileno()).st_size in (0, 1)
        await file.flush()
        assert os.fstat(await file.fileno()).st_size == 1


async def test_a_directory(tmp_path: Path) -> None:
    async with files.TemporaryDirectory(prefix="folder", dir=tmp_path) as name:
        folder = Path(name)
        assert folder.parent == tmp_path
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
    assert not folder.exists()
    made = await files.TemporaryDirectory(dir=tmp_path, delete=False)
    assert made.name is not None
    kept = Path(made.name)
    assert kept.is_dir()
    async with made:
        pass
    assert kept.is_dir()
    await made.cleanup()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", ["w+b", "w+"])
@pytest.mark.parametrize("seed", range(10))
async def test_tasks_that_write_while_a_spooled_file_moves(tmp_path: Path, mode: str, seed: int) -> None:
    """Every record of every task, in the order of each, and one descriptor."""
    chance = random.Random(seed)

    def as_text(text: str) -> Any:
        return text if mode == "w+" else text.encode()

    async def write(file: Any, who: str) -> None:
        for number in range(20):
            assert await file.write(as_text(f"{who}{number:02} ")) == 4
            await settle(chance.randrange(3))

    async with files.SpooledTemporaryFile(60, mode, dir=tmp_path) as file:
        await asyncio.gather(*(write(file, who) for who in "abcde"))
        assert file.name is not None, "it is on the disk"
        await file.seek(0)
        records = (await file.read()).split()
    assert len(records) == 100
    for who in "abcde":
        assert [record for record in records if record.startswith(as_text(who))] == [
            as_text(f"{who}{number:02}") for number in range(20)
        ]


async def test_a_write_that_is_cancelled_while_a_spooled_file_moves(tmp_path: Path) -> None:
    """What it wrote is there, and the next one moves the file."""
    for steps in range(12):
        async with files.SpooledTemporaryFile(2, dir=tmp_path) as file:
            task = await cancelled(file.write(b"one,"), steps)
            await file.write(b"two")
            await file.seek(0)
            content = await file.read()
            assert content == (b"two" if steps == 0 and task.cancelled() else b"one,two"), steps


async def test_a_moved_spooled_file_goes_on_where_it_was() -> None:
    for mode, content in (("w+b", b"0123456789"), ("w+", "0123456789")):
        async with files.SpooledTemporaryFile(100, mode) as file:
            await file.write(content)
            await file.seek(4)
            await file.rollover()
            assert await file.tell() == 4
            assert await file.read() == content[4:]


async def test_a_file_whose_name_stays_is_closed(loop: Any, tmp_path: Path) -> None:
    loop._files = engine = StandIn(loop)
    engine.faults["open"] = [OSError(errno.EOPNOTSUPP, "no unnamed files")]
    engine.faults["unlink"] = [OSError(errno.EIO, "broken")]
    with pytest.raises(OSError, match="broken"):
        await files.TemporaryFile(dir=tmp_path)


@pytest.mark.parametrize("is_moved", [True, False])
async def test_a_named_file_that_the_program_has_taken_away(tmp_path: Path, is_moved: bool) -> None:
    """As in tempfile since Python 3.12: closing it is no error."""
    file = await files.NamedTemporaryFile(dir=tmp_path)
    await file.write(b"kept")
    if is_moved:
        os.rename(file.name, tmp_path / "kept")
    else:
        os.unlink(file.name)
    await file.close()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([b"kept"] if is_moved else [])


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_directory_that_is_left_is_removed_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    """A tree may be large, or its filesystem slow."""
    removed: list[int] = []
    remove = shutil.rmtree

    def rmtree(*args: Any, **kwargs: Any) -> None:
        removed.append(threading.get_ident())
        remove(*args, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    made = files.TemporaryDirectory(dir=tmp_path)
    if is_cancelled:
        await cancelled(made._make(), 1)
    else:
        await made
        with pytest.warns(ResourceWarning, match="Implicitly cleaning up"):
            del made
    while not removed or list(tmp_path.iterdir()):
        await asyncio.sleep(0.001)
    if not isinstance(asyncio.get_running_loop()._files, StandIn):  # type: ignore[attr-defined]
        assert removed != [threading.get_ident()]
