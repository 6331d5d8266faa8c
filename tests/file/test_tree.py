"""scandir, walk, glob, rmtree: compared with os, glob and shutil; trees that change meanwhile."""

from __future__ import annotations

import asyncio
import errno
import gc
import glob
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from oneloop import files
from oneloop.files import removal, trees
from tests.file.models import awaited, cancelled_after, outcome, plant

pytestmark = pytest.mark.usefixtures("engine")


async def collect(iterator: Any) -> list[Any]:
    return [item async for item in iterator]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A directory of more entries than one trip brings."""
    for number in range(2500):
        (tmp_path / f"{number:04}").touch()
    return tmp_path


async def test_listdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path)
    for path in (tmp_path, str(tmp_path), os.fsencode(tmp_path), tmp_path / "missing", tmp_path / "file"):
        expected = outcome(lambda path=path: os.listdir(path))
        assert await awaited(lambda path=path: files.listdir(path)) == expected
    monkeypatch.chdir(tmp_path)
    assert await files.listdir() == os.listdir()


# -- scandir ---------------------------------------------------------------------------------------


async def test_entries_tell_what_those_of_os_tell(tmp_path: Path) -> None:
    plant(tmp_path)
    for path in (str(tmp_path), os.fsencode(tmp_path)):
        with os.scandir(path) as entries:
            model: dict[Any, os.DirEntry[Any]] = {entry.name: entry for entry in entries}
        found = {entry.name: entry for entry in await collect(files.scandir(path))}
        assert list(found) == list(model)
        for name, entry in found.items():
            other = model[name]
            assert (entry.path, entry.inode(), entry.is_symlink()) == (other.path, other.inode(), other.is_symlink())
            assert (os.fspath(entry), repr(entry)) == (os.fspath(other), repr(other))
            assert not entry.is_junction()
            for follow in (True, False):
                assert await entry.is_dir(follow_symlinks=follow) == other.is_dir(follow_symlinks=follow)
                assert await entry.is_file(follow_symlinks=follow) == other.is_file(follow_symlinks=follow)
                ours = await awaited(lambda entry=entry, follow=follow: entry.stat(follow_symlinks=follow))
                assert ours == outcome(lambda other=other, follow=follow: other.stat(follow_symlinks=follow))
                assert ours == await awaited(lambda entry=entry, follow=follow: entry.stat(follow_symlinks=follow))


async def test_scandir_of_a_descriptor_and_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        entries = {entry.name: entry for entry in await collect(files.scandir(fd))}
        assert entries["file"].path == "file"
        assert (await entries["file"].stat()).st_size == 4
        assert await entries["to_a"].is_dir()
    finally:
        os.close(fd)
    monkeypatch.chdir(tmp_path)
    assert sorted([entry.path async for entry in files.scandir()]) == sorted(e.path for e in os.scandir())


async def test_errors_of_scandir(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        expected = outcome(lambda name=name: os.scandir(tmp_path / name))
        assert await awaited(lambda name=name: collect(files.scandir(tmp_path / name))) == expected
        with pytest.raises(OSError, match=name):
            async with files.scandir(tmp_path / name):
                pytest.fail("entered")


async def test_large_directories_come_in_batches(large: Path) -> None:
    async with files.scandir(large) as entries:
        assert sorted([entry.name async for entry in entries]) == [f"{number:04}" for number in range(2500)]
    async with files.scandir(large) as entries:
        async for _ in entries:
            break
    assert await collect(entries) == []
    iterator = files.scandir(large)
    await anext(iterator)
    await iterator.close()
    await iterator.close()


async def test_unclosed_scandir_warns(large: Path) -> None:
    iterator = files.scandir(large)
    await anext(iterator)
    left = [iterator]
    del iterator
    with pytest.warns(ResourceWarning, match="unclosed scandir iterator"):
        forget(left)


def forget(left: list[Any]) -> None:
    left.clear()
    gc.collect()


async def test_cancelled_scandir_closes_the_directory(large: Path) -> None:
    for ticks in range(8):
        await cancelled_after(collect(files.scandir(large)), ticks)


class SlowDirectory:
    """What `os.scandir` returns, on a thread that waits. A close meanwhile would take the memory that it reads."""

    def __init__(self) -> None:
        self.entered, self.goes_on = threading.Event(), threading.Event()
        self.is_read = False
        self.is_closed = False
        self._given: list[Any] = [SimpleNamespace(name="late", path="late", is_symlink=lambda: False)]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self.is_read = True
        self.entered.set()
        self.goes_on.wait(20)
        assert not self.is_closed
        self.is_read = False
        if not self._given:
            raise StopIteration
        return self._given.pop()

    def close(self) -> None:
        assert not self.is_read
        self.is_closed = True


@pytest.mark.engines_only("the stand-in has no threads")
@pytest.mark.parametrize("way", ["closed", "dropped"])
async def test_a_directory_is_not_closed_while_a_thread_reads_it(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    slow = SlowDirectory()
    monkeypatch.setattr(os, "scandir", lambda _: slow)
    entries = files.scandir(".")
    reading: Any = entries.__anext__()
    task = None
    if way == "dropped":
        reading.send(None)
    else:
        task = asyncio.ensure_future(reading)
    while not slow.entered.is_set():
        await asyncio.sleep(0)
    if task is None:
        reading.close()
    await entries.close()
    assert not slow.is_closed
    slow.goes_on.set()
    if task is not None:
        with pytest.raises(StopAsyncIteration):
            await task
    while not slow.is_closed:
        await asyncio.sleep(0)


async def test_directory_is_read_by_one_task_at_a_time(large: Path, engine: str) -> None:
    async with files.scandir(large) as entries:
        for _ in range(trees.BATCH):
            await anext(entries)
        results = await asyncio.gather(anext(entries), anext(entries), return_exceptions=True)
        if engine not in ("now", "later", "mixed"):
            assert [type(result) for result in results] == [files.DirEntry, RuntimeError]


# -- walk ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4, 1000])
@pytest.mark.parametrize("followlinks", [False, True])
@pytest.mark.parametrize("topdown", [True, False])
async def test_walk_is_os_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topdown: bool, followlinks: bool, batch: int
) -> None:
    monkeypatch.setattr(trees, "BATCH", batch)
    plant(tmp_path)
    tops: list[Any] = [
        str(tmp_path),
        os.fsencode(tmp_path),
        tmp_path,
        str(tmp_path / "missing"),
        str(tmp_path / "file"),
    ]
    for top in tops:
        told: list[OSError] = []
        expected: list[OSError] = []
        found = await collect(files.walk(top, topdown, told.append, followlinks))
        assert found == list(os.walk(top, topdown, expected.append, followlinks))
        assert list(map(str, told)) == list(map(str, expected))


async def test_walk_can_be_pruned_ordered_and_extended(tmp_path: Path) -> None:
    plant(tmp_path)

    def change(folder: str, folders: list[str]) -> None:
        folders.sort(reverse=True)
        if "b" in folders:
            folders.remove("b")
        if folder == str(tmp_path):
            folders += ["new", "missing", "to_a"]

    (tmp_path / "new").mkdir()
    found, model = [], []
    async for folder, folders, names in files.walk(str(tmp_path)):
        change(folder, folders)
        found.append((folder, folders, names))
    for folder, folders, names in os.walk(str(tmp_path)):
        change(folder, folders)
        model.append((folder, folders, names))
    assert found == model


async def test_tree_that_changes_while_it_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "BATCH", 1)
    plant(tmp_path)
    errors: list[OSError] = []
    seen = []
    async for folder, folders, _ in files.walk(tmp_path, onerror=errors.append):
        seen.append(os.path.relpath(folder, tmp_path))
        if folder == str(tmp_path):
            folders[:] = ["a", "empty"]
            shutil.rmtree(tmp_path / "empty")
            (tmp_path / "a" / "late").mkdir()
    assert seen == [".", *sorted(["a", "a/b", "a/b/c", "a/late"], key=seen.index)]
    assert [error.filename for error in errors] == [str(tmp_path / "empty")]


async def test_walk_bottom_up_lets_the_tree_be_removed(tmp_path: Path) -> None:
    plant(tmp_path)
    async for folder, folders, names in files.walk(tmp_path / "a", topdown=False):
        for name in names:
            await files.unlink(os.path.join(folder, name))
        for name in folders:
            await files.rmdir(os.path.join(folder, name))
    assert os.listdir(tmp_path / "a") == []


async def test_cancelled_walk(tmp_path: Path) -> None:
    plant(tmp_path)
    for ticks in range(6):
        for topdown in (True, False):
            await cancelled_after(collect(files.walk(tmp_path, topdown)), ticks)


# -- glob ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("pattern", ["*", "**", "**/*.py", "a/*", "a/**/c", "[fl]*", "file", "missing", "*/", "**/.*"])
async def test_glob_is_glob(tmp_path: Path, pattern: str, recursive: bool) -> None:
    plant(tmp_path)
    for hidden in (False, True):
        options: Any = {"recursive": recursive, "include_hidden": hidden}
        found = await collect(files.glob(pattern, root_dir=tmp_path, **options))
        assert found == glob.glob(pattern, root_dir=tmp_path, **options)
    whole = os.path.join(tmp_path, pattern)
    assert await collect(files.glob(whole, recursive=recursive)) == glob.glob(whole, recursive=recursive)
    of_bytes = await collect(files.glob(os.fsencode(whole), recursive=recursive))
    assert of_bytes == glob.glob(os.fsencode(whole), recursive=recursive)


async def test_glob_of_many(large: Path) -> None:
    assert sorted(await collect(files.glob("*", root_dir=large, timeout=60))) == sorted(os.listdir(large))
    async for _ in files.glob("*", root_dir=large):
        break


# -- rmtree ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Path, str, os.fsencode])
async def test_rmtree_removes_the_tree_and_nothing_behind_links(tmp_path: Path, kind: Any) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    plant(outside)
    top = tmp_path / "top"
    top.mkdir()
    plant(top)
    (top / "out").symlink_to(outside)
    await files.rmtree(kind(top))
    assert sorted(os.listdir(tmp_path)) == ["outside"]
    assert (outside / "file").read_text() == "file"


async def test_errors_of_rmtree(tmp_path: Path) -> None:
    plant(tmp_path)
    for name in ("missing", "file", "to_a"):
        told = await awaited(lambda name=name: files.rmtree(tmp_path / name))
        expected = outcome(lambda name=name: shutil.rmtree(tmp_path / name))
        assert (told[0], told[2]) == (expected[0], expected[2])
        await files.rmtree(tmp_path / name, ignore_errors=True)
    assert (tmp_path / "file").exists()
    assert (tmp_path / "to_a").is_symlink()


async def test_rmtree_reports_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path)
    reported: list[tuple[Any, str, Any]] = []
    real_unlink = os.unlink

    def unlink(name: Any, **kwargs: Any) -> None:
        if name == "one.txt":
            raise PermissionError(1, "not this one")
        real_unlink(name, **kwargs)

    monkeypatch.setattr(os, "unlink", unlink)
    await files.rmtree(tmp_path / "a", onexc=lambda *report: reported.append(report))
    assert [(path, type(error)) for _, path, error in reported] == [
        (str(tmp_path / "a/one.txt"), PermissionError),
        (str(tmp_path / "a"), OSError),
    ]
    assert os.listdir(tmp_path / "a") == ["one.txt"]
    reported.clear()
    await files.rmtree(tmp_path / "a", onerror=lambda *report: reported.append(report))
    assert [report[2][0] for report in reported] == [PermissionError, OSError]
    with pytest.raises(PermissionError, match=r"one\.txt"):
        await files.rmtree(tmp_path / "a")


async def test_rmtree_relative_to_a_directory(tmp_path: Path) -> None:
    plant(tmp_path)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        await files.rmtree("a", dir_fd=fd)
    finally:
        os.close(fd)
    assert not (tmp_path / "a").exists()


async def test_cancelled_rmtree_leaves_no_descriptor(tmp_path: Path) -> None:
    for ticks in range(6):
        top = tmp_path / str(ticks)
        top.mkdir()
        plant(top)
        await cancelled_after(files.rmtree(top), ticks)
        shutil.rmtree(top, ignore_errors=True)


async def test_a_link_that_rmtree_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with pytest.raises(OSError) as caught:  # noqa: PT011
        await files.rmtree(tmp_path / "link")
    assert caught.value.args == ("Cannot call rmtree on a symbolic link",)
    assert caught.value.filename == str(tmp_path / "link")
    assert (tmp_path / "folder").is_dir()


def test_an_entry_whose_kind_cannot_be_told_is_removed_as_a_file() -> None:
    class Entry:
        def is_dir(self, *, follow_symlinks: bool) -> bool:
            raise OSError(errno.EIO, "broken")

    assert not removal._is_folder(Entry())  # type: ignore[arg-type]
