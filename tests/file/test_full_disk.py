"""Writes that the disk refuses: a small tmpfs that is full, a quota, an I/O error that only fsync tells."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oneloop import files
from tests import programs

SIZE = 256 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of a quarter of a MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "oneloop-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting a tmpfs needs root: {done.stderr.strip()}")
    yield folder
    # A file that was left open fails the test by itself; the disk goes nevertheless.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def filled_by_open(path: Path) -> list[object]:
    """How blocking `open()` runs into the end of the disk: errors, how much was accepted, and what is there then."""
    file = path.open("wb")
    accepted, course = 0, list[object]()
    try:
        while True:
            accepted += file.write(b"x" * 10_000)
            file.flush()
    except OSError as exc:
        course += [exc.errno, accepted]
    try:
        file.close()
    except OSError as exc:
        course.append(exc.errno)
    course.append(path.stat().st_size)
    path.unlink()
    return course


async def test_a_full_disk_is_told_as_by_open(small_disk: Path, engine: str) -> None:
    path = small_disk / "file"
    expected = filled_by_open(path)
    file = await files.open(path, "wb")
    accepted, course = 0, list[object]()
    with pytest.raises(OSError, match="No space left") as caught:
        while True:
            accepted += await file.write(b"x" * 10_000)
            await file.flush()
    course += [caught.value.errno, accepted]
    try:
        await file.close()
    except OSError as exc:
        course.append(exc.errno)
    assert file.closed
    course.append(path.stat().st_size)
    assert course == expected


async def test_room_comes_back(small_disk: Path, engine: str) -> None:
    ballast = small_disk / "ballast"
    async with files.open(small_disk / "file", "wb") as file:
        with pytest.raises(OSError, match="No space left"):
            ballast.write_bytes(bytes(SIZE * 2))
        await file.write(b"y" * 3000)
        with pytest.raises(OSError, match="No space left"):
            await file.flush()
        ballast.unlink()
    assert (small_disk / "file").read_bytes() == b"y" * 3000


async def test_an_atomic_write_leaves_the_old_file(small_disk: Path, engine: str) -> None:
    path = small_disk / "file"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        await files.write_file(path, bytes(SIZE * 2), atomic=True)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in small_disk.iterdir()] == ["file"]


async def test_a_plain_write_that_does_not_fit(small_disk: Path, engine: str) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        await files.write_file(small_disk / "file", bytes(SIZE * 2))
    assert caught.value.errno == errno.ENOSPC


async def test_a_copy_that_does_not_fit(small_disk: Path, tmp_path: Path, engine: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(SIZE * 2))
    with pytest.raises(OSError, match="No space left"):
        await files.copyfile(source, small_disk / "file")


@pytest.mark.parametrize(
    ("call", "error", "step"),
    [
        ("pwritev2", errno.EDQUOT, "await file.write(b'x' * 100_000); await file.flush()"),
        ("pwritev2", errno.EIO, "await file.write(b'x' * 100_000); await file.flush()"),
        ("fsync", errno.EIO, "await file.write(b'x'); await file.flush(); await file.fsync()"),
    ],
    ids=["quota", "write", "fsync"],
)
def test_what_a_disk_may_say(call: str, error: int, step: str) -> None:
    """On the threads' system calls, which a filter can make fail; the ring's cannot be reached."""
    body = f"""
    import tempfile
    from oneloop import files
    from tests.seccomp import forbid

    async def main():
        files.use_engine("threads")
        with tempfile.TemporaryDirectory() as folder:
            # Threads that are made from here on inherit it.
            try:
                forbid({call!r}, error={error})
            except OSError as exc:
                print("unavailable:", exc)
                return
            file = await files.open(folder + "/file", "wb")
            try:
                {step}
            except OSError as exc:
                print(exc.errno)
            try:
                await file.close()
            except OSError as exc:
                assert exc.errno == {error}
            assert file.closed

    new_loop().run_until_complete(main())
    """
    body = body.replace("; ", "\n                ")
    out = programs.run_ok("oneloop", body)
    if out.startswith("unavailable"):
        pytest.skip(f"seccomp filters are not available here: {out}")
    assert out == f"{error}\n"


def text_where_room_comes_back(path: Path, ballast: Path) -> bytes:
    """What blocking `open()` leaves."""
    ballast.write_bytes(bytes(SIZE - 64 * 1024))
    with path.open("w") as file:
        with pytest.raises(OSError, match="No space left"):
            file.write("a" * 200_000)
        ballast.unlink()
        file.write("b" * 100_000)
    content = path.read_bytes()
    path.unlink()
    return content


async def test_a_long_text_that_does_not_fit_is_not_written_later(small_disk: Path, engine: str) -> None:
    path, ballast = small_disk / "file", small_disk / "ballast"
    expected = text_where_room_comes_back(path, ballast)
    ballast.write_bytes(bytes(SIZE - 64 * 1024))
    async with files.open(path, "w") as file:
        with pytest.raises(OSError, match="No space left"):
            await file.write("a" * 200_000)
        ballast.unlink()
        await file.write("b" * 100_000)
    assert path.read_bytes() == expected
