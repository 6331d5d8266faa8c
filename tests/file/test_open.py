"""open(): what it opens, what it raises, and what it leaves behind when that fails: nothing."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop import files
from oneloop.compat import aiofiles
from oneloop.files import opening
from tests.conftest import cancelled
from tests.file.conftest import told, use_engine

pytestmark = pytest.mark.usefixtures("loop")


async def told_by(call: Any) -> Any:
    try:
        file = await call()
    except Exception as exc:
        return type(exc), str(exc)
    await file.close()
    return None


async def test_it_can_be_awaited_or_entered(path: Path) -> None:
    file = await files.open(path, "wb")
    assert isinstance(file, files.BinaryFile)
    await file.write(b"1")
    assert not file.closed
    await file.close()
    assert file.closed
    async with files.open(path) as text:
        assert isinstance(text, files.TextFile)
        assert await text.read() == "1"
    assert text.closed
    async with await files.open(path, "rb", 0) as raw:
        assert isinstance(raw, files.UnbufferedFile)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("missing", "r"), (b"missing", "rb"), ("missing/x", "w"), (".", "r"), (".", "rb"), (".", "w"), ("there", "x")],
)
async def test_errors_are_those_of_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | bytes, mode: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").touch()
    errors = []
    for call in (open, files.open):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - compared below
            file: Any = call(name, mode)  # type: ignore[operator]
            await file
        error = caught.value
        errors.append((type(error), error.errno, error.strerror, error.filename, error.filename2, str(error)))
    assert errors[0] == errors[1]


async def test_a_path_is_told_as_text(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as caught:
        await files.open(missing)
    assert caught.value.filename == str(missing)
    async with files.open(missing, "w") as file:
        assert file.name == str(missing)
    async with files.open(os.fsencode(missing)) as file:
        assert file.name == os.fsencode(missing)


@pytest.mark.parametrize("mode", ["r", "r+", "w", "w+", "a", "a+", "x", "x+"])
async def test_what_a_file_says_of_itself(path: Path, mode: str) -> None:
    for kind in ("", "b"):
        for buffering in (-1, 0) if kind else (-1, 1):
            if mode.startswith("x"):
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(b"four")
            with open(path, mode + kind, buffering) as model:
                if mode.startswith("x"):
                    path.unlink()
                async with files.open(path, mode + kind, buffering) as file:
                    for name in ("readable", "writable", "seekable", "isatty"):
                        assert getattr(file, name)() is getattr(model, name)(), name
                    assert file.mode == model.mode
                    assert file.name == model.name
                    assert await file.tell() == model.tell()
                    if isinstance(file, files.TextFile):
                        for name in ("encoding", "errors", "newlines", "line_buffering"):
                            assert getattr(file, name) == getattr(model, name), name
                        assert isinstance(file.buffer, files.BinaryFile)
                    assert repr(str(path)) in repr(file)
                    assert not os.get_inheritable(file.fileno())


async def test_a_number_is_taken_over_or_not(path: Path) -> None:
    path.write_bytes(b"0123456789")
    number = os.open(path, os.O_RDWR)
    os.lseek(number, 4, os.SEEK_SET)
    async with files.open(number, "rb", closefd=False) as file:
        assert file.name == number
        assert await file.read(2) == b"45"
        assert await file.tell() == 6
    os.lseek(number, 0, os.SEEK_SET)
    async with files.open(number, "r+") as text:
        assert await text.read() == "0123456789"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        await files.open(number)
    assert caught.value.filename is None


async def test_a_directory_by_number_stays_open(tmp_path: Path) -> None:
    number = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError) as caught:
        await files.open(number, "rb", closefd=False)
    assert caught.value.filename == number
    os.close(number)


async def test_dir_fd(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    async with files.open("inside", "w", dir_fd=folder) as file:
        await file.write("x")
    os.close(folder)
    assert (tmp_path / "inside").read_text() == "x"


async def test_an_opener_opens(tmp_path: Path) -> None:
    seen = []

    def opener(path: str, flags: int) -> int:
        seen.append((path, flags))
        number = os.open(tmp_path / path, flags, 0o600)
        os.set_inheritable(number, True)
        return number

    async with files.open("made", "wb", opener=opener) as file:
        await file.write(b"x")
        assert file.name == "made"
        assert not os.get_inheritable(file.fileno())
        assert not fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_APPEND
    ((path, flags),) = seen
    assert path == "made"
    assert flags & os.O_CLOEXEC
    assert (tmp_path / "made").read_bytes() == b"x"


@pytest.mark.parametrize("opener", [lambda path, flags: -1, lambda path, flags: "x", 3], ids=["-1", "x", "3"])
async def test_an_opener_that_does_not(opener: Any) -> None:
    expected = told(lambda: open(os.devnull, opener=opener))
    assert await told_by(lambda: files.open(os.devnull, opener=opener).__aenter__()) == expected


async def test_an_opener_that_is_too_late(loop: Any, engine: str, path: Path) -> None:
    path.touch()
    opened = []

    def opener(path: str, flags: int) -> int:
        opened.append(os.open(path, flags))
        return opened[-1]

    opening = asyncio.ensure_future(files.open(path, opener=opener).__aenter__())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    while not opened:
        await asyncio.sleep(0.001)
    for _ in range(5):
        await asyncio.sleep(0.001)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


@pytest.mark.parametrize("ticks", range(5))
async def test_cancelled_at_every_step(path: Path, ticks: int) -> None:
    path.write_bytes(b"x" * 100_000)

    async def use() -> None:
        async with files.open(path, "r+b") as file:
            await file.read(10)
            await file.write(b"y" * 100_000)

    await cancelled(use(), ticks)
    # A cancelled close goes on by itself. The audit counts descriptors.
    if closing := [left for left in asyncio.all_tasks() if "_finish" in repr(left)]:
        await asyncio.wait(closing)
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("mode", ["rb", "wb"])
@pytest.mark.engines_only("the stand-in opens where it stands")
async def test_a_fifo_that_nobody_opens(engine: str, path: Path, mode: str) -> None:
    os.mkfifo(path)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await files.open(path, mode)
    with pytest.raises(TimeoutError):
        await files.open(path, mode, timeout=0.05)
    # A thread that still waits in there is let go, and what it opened is closed.
    number = os.open(path, os.O_RDWR)
    for _ in range(20):
        await asyncio.sleep(0.005)
    os.close(number)


async def test_what_cannot_be_read_and_written(path: Path) -> None:
    os.mkfifo(path)
    number = os.open(path, os.O_RDWR)
    with pytest.raises(io.UnsupportedOperation, match="not seekable"):
        await files.open(number, "r+b")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


async def test_unclosed_files_are_told_of_and_closed(path: Path) -> None:
    for mode, name in (("w", "TextFile"), ("wb", "BinaryFile")):
        file: Any = await files.open(path, mode)
        await file.write("kept" if mode == "w" else b"kept")
        number = file.buffer.handle.number if mode == "w" else file.handle.number
        with pytest.warns(ResourceWarning, match=f"unclosed file <oneloop.files.{name} name="):
            del file
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
        # Nothing is lost silently.
        assert path.read_bytes() == b"kept"


async def test_an_unclosed_file_is_written_to_its_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file: Any = await files.open(path, "wb")
    await file.write(b"0123456789")
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: whole(fd, data[:3], offset))
    with pytest.warns(ResourceWarning, match="unclosed file"):
        del file
    assert path.read_bytes() == b"0123456789"


@pytest.mark.parametrize("mode", ["r", "rb"])
async def test_a_file_that_cannot_be_made_is_closed_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    path.write_bytes(b"content")
    for name in ("text_file", "BinaryFile"):
        monkeypatch.setattr(opening, name, fail)
    with pytest.raises(MemoryError):
        await files.open(path, mode)
    # The kernel knows the path now, and it is opened at once.
    await files.stat(path)
    with pytest.raises(MemoryError):
        await files.open(path, mode)


def test_a_loop_of_another_kind_is_refused(path: Path) -> None:
    async def main() -> None:
        await files.open(path, "w")

    with pytest.raises(RuntimeError, match="needs a oneloop event loop, not"):
        _run_stock(main())


def _run_stock(coroutine: Any) -> None:
    loop = asyncio.SelectorEventLoop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        loop.close()


def test_another_loop_is_refused(loop: Any, engine: str, path: Path) -> None:
    async def make() -> Any:
        file = await files.open(path, "w+b")
        await file.write(b"x")
        return file

    file = loop.run_until_complete(make())
    other = oneloop.new_event_loop()
    use_engine(other, engine)
    for call in (file.read, file.flush, file.close, lambda: file.write(b"y")):
        with pytest.raises(RuntimeError, match="belongs to another event loop: open it in the loop that uses it"):
            other.run_until_complete(call())
    loop.run_until_complete(file.close())
    other.close()


def test_a_closed_loop_is_told(path: Path, engine: str) -> None:
    loops = [oneloop.new_event_loop() for _ in range(2)]
    for made in loops:
        use_engine(made, engine)
    file = loops[0].run_until_complete(files.open(path, "wb").__aenter__())
    loops[0].close()
    with pytest.raises(RuntimeError, match="whose loop is closed"):
        loops[1].run_until_complete(file.write(b"x"))
    loops[1].close()
    del file
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()


@pytest.mark.parametrize("use", ["with opening: pass", "for line in opening: pass", "iter(opening)"])
async def test_an_opening_is_not_the_file(path: Path, use: str) -> None:
    with pytest.raises(TypeError, match=r"not open yet: use `async with oneloop\.files\.open"):
        exec(use, {"opening": files.open(path, "wb")})
    assert not path.exists()


async def test_an_opening_has_no_methods_of_the_file(path: Path) -> None:
    given: Any = files.open(path, "wb")
    with pytest.raises(AttributeError, match=r"no attribute 'write': .* or `file = await oneloop\.files\.open"):
        given.write(b"")
    with pytest.raises(TypeError, match="not open yet"):
        async for _ in given:
            pass
    given = files.NamedTemporaryFile()
    with pytest.raises(AttributeError, match="no attribute 'write': the file is not open yet, so use `async with"):
        given.write(b"")


@pytest.mark.parametrize("use", [files.engine_info, lambda: files.read_file(__file__).send(None)])
def test_without_a_loop_the_error_says_how_to_run_one(use: Any) -> None:
    with pytest.raises(RuntimeError, match=r"no running event loop: call .* with oneloop\.run\(main\(\)\)"):
        use()


def a_folder() -> list[int]:
    return [os.open("/", os.O_RDONLY)]


def a_pipe() -> list[int]:
    return list(os.pipe())


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("closefd", [True, False])
@pytest.mark.parametrize(("make", "mode"), [(a_folder, "r"), (a_folder, "rb"), (a_pipe, "r+"), (a_pipe, "r+b")])
@pytest.mark.parametrize("opens", [files.open, aiofiles.open], ids=["files", "aiofiles"])
async def test_a_descriptor_that_cannot_be_a_file(
    opens: Any, make: Callable[[], list[int]], mode: str, closefd: bool
) -> None:
    """It is left open or closed as by open(): the program may use it on, or its number is taken by the next open."""
    model, ours = make(), make()
    with pytest.raises(OSError) as wanted:  # noqa: PT011
        open(model[0], mode, closefd=closefd)
    with pytest.raises(OSError) as caught:  # noqa: PT011
        await opens(ours[0], mode, closefd=closefd)
    assert type(caught.value) is type(wanted.value)
    found = [[is_open(number) for number in numbers] for numbers in (ours, model)]
    for number in (number for number in (*model, *ours) if is_open(number)):
        os.close(number)
    assert found[0] == found[1]
