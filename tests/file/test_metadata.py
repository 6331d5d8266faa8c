"""Status, permissions, times, attributes: compared with os and os.path."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.descriptors import at_most
from tests.file.models import awaited, cancelled_after, outcome, plant

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def names(tmp_path: Path) -> list[Any]:
    """Paths of every kind, existing and not."""
    top = plant(tmp_path)
    os.mkfifo(top / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(top / "socket"))
    (top / "loop").symlink_to("loop")
    kinds = ["file", "a", "link", "to_a", "broken", "loop", "fifo", "socket", "missing", "file/below", "to_a/b"]
    paths: list[Any] = [top / kind for kind in kinds]
    return [
        *paths,
        *map(str, paths[:3]),
        *map(os.fsencode, paths[:3]),
        "/dev/null",
        "/proc/self/status",
        "/proc/self/exe",
        "",
        "x" * 300,
    ]


QUESTIONS = ["exists", "lexists", "isfile", "isdir", "islink", "ismount", "getsize", "getmtime", "getctime"]


@pytest.mark.parametrize("name", QUESTIONS)
async def test_questions_are_answered_as_by_os_path(names: list[Any], name: str) -> None:
    ours, model = getattr(files, name), getattr(os.path, name)
    for path in names:
        # The size of files in /proc is the only one that does not matter.
        assert await awaited(lambda path=path: ours(path)) == outcome(lambda path=path: model(path)), path


def without_access_time(result: Any) -> Any:
    """Reading changes it; the processes in /proc change the rest."""
    if isinstance(result[1], os.stat_result):
        return result[1].st_mode, result[1].st_ino, result[1].st_size, result[1].st_uid
    return result


async def test_stat_is_os_stat(names: list[Any]) -> None:
    for path in names:
        for follow in (True, False):
            told = await awaited(lambda path=path, follow=follow: files.stat(path, follow_symlinks=follow))
            model = outcome(lambda path=path, follow=follow: os.stat(path, follow_symlinks=follow))
            assert without_access_time(told) == without_access_time(model), path
        assert without_access_time(await awaited(lambda path=path: files.lstat(path))) == without_access_time(
            outcome(lambda path=path: os.lstat(path))
        )


def fields(result: os.stat_result) -> dict[str, object]:
    return {name: getattr(result, name) for name in dir(result) if name.startswith("st_")} | {"n": tuple(result)}


@pytest.mark.parametrize("ns", [0, -1, -1_500_000_000, 1_600_000_000_123_456_789, 10_000_000_000_987_654_321])
async def test_stat_has_each_field(path: Path, ns: int) -> None:
    """Also of times before 1970, and of those whose nanoseconds are no 64-bit integer."""
    path.write_bytes(b"x" * 5000)
    os.utime(path, ns=(ns, ns))
    names: list[Path | str] = [path, path.parent, "/dev/null", "/proc/self/exe"]
    for name in names:
        for follow in (True, False):
            told = await files.stat(name, follow_symlinks=follow)
            assert type(told) is os.stat_result
            assert fields(told) == fields(os.stat(name, follow_symlinks=follow)), name
            assert pickle.loads(pickle.dumps(told)) == told


async def test_stat_relative_to_a_directory(tmp_path: Path) -> None:
    plant(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert (await files.stat("file", dir_fd=folder)).st_size == 4
        assert stat.S_ISLNK((await files.lstat("link", dir_fd=folder)).st_mode)
        assert stat.S_ISDIR((await files.stat(folder)).st_mode)
        with pytest.raises(ValueError, match="dir_fd"):
            await files.stat(folder, dir_fd=folder)
    finally:
        os.close(folder)


async def test_stat_without_a_descriptor_to_spare(path: Path) -> None:
    path.write_text("x")
    await files.stat(path)
    lowest = os.open("/", os.O_RDONLY)
    os.close(lowest)
    with at_most(lowest):
        assert (await files.stat(path)).st_size == 1


async def test_what_is_no_path_is_refused() -> None:
    for function in (files.stat, files.lstat, files.getsize):
        with pytest.raises(TypeError, match=r"stat: path should be string, bytes or os\.PathLike, not NoneType"):
            await function(None)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="embedded null byte"):
            await function("\0")
    assert not await files.exists("\0")
    assert not await files.isdir("\0")


async def test_changes(path: Path) -> None:
    path.write_text("text")
    await files.chmod(path, 0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await files.utime(path, (1.5, 2.5))
    assert (await files.getatime(path), await files.getmtime(path)) == (1.5, 2.5)
    await files.utime(path, ns=(1, 2))
    assert path.stat().st_mtime_ns == 2
    await files.utime(path)
    assert path.stat().st_mtime > 1e9
    with pytest.raises(ValueError, match="not both"):
        await files.utime(path, (1, 1), ns=(1, 1))
    await files.chown(path, os.getuid(), -1)
    await files.lchown(path, -1, os.getgid())
    await files.truncate(path, 2)
    assert path.read_text() == "te"
    assert await files.access(path, os.R_OK)
    assert not await files.access(path, os.X_OK)
    assert await files.samefile(path, str(path))
    assert (await files.statvfs(path)).f_bsize == os.statvfs(path).f_bsize


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("chmod", (0o600,)),
        ("chown", (0, 0)),
        ("lchown", (0, 0)),
        ("utime", ()),
        ("truncate", (1,)),
        ("statvfs", ()),
        ("readlink", ()),
        ("getxattr", ("user.x",)),
        ("listxattr", ()),
    ],
)
async def test_errors_of_changes_are_those_of_os(tmp_path: Path, name: str, arguments: tuple[Any, ...]) -> None:
    missing = tmp_path / "missing"
    ours: Callable[..., Any] = getattr(files, name)
    expected = outcome(lambda: getattr(os, name)(missing, *arguments))
    assert expected[0] is FileNotFoundError
    assert await awaited(lambda: ours(missing, *arguments)) == expected


async def test_links_are_read(tmp_path: Path) -> None:
    plant(tmp_path)
    assert await files.readlink(tmp_path / "link") == "file"
    assert await files.readlink(os.fsencode(tmp_path / "link")) == b"file"
    assert await files.realpath(tmp_path / "to_a" / "b") == os.path.realpath(tmp_path / "a" / "b")
    assert await awaited(lambda: files.readlink(tmp_path / "file")) == outcome(lambda: os.readlink(tmp_path / "file"))


async def test_extended_attributes(path: Path) -> None:
    path.write_text("")
    try:
        os.setxattr(path, "user.probe", b"")
    except OSError as error:
        pytest.skip(f"the filesystem has no extended attributes: {error}")
    await files.setxattr(path, "user.x", b"value")
    assert await files.getxattr(path, "user.x") == b"value"
    assert set(await files.listxattr(path)) == {"user.probe", "user.x"}
    await files.removexattr(path, "user.x")
    assert await files.listxattr(path) == ["user.probe"]


async def test_fallocate(path: Path) -> None:
    path.write_bytes(b"ab")
    try:
        await files.fallocate(path, 0, 10_000)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        pytest.skip("the filesystem has no fallocate")
    assert path.stat().st_size == 10_000
    assert path.stat().st_blocks * 512 >= 10_000
    with open(path, "r+b") as file:
        await files.fallocate(file.fileno(), 0, 20_000)
    assert path.stat().st_size == 20_000
    missing = path.with_name("missing")
    with pytest.raises(FileNotFoundError) as caught:
        await files.fallocate(missing, 0, 1)
    assert caught.value.filename == str(missing)


async def test_cancelled_questions_leave_no_descriptor(path: Path) -> None:
    path.write_text("")
    for ticks in range(5):
        await cancelled_after(files.stat(path), ticks)
        await cancelled_after(files.fallocate(path, 0, 10), ticks)


async def test_timeout(path: Path) -> None:
    path.write_text("x")
    assert await files.exists(path, timeout=60)
    assert await files.getsize(path, timeout=60) == 1
    waiting = files.stat(path, timeout=60)
    assert asyncio.iscoroutine(waiting)
    await waiting
