"""read_file, write_file and their text twins: compared with open(), at every end of a file's life."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import stat
import struct
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.file.models import awaited, cancelled_after, outcome

pytestmark = pytest.mark.usefixtures("engine")


def blocking_read(path: Any) -> bytes:
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, 1_000_000, 5_000_000])
async def test_content_of_any_size_comes_back(path: Path, size: int) -> None:
    content = os.urandom(size)
    assert await files.write_file(path, content) == size
    assert path.read_bytes() == content
    assert await files.read_file(path) == content
    assert await files.read_file(str(path)) == content
    assert await files.read_file(os.fsencode(path)) == content


async def test_errors_are_those_of_open(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    (tmp_path / "file").write_text("")
    for name in [
        tmp_path / "missing",
        str(tmp_path / "missing"),
        os.fsencode(tmp_path / "missing"),
        tmp_path,
        loop,
        tmp_path / "file" / "below",
        tmp_path / ("x" * 300),
        "",
    ]:
        assert await awaited(lambda name=name: files.read_file(name)) == outcome(lambda name=name: blocking_read(name))
    for name in [tmp_path, tmp_path / "missing" / "file", ""]:
        expected = outcome(lambda name=name: open(name, "wb"))
        assert await awaited(lambda name=name: files.write_file(name, b"x")) == expected
        assert await awaited(lambda name=name: files.write_file(name, b"x", atomic=True)) == expected


async def test_what_is_no_path_is_refused(path: Path) -> None:
    for function in (files.read_file, files.read_text):
        with pytest.raises(ValueError, match="embedded null byte"):
            await function("a\0b")
        with pytest.raises(TypeError, match=r"path should be string, bytes or os\.PathLike, not float"):
            await function(1.5)  # type: ignore[arg-type]
    for atomic in (False, True):
        with pytest.raises(ValueError, match="embedded null byte"):
            await files.write_file(b"a\0b", b"", atomic=atomic)
        with pytest.raises(TypeError):
            await files.write_file(path, "text", atomic=atomic)  # type: ignore[arg-type]
    assert not path.exists()


@pytest.mark.parametrize("name", ["/proc/self/status", "/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled"])
async def test_files_that_do_not_tell_their_size(name: str) -> None:
    if not os.path.exists(name):
        pytest.skip(f"the kernel has no {name}")
    assert len(await files.read_file(name)) > 0
    first = (await files.read_text(name)).split("\n")[0]
    assert first == Path(name).read_text().split("\n")[0]


async def test_device() -> None:
    assert await files.read_file("/dev/null") == b""
    assert await files.write_file("/dev/null", b"gone") == 4


@pytest.mark.engines_only("the stand-in blocks in open()")
async def test_pipe(tmp_path: Path, engine: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    content = os.urandom(300_000)
    read, written = await asyncio.gather(files.read_file(fifo), files.write_file(fifo, content))
    assert (read, written) == (content, len(content))


@pytest.mark.engines_only("the stand-in blocks in open()")
async def test_pipe_that_nobody_opens_can_be_given_up(tmp_path: Path, engine: str) -> None:
    for name in ("read", "written"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(TimeoutError):
        await files.read_file(tmp_path / "read", timeout=0.02)
    with pytest.raises(TimeoutError):
        await files.write_file(tmp_path / "written", b"x", timeout=0.02)
    # A thread that waits in open(2) ends when the other end comes; what it has opened is closed then.
    for name in ("read", "written"):
        fd = os.open(tmp_path / name, os.O_RDWR | os.O_NONBLOCK)
        await asyncio.sleep(0.05)
        os.close(fd)


async def test_full_disk() -> None:
    for function in (files.write_file("/dev/full", b"x"), files.write_text("/dev/full", "x" * 100_000)):
        with pytest.raises(OSError, match="No space left") as caught:
            await function
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")


async def test_shrinking_and_growing_files_are_read_to_their_end(path: Path) -> None:
    is_over = threading.Event()

    def change() -> None:
        with open(path, "r+b", buffering=0) as file:
            while not is_over.is_set():
                file.truncate(10)
                file.truncate(3_000_000)

    path.write_bytes(bytes(3_000_000))
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            content = await files.read_file(path)
            assert len(content) <= 3_000_000
            assert not content.strip(b"\0")
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
async def test_text_is_that_of_open(path: Path, encoding: str, newline: str | None) -> None:
    text = "första\r\nzweite\rdritte\nlast"
    with open(path, "w", encoding=encoding, newline=newline) as file:
        file.write(text)
    expected = path.read_bytes()
    assert await files.write_text(path, text, encoding, newline=newline) == len(text)
    assert path.read_bytes() == expected
    with open(path, encoding=encoding, newline=newline) as file:
        model = file.read()
    assert await files.read_text(path, encoding, newline=newline) == model


async def test_text_errors(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UnicodeDecodeError):
        await files.read_text(path, "utf-8")
    assert await files.read_text(path, "utf-8", "replace") == "\ufffd\ufffd"
    for keywords in ({"encoding": "none"}, {"encoding": "utf-8", "newline": "x"}):
        expected = outcome(lambda keywords=keywords: open(path, **keywords))  # type: ignore[arg-type]
        assert await awaited(lambda keywords=keywords: files.read_text(path, **keywords)) == expected
    with pytest.raises(UnicodeEncodeError):
        await files.write_text(path, "ä", "ascii")
    with pytest.raises(TypeError, match="data must be str, not bytes"):
        await files.write_text(path, b"x")  # type: ignore[arg-type]
    assert path.read_bytes() == b"\xff\xfe"


async def test_data_may_be_anything_bytes_like(path: Path) -> None:
    for data in (bytearray(b"abcd"), memoryview(b"abcd"), memoryview(bytearray(b"abcdabcd")).cast("I")[:1]):
        for atomic in (False, True):
            assert await files.write_file(path, data, atomic=atomic) == 4
            assert path.read_bytes() == b"abcd"


async def test_new_files_get_mode_and_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        for atomic in (False, True):
            for mode in (0o666, 0o600):
                name = tmp_path / f"{atomic}{mode}"
                await files.write_file(name, b"", mode=mode, atomic=atomic)
                assert stat.S_IMODE(name.stat().st_mode) == mode & ~0o027
    finally:
        os.umask(old)


# -- atomic ----------------------------------------------------------------------------------------


async def test_atomic_write_keeps_mode_and_owner_and_replaces_the_file(path: Path) -> None:
    path.write_text("old")
    # A write by an ordinary user clears the set-user-ID bit, with `open()` too: write(2).
    path.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(path, 1234, 5678)
        path.chmod(0o4751)
    before = path.stat()
    with open(path) as reader:
        assert await files.write_file(path, b"new", atomic=True) == 3
        assert reader.read() == "old"
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert os.listdir(path.parent) == [path.name]


async def test_atomic_write_reaches_the_disk_before_and_after_the_rename(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content first, or a crash leaves an empty file under the name; then the folder, or it leaves the old one."""
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "content")
        if steps[-1] == "folder":
            assert os.path.samestat(os.fstat(fd), path.parent.stat())
        real_fsync(fd)

    def rename(*args: Any, **keywords: Any) -> None:
        steps.append("rename")
        real_rename(*args, **keywords)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    await files.write_file(path, b"new", atomic=True)
    assert steps == ["content", "rename", "folder"]


async def test_atomic_write_goes_through_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real/file")
    for text in ("first", "second"):
        await files.write_text(link, text, atomic=True)
        assert link.is_symlink()
        assert (tmp_path / "real/file").read_text() == text


async def test_atomic_write_replaces_regular_files_only(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="can only replace a regular file") as caught:
        await files.write_file(fifo, b"x", atomic=True)
    assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, str(fifo))
    assert stat.S_ISFIFO(fifo.stat().st_mode)


STEPS = ["write", "fchmod", "fsync", "link", "rename"]


@pytest.mark.parametrize(
    ("step", "is_named"),
    # A file with a name needs no link.
    [(step, False) for step in STEPS] + [(step, True) for step in STEPS if step != "link"],
)
async def test_failed_atomic_write_leaves_the_old_file_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_named: bool
) -> None:
    if is_named:
        forbid_unnamed(monkeypatch)
    path.write_text("old")

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        await files.write_file(path, b"new", atomic=True)
    monkeypatch.undo()
    assert caught.value.filename == str(path)
    assert caught.value.filename2 is None
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == [path.name]


def forbid_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a filesystem without O_TMPFILE."""
    real_open = os.open

    def without_tmpfile(name: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real_open(name, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", without_tmpfile)


async def test_atomic_write_without_unnamed_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_unnamed(monkeypatch)
    for content in (b"one", b"two"):
        await files.write_file(path, content, atomic=True)
        assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("is_named", [False, True], ids=["tmpfile", "named"])
async def test_cancelled_atomic_write_leaves_old_or_new_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    if is_named:
        forbid_unnamed(monkeypatch)
    old, new = b"o" * 100, b"n" * 9_000_000
    for ticks in range(6):
        path.write_bytes(old)
        is_cancelled = await cancelled_after(files.write_file(path, new, atomic=True), ticks)
        assert path.read_bytes() in (old, new)
        assert is_cancelled or path.read_bytes() == new
        assert os.listdir(path.parent) == [path.name]


@pytest.mark.engines_only("the stand-in has no threads")
async def test_job_that_is_given_up_before_the_rename_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    path.write_text("old")
    has_begun, may_end = threading.Event(), threading.Event()

    def slow_fsync(fd: int) -> None:
        has_begun.set()
        may_end.wait(60)

    monkeypatch.setattr(os, "fsync", slow_fsync)
    task = asyncio.ensure_future(files.write_file(path, b"new", atomic=True))
    while not has_begun.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == [path.name]


async def test_cancelled_reads_and_writes_leave_no_descriptor(path: Path) -> None:
    path.write_bytes(bytes(3_000_000))
    for ticks in range(8):
        await cancelled_after(files.read_file(path), ticks)
        await cancelled_after(files.write_file(path, bytes(100_000)), ticks)
        path.write_bytes(bytes(3_000_000))


async def test_timeouts(path: Path) -> None:
    path.write_bytes(b"x" * 1_000_000)
    assert len(await files.read_file(path, timeout=60)) == 1_000_000
    assert await files.read_text(path, timeout=60) == "x" * 1_000_000
    assert await files.write_file(path, b"1", timeout=60) == 1
    assert await files.write_file(path, b"1", atomic=True, timeout=60) == 1


@pytest.mark.filterwarnings("error")
async def test_a_timeout_is_checked_when_it_is_given(path: Path) -> None:
    path.write_bytes(b"cached")
    assert await files.read_file(path) == b"cached"
    calls: list[Callable[[Any], Any]] = [
        lambda timeout: files.read_file(path, timeout=timeout),
        lambda timeout: files.stat(path, timeout=timeout),
        lambda timeout: files.write_file(path, b"new", timeout=timeout),
        lambda timeout: files.Path(path).read_bytes(timeout=timeout),
        lambda timeout: anext(files.walk(path, timeout=timeout)),
        lambda timeout: anext(files.glob(f"{path}*", timeout=timeout)),
        lambda timeout: anext(files.scandir(path.parent, timeout=timeout)),
    ]
    refused: list[Any] = ["1", 1j, [1], Decimal(1)]
    for timeout in refused:
        kind = type(timeout).__name__
        for call in calls:
            with pytest.raises(TypeError, match=f"^timeout must be a number of seconds or None, not '{kind}'$"):
                await call(timeout)
    assert path.read_bytes() == b"cached"
    # What needs no wait is in time; the rest is as asyncio.timeout has it.
    accepted: list[Any] = [True, 1.5, Fraction(3, 2), 60, math.inf]
    for timeout in accepted:
        assert await files.read_file(path, timeout=timeout) == b"cached"


@pytest.mark.engines_only("the stand-in blocks in open()")
@pytest.mark.parametrize("timeout", [0, -1, math.nan])
async def test_a_timeout_that_is_over_ends_what_waits(tmp_path: Path, timeout: float) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TimeoutError):
        await files.read_file(tmp_path / "fifo", timeout=timeout)
    # A thread that waits in open(2) all the same ends when the other end comes.
    os.close(os.open(tmp_path / "fifo", os.O_RDWR | os.O_NONBLOCK))


async def test_many_at_once(tmp_path: Path) -> None:
    names = [tmp_path / str(number) for number in range(200)]
    await asyncio.gather(*(files.write_file(name, name.name.encode() * 1000) for name in names))
    contents = await asyncio.gather(*map(files.read_file, names))
    assert contents == [name.name.encode() * 1000 for name in names]


# -- what a file that was replaced keeps -------------------------------------------------------------


def acl_of(*entries: tuple[int, int, int]) -> bytes:
    """An access control list as its attribute has it: tag, rights, id."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 0xFFFF_FFFF
# user::rw-, user:12345:---, group::r--, mask::r--, other::r--
FORBIDS = acl_of((0x01, 6, NOBODY), (0x02, 0, 12345), (0x04, 4, NOBODY), (0x10, 4, NOBODY), (0x20, 4, NOBODY))
# Whoever is in the folder's default list gets in.
ALLOWS = acl_of((0x01, 6, NOBODY), (0x02, 6, 12345), (0x04, 0, NOBODY), (0x10, 6, NOBODY), (0x20, 0, NOBODY))


def set_or_skip(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as exc:
        pytest.skip(f"this file system has no {name}: {exc}")


async def test_an_atomic_write_keeps_attributes(path: Path) -> None:
    path.write_bytes(b"old")
    set_or_skip(path, "user.colour", b"blue")
    await files.write_file(path, b"new", atomic=True)
    assert os.getxattr(path, "user.colour") == b"blue"
    assert path.read_bytes() == b"new"


async def test_an_atomic_write_keeps_an_access_control_list(path: Path) -> None:
    path.write_bytes(b"old")
    set_or_skip(path, "system.posix_acl_access", FORBIDS)
    mode = path.stat().st_mode
    await files.write_file(path, b"new", atomic=True)
    assert os.getxattr(path, "system.posix_acl_access") == FORBIDS
    assert path.stat().st_mode == mode


async def test_the_folders_list_lets_nobody_into_a_replaced_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o660)
    set_or_skip(tmp_path, "system.posix_acl_default", ALLOWS)
    await files.write_file(path, b"new", atomic=True)
    assert "system.posix_acl_access" not in os.listxattr(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


@pytest.mark.parametrize(
    ("mode", "keeps_owner", "keeps_group", "expected"),
    [
        (0o640, True, True, 0o640),
        (0o640, False, True, 0o640),
        (0o640, True, False, 0o600),
        (0o664, True, False, 0o604),
        (0o604, True, False, 0o600),
        (0o604, False, True, 0o604),
        (0o266, False, True, 0o222),
        (0o6755, False, False, 0o705),
    ],
)
async def test_what_cannot_be_kept_lets_nobody_in(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, keeps_owner: bool, keeps_group: bool, expected: int
) -> None:
    """Each id is asked for by itself; rights that would be another's go."""
    path.write_bytes(b"old")
    path.chmod(mode)
    asked: list[tuple[int, int]] = []
    real, fstat = os.fchown, os.fstat
    status = path.stat()

    def fchown(fd: int, owner: int, group: int) -> None:
        asked.append((owner, group))
        if (owner != -1 and not keeps_owner) or (group != -1 and not keeps_group):
            raise PermissionError(errno.EPERM, "not yours to give")
        real(fd, status.st_uid if owner != -1 else -1, status.st_gid if group != -1 else -1)

    def of_another(fd: int) -> os.stat_result:
        found = fstat(fd)
        return os.stat_result([*found[:4], found.st_uid + 1, found.st_gid + 1, *found[6:]])

    monkeypatch.setattr("oneloop.files.replacement.os.fchown", fchown)
    monkeypatch.setattr("oneloop.files.replacement.os.fstat", of_another)
    await files.write_file(path, b"new", atomic=True)
    monkeypatch.undo()
    assert asked == [(status.st_uid, -1), (-1, status.st_gid)]
    assert oct(stat.S_IMODE(path.stat().st_mode)) == oct(expected)


async def test_a_list_without_its_group(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"old")
    set_or_skip(path, "system.posix_acl_access", FORBIDS)
    monkeypatch.setattr("oneloop.files.replacement._gave", lambda fd, owner, group: group == -1)
    monkeypatch.setattr("oneloop.files.replacement.os.fstat", lambda fd: os.stat_result([0] * 4 + [-5, -5] + [0] * 4))
    await files.write_file(path, b"new", atomic=True)
    monkeypatch.undo()
    expected = acl_of((0x01, 6, NOBODY), (0x02, 0, 12345), (0x04, 0, NOBODY), (0x10, 4, NOBODY), (0x20, 4, NOBODY))
    assert os.getxattr(path, "system.posix_acl_access") == expected


@pytest.mark.parametrize("name", ["file/", "missing/", "missing/file/", "folder/", "folder"])
async def test_atomic_write_refuses_the_names_that_open_refuses(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    wrong = f"{tmp_path}/{name}"
    with pytest.raises(OSError) as wanted:  # noqa: PT011
        open(wrong, "wb")
    with pytest.raises(OSError) as caught:  # noqa: PT011
        await files.write_file(wrong, b"new", atomic=True)
    assert (caught.value.errno, caught.value.filename) == (wanted.value.errno, wrong)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"old"


async def test_atomic_write_of_a_file_that_may_not_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"old")
    path.chmod(0o444)
    if os.geteuid() == 0:
        # The superuser may write it, with open() too.
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(PermissionError) as caught:
        await files.write_file(path, b"new", atomic=True)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"


async def test_atomic_write_whose_directory_cannot_be_flushed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"old")
    fsync = os.fsync

    def flush(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(number)

    monkeypatch.setattr(os, "fsync", flush)
    with pytest.raises(OSError, match="Input/output error") as caught:
        await files.write_file(path, b"new", atomic=True)
    assert "The new content is in place" in caught.value.__notes__[0]
    assert path.read_bytes() == b"new"
