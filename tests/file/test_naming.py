"""Making, changing and removing names: compared with os, errors included."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.file.models import awaited, cancelled_after, outcome, plant, snapshot

pytestmark = pytest.mark.usefixtures("engine")

# Name, arguments as names in the planted tree.
CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("rename", ("file", "new")),
    ("rename", ("file", "a/one.txt")),
    ("rename", ("a", "empty")),
    ("rename", ("empty", "a")),
    ("rename", ("file", "empty")),
    ("rename", ("empty", "file")),
    ("rename", ("missing", "new")),
    ("rename", ("file", "missing/new")),
    ("rename", ("a", "a/b/c/d")),
    ("rename", ("link", "other")),
    ("replace", ("file", "a/one.txt")),
    ("replace", ("missing", "new")),
    ("renames", ("a/b/two.py", "x/y/z")),
    ("renames", ("missing", "x/y")),
    ("unlink", ("file",)),
    ("unlink", ("link",)),
    ("unlink", ("a",)),
    ("unlink", ("missing",)),
    ("unlink", ("file/below",)),
    ("remove", ("file",)),
    ("remove", ("missing",)),
    ("rmdir", ("empty",)),
    ("rmdir", ("a",)),
    ("rmdir", ("file",)),
    ("rmdir", ("missing",)),
    ("removedirs", ("empty",)),
    ("removedirs", ("a",)),
    ("mkdir", ("new",)),
    ("mkdir", ("a",)),
    ("mkdir", ("missing/new",)),
    ("mkdir", ("x" * 300,)),
    ("makedirs", ("x/y/z",)),
    ("makedirs", ("a/b",)),
    ("makedirs", ("file/x",)),
    ("link", ("file", "new")),
    ("link", ("file", "a/one.txt")),
    ("link", ("missing", "new")),
    ("link", ("a", "new")),
    ("link", ("link", "new")),
    ("symlink", ("file", "new")),
    ("symlink", ("file", "a")),
    ("symlink", ("file", "missing/new")),
]


@pytest.mark.parametrize("kind", [str, os.fsencode, Path], ids=["str", "bytes", "Path"])
@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=lambda value: str(value)[:30])
async def test_calls_do_what_os_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: tuple[Any, ...], kind: Callable[[Any], Any]
) -> None:
    given = [kind(argument) for argument in arguments]
    results = []
    for side in ("ours", "model"):
        top = tmp_path / side
        top.mkdir()
        monkeypatch.chdir(plant(top))
        if side == "ours":
            told = await awaited(lambda: getattr(files, name)(*given))
        else:
            told = outcome(lambda: getattr(os, name)(*given))
        monkeypatch.chdir(tmp_path)
        results.append((told, snapshot(top)))
    assert results[0] == results[1]


async def test_relative_to_directories(tmp_path: Path) -> None:
    plant(tmp_path)
    one, two = (os.open(tmp_path / name, os.O_RDONLY) for name in ("a", "empty"))
    try:
        await files.rename("one.txt", "moved", src_dir_fd=one, dst_dir_fd=two)
        await files.link("moved", "linked", src_dir_fd=two, dst_dir_fd=one)
        await files.symlink("moved", "sym", dir_fd=two)
        await files.link("sym", "followed", src_dir_fd=two, dst_dir_fd=two)
        await files.link("sym", "not_followed", src_dir_fd=two, dst_dir_fd=two, follow_symlinks=False)
        await files.mkdir("made", 0o700, dir_fd=two)
        await files.replace("moved", "again", src_dir_fd=two, dst_dir_fd=two)
        assert stat.S_IMODE((tmp_path / "empty/made").stat().st_mode) == 0o700
        await files.rmdir("made", dir_fd=two)
        await files.unlink("again", dir_fd=two)
    finally:
        os.close(one)
        os.close(two)
    assert (tmp_path / "a/linked").read_text() == "one"
    assert sorted(os.listdir(tmp_path / "empty")) == ["followed", "not_followed", "sym"]
    assert [(tmp_path / "empty" / name).is_symlink() for name in ("followed", "not_followed")] == [False, True]


async def test_makedirs(tmp_path: Path) -> None:
    await files.makedirs(tmp_path / "x/y", exist_ok=True)
    await files.makedirs(tmp_path / "x/y", exist_ok=True)
    await files.makedirs(tmp_path / "m/n", 0o700)
    assert stat.S_IMODE((tmp_path / "m/n").stat().st_mode) == 0o700
    if sys.version_info >= (3, 15):
        await files.makedirs(tmp_path / "p/q", parent_mode=0o700)
        assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["rename", "replace", "link", "symlink", "unlink", "remove", "rmdir", "mkdir"])
async def test_what_is_no_path_is_refused(tmp_path: Path, name: str) -> None:
    function = getattr(files, name)
    model = getattr(os, name)
    count = 2 if name in ("rename", "replace", "link", "symlink") else 1
    for position in range(count):
        given: list[Any] = [str(tmp_path / "x")] * count
        given[position] = 1.5
        assert await awaited(lambda given=given: function(*given)) == outcome(lambda given=given: model(*given))
        given[position] = "a\0b"
        with pytest.raises(ValueError, match="embedded null byte"):
            await function(*given)


async def test_rename_to_another_filesystem(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("the machine has no second filesystem")
    (tmp_path / "file").write_text("")
    target = other / f"oneloop-{os.getpid()}"
    given = (tmp_path / "file", target)
    assert await awaited(lambda: files.rename(*given)) == outcome(lambda: os.rename(*given))


async def test_cancelled_calls_happen_or_not(tmp_path: Path) -> None:
    for ticks in range(5):
        await cancelled_after(files.mkdir(tmp_path / "d"), ticks)
        while files.engine_info().operations:
            # What the kernel has begun, it ends.
            await asyncio.sleep(0.001)
        assert os.listdir(tmp_path) in ([], ["d"])
        if (tmp_path / "d").exists():
            await files.rmdir(tmp_path / "d", timeout=60)
