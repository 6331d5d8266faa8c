"""Copies and moves: compared with shutil, on one filesystem and across two."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from oneloop.files import copying
from tests.file.models import awaited, cancelled_after, outcome, plant, snapshot

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another filesystem."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("the machine has no second filesystem")
    folder = other / f"oneloop-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["copyfile", "copy", "copy2"])
async def test_copies_are_shutils(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    results = []
    for side in (files, shutil):
        top = tmp_path / side.__name__
        top.mkdir()
        monkeypatch.chdir(plant(top))
        os.mkfifo("fifo")
        os.utime("file", (1, 2))
        told = []
        for src, dst in [
            ("file", "new"),
            ("file", "a"),
            ("a/one.txt", "file"),
            ("link", "from_link"),
            ("file", "file"),
            ("link", "file"),
            ("broken", "x"),
            ("missing", "x"),
            ("a", "x"),
            ("file", "missing/x"),
            ("file", "missing/"),
            ("fifo", "x"),
            ("file", "fifo"),
            (b"file", b"bytes"),
            (Path("file"), Path("path")),
        ]:
            for follow in (True, False):
                function = getattr(side, name)
                call = lambda f=function, s=src, d=dst, fs=follow: f(s, d, follow_symlinks=fs)  # noqa: E731
                told.append(await awaited(call) if side is files else outcome(call))
        os.unlink("fifo")
        times = os.stat("new").st_mtime if name == "copy2" else None
        monkeypatch.chdir(tmp_path)
        results.append((told, times, snapshot(top)))
    ours, model = results
    for mine, theirs in zip(ours[0], model[0], strict=True):
        assert mine == theirs
    assert ours[1:] == model[1:]


@pytest.mark.parametrize("size", [0, 1, 100_000, 40_000_000])
async def test_content_of_any_size_is_copied(tmp_path: Path, elsewhere: Path, size: int) -> None:
    content = os.urandom(size)
    source = tmp_path / "source"
    source.write_bytes(content)
    for target in (tmp_path / "target", elsewhere / "target"):
        target.write_bytes(b"longer" * 10)
        assert await files.copyfile(source, target) == target
        assert target.read_bytes() == content


async def test_files_that_do_not_tell_their_size_are_copied(tmp_path: Path) -> None:
    await files.copyfile("/proc/cpuinfo", tmp_path / "copy")
    assert (tmp_path / "copy").read_text().count("processor") == Path("/proc/cpuinfo").read_text().count("processor")
    await files.copyfile("/dev/null", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b""


@pytest.mark.parametrize("refused", [["ioctl"], ["ioctl", "copy_file_range"], ["ioctl", "copy_file_range", "sendfile"]])
async def test_every_way_copies_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[str]) -> None:
    def refuse(*args: object) -> int:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    for name in refused:
        monkeypatch.setattr(fcntl if name == "ioctl" else os, name, refuse)
    monkeypatch.setattr(copying, "PIECE_BYTES", 100_000)
    content = os.urandom(1_234_567)
    (tmp_path / "source").write_bytes(content)
    await files.copyfile(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == content


async def test_full_disk_names_both_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100_000))
    with pytest.raises(OSError, match="No space left") as caught:
        await files.copyfile(tmp_path / "file", "/dev/full")
    error = caught.value
    assert (error.errno, error.filename, error.filename2) == (errno.ENOSPC, str(tmp_path / "file"), "/dev/full")


async def test_mode_and_status_are_copied(tmp_path: Path) -> None:
    plant(tmp_path)
    os.utime(tmp_path / "file", (1, 2))
    await files.copymode(tmp_path / "file", tmp_path / "a/one.txt")
    assert stat.S_IMODE((tmp_path / "a/one.txt").stat().st_mode) == 0o640
    await files.copystat(tmp_path / "file", tmp_path / "a/b/two.py")
    assert (tmp_path / "a/b/two.py").stat().st_mtime == 2


async def test_copytree_is_shutils(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    plant(tmp_path / "src")
    (tmp_path / "src/broken").unlink()
    for symlinks in (False, True):
        for function in ("copy2", "copyfile"):
            ours, model = tmp_path / f"o{symlinks}{function}", tmp_path / f"m{symlinks}{function}"
            arguments: dict[str, Any] = {"symlinks": symlinks, "ignore": shutil.ignore_patterns("*.py")}
            copied = await files.copytree(tmp_path / "src", ours, copy_function=getattr(files, function), **arguments)
            assert copied == ours
            shutil.copytree(tmp_path / "src", model, copy_function=getattr(shutil, function), **arguments)
            assert snapshot(ours) == snapshot(model)
    with pytest.raises(FileExistsError):
        await files.copytree(tmp_path / "src", tmp_path / "oTruecopy2")
    await files.copytree(tmp_path / "src", tmp_path / "oTruecopyfile", dirs_exist_ok=True, symlinks=False)


async def test_errors_of_copytree(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    plant(tmp_path / "src")
    told = await awaited(lambda: files.copytree(tmp_path / "src", tmp_path / "x"))
    shutil.rmtree(tmp_path / "x")
    assert told == outcome(lambda: shutil.copytree(tmp_path / "src", tmp_path / "x"))
    assert told[0] is shutil.Error
    assert await awaited(lambda: files.copytree(tmp_path / "no", tmp_path / "y")) == outcome(
        lambda: shutil.copytree(tmp_path / "no", tmp_path / "y")
    )
    calls: list[tuple[Any, Any]] = []
    await files.copytree(tmp_path / "src/a", tmp_path / "z", copy_function=lambda s, d: calls.append((s, d)))
    assert len(calls) == 3


@pytest.mark.parametrize("name", ["file", "a", "link", "missing"])
async def test_move_is_shutils(tmp_path: Path, elsewhere: Path, name: str) -> None:
    results = []
    for side in (files, shutil):
        told: list[Any] = []
        for place in (tmp_path, elsewhere):
            shutil.rmtree(tmp_path / "t", ignore_errors=True)
            (tmp_path / "t").mkdir()
            plant(tmp_path / "t")
            shutil.rmtree(place / "to", ignore_errors=True)
            (place / "to").mkdir()
            for target in (place / "to", place / "to" / "x"):
                call = lambda s=side, t=target: s.move(str(tmp_path / "t" / name), str(t))  # noqa: E731
                told.append(await awaited(call) if side is files else outcome(call))
                told.append(snapshot(tmp_path / "t"))
                told.append(snapshot(place / "to"))
        results.append(told)
    assert results[0] == results[1]


async def test_move_into_itself(tmp_path: Path) -> None:
    plant(tmp_path)
    for target in ("a/b", "a"):
        given = (str(tmp_path / "a"), str(tmp_path / target))
        told = await awaited(lambda given=given: files.move(*given))
        assert told == outcome(lambda given=given: shutil.move(*given))


@pytest.mark.engines_only("the stand-in has no threads")
async def test_cancelled_copies_end_between_two_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(copying, "PIECE_BYTES", 4096)
    monkeypatch.setattr(copying, "_is_cloned", lambda source, target: False)
    source = tmp_path / "source"
    source.write_bytes(bytes(50_000_000))
    target = tmp_path / "target"
    under_way = asyncio.ensure_future(files.copyfile(source, target))
    while not target.exists() or not target.stat().st_size:
        await asyncio.sleep(0)
    under_way.cancel()
    with pytest.raises(asyncio.CancelledError):
        await under_way
    length = target.stat().st_size
    assert length < 50_000_000
    await asyncio.sleep(0.01)
    assert target.stat().st_size == length


async def test_cancelled_copies_leave_no_descriptor(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    plant(top)
    (top / "broken").unlink()
    for ticks in range(6):
        await cancelled_after(files.copytree(top, tmp_path / "copy", dirs_exist_ok=True), ticks)
        await cancelled_after(files.copy(top / "file", tmp_path / "one"), ticks)
        await cancelled_after(files.move(top / "file", tmp_path / "moved"), ticks)
        if not (top / "file").exists():
            shutil.move(tmp_path / "moved", top / "file")


@pytest.mark.engines_only("the stand-in has no threads")
async def test_endless_copy_is_ended_by_its_timeout(engine: str) -> None:
    with pytest.raises(TimeoutError):
        await files.copyfile("/dev/zero", "/dev/null", timeout=0.02)
