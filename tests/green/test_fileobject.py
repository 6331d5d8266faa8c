"""Files for green threads: they behave as the built-in's and block no others; pipes, terminals, sockets, OS threads."""

from __future__ import annotations

import gc
import io
import os
import pty
import socket as stock
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.files.engine import files_of
from oneloop.green import fileobject
from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.fileobject import (
    FileObject,
    FileObjectBlock,
    FileObjectClosed,
    FileObjectPosix,
    FileObjectThread,
)
from oneloop.green.polled_file import PolledFile, PooledFile
from oneloop.green.regular_file import RegularFile
from tests.file.slow_filesystem import SlowFilesystem, mounted

LINES = "".join(f"line {number} äöü\n" for number in range(3000))

Make = Callable[..., Any]
KINDS: list[Make] = [fileobject.open, FileObjectPosix, FileObjectThread, FileObjectBlock]
PIPE_KINDS: list[Make] = [FileObjectPosix, FileObjectThread]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text(LINES, encoding="utf-8", newline="")
    return path


@pytest.fixture
def pipe() -> tuple[int, int]:
    """The ends are closed by the test, or by the objects that it passes them to."""
    return os.pipe()


# -- compared with the built-in ----------------------------------------------------------------------


def use_text(file: Any) -> list[Any]:
    return [
        file.readline(),
        file.read(10),
        [next(file) for _ in range(3)],
        file.readlines(200),
        len(file.read()),
        file.read(),
        file.seek(0),
        list(file)[-1],
        file.name and 1,
        file.mode,
        file.encoding,
        file.readable(),
        file.writable(),
        file.seekable(),
        file.isatty(),
    ]


def use_bytes(file: Any) -> list[Any]:
    buffer = bytearray(20)
    return [
        file.readline(),
        file.read(10),
        file.tell(),
        file.readinto(buffer),
        bytes(buffer),
        file.seek(-5, os.SEEK_END),
        file.read(),
        file.seek(100),
        len(file.read()),
        file.tell(),
        file.mode,
        file.seekable(),
    ]


def write_text(file: Any) -> list[Any]:
    written = [file.write("one\n"), file.write("zwei " * 5000), file.tell()]
    file.writelines(["a\n", "b"])
    file.flush()
    return [*written, file.truncate(7), file.readable()]


def update_bytes(file: Any) -> list[Any]:
    told = [file.read(5), file.write(b"XXX"), file.tell(), file.seek(0), file.read(12)]
    return [*told, file.seek(0, os.SEEK_END), file.write(b"end"), file.truncate(50), file.tell()]


def append_bytes(file: Any) -> list[Any]:
    return [file.tell(), file.write(b"more"), file.seek(3), file.write(b"again"), file.tell()]


CASES = [
    ("r", use_text, {"encoding": "utf-8"}),
    ("r", use_text, {"encoding": "utf-8", "newline": ""}),
    ("r", use_text, {"encoding": "utf-8", "buffering": 64}),
    ("rb", use_bytes, {}),
    ("rb", use_bytes, {"buffering": 16}),
    ("rb", use_bytes, {"buffering": 0}),
    ("w", write_text, {"encoding": "utf-8", "newline": "\r\n"}),
    ("w", write_text, {"encoding": "latin-1", "buffering": 1}),
    ("r+b", update_bytes, {}),
    ("r+b", update_bytes, {"buffering": 0}),
    ("ab", append_bytes, {}),
    ("ab", append_bytes, {"buffering": 0}),
]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(("mode", "use", "keywords"), CASES)
def test_it_does_what_the_builtin_does(
    make: Make, mode: str, use: Callable[[Any], list[Any]], keywords: Any, path: Path
) -> None:
    with open(path, mode, **keywords) as file:
        wanted = use(file)
    content = path.read_bytes()
    path.write_text(LINES, encoding="utf-8", newline="")
    with make(path, mode, **keywords) as file:
        assert use(file) == wanted
    assert path.read_bytes() == content
    assert file.closed


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    ("name", "mode", "keywords"),
    [
        ("nothing", "r", {}),
        (".", "r", {}),
        ("file", "x", {}),
        ("file", "q", {}),
        ("file", "rb", {"encoding": "utf-8"}),
        ("file", "r", {"encoding": "nonsense"}),
        ("file", "rb+", {"errors": "strict"}),
        (10**6, "r", {}),
        (None, "r", {}),
    ],
)
def test_it_refuses_what_the_builtin_refuses(make: Make, name: Any, mode: str, keywords: Any, path: Path) -> None:
    if isinstance(name, str):
        name = path.parent / name
    with pytest.raises((OSError, ValueError, TypeError, LookupError)) as wanted:
        open(name, mode, **keywords)
    with pytest.raises(wanted.type) as refused:
        make(name, mode, **keywords)
    if isinstance(wanted.value, OSError):
        assert isinstance(refused.value, OSError)
        assert refused.value.errno == wanted.value.errno


def test_what_is_not_allowed(path: Path) -> None:
    with fileobject.open(path, "rb") as file, pytest.raises(io.UnsupportedOperation):
        file.write(b"1")
    with fileobject.open(path, "ab", 0) as file, pytest.raises(io.UnsupportedOperation):
        file.read(1)
    with fileobject.open(path, "rb", 0) as file, pytest.raises(io.UnsupportedOperation):
        file.truncate(1)
    with pytest.raises(TypeError):
        FileObject(path, bufsize=1, buffering=1)
    with pytest.raises(ValueError, match="unbuffered"):
        fileobject.open(path, "r", 0)


def test_an_opener(path: Path) -> None:
    def opens(name: str, flags: int) -> int:
        green.sleep(0)
        return os.open(name, flags)

    with fileobject.open(path, "rb", opener=opens) as file:
        assert file.read(4) == b"line"
        assert not os.get_inheritable(file.fileno())
    with pytest.raises(ValueError, match="opener returned"):
        fileobject.open(path, opener=lambda *_: -1)
    with pytest.raises(TypeError, match="integer"):
        fileobject.open(path, opener=lambda *_: "1")  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("make", KINDS[1:])
def test_closed(make: Make, path: Path) -> None:
    file = make(path)
    file.close()
    file.close()
    assert file.closed
    assert "closed" in repr(file)
    for use in (file.read, file.fileno, file.flush, file.__enter__, lambda: next(file), lambda: file.io):
        with pytest.raises(FileObjectClosed):
            use()


@pytest.mark.parametrize("make", KINDS[1:])
def test_whose_descriptor_it_is(make: Make, path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    with make(number, "rb", close=False) as file:
        assert file.read(4) == b"line"
        assert file.fileno() == number
    os.close(number)
    number = os.open(path, os.O_RDONLY)
    make(number, "rb").close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(number)


@pytest.mark.parametrize("make", KINDS[1:])
def test_a_file_object_is_given(make: Make, path: Path) -> None:
    with path.open("r+b") as given:
        given.read(5)
        with make(given, "r+b", close=False) as file:
            assert file.read(3) == b"0 \xc3"
        assert not given.closed
        given.seek(0)
        given.write(b"LINE")
        with make(given, "r+b") as file:
            file.seek(0)
            assert file.read(6) == b"LINE 0"
        assert given.closed


def test_a_file_without_a_descriptor() -> None:
    with FileObjectThread(io.BytesIO(b"in memory"), "rb") as file:
        assert file.read(2) == b"in"
    with pytest.raises(io.UnsupportedOperation):
        FileObject(io.BytesIO(b""), "rb")


def test_what_nobody_has_closed(path: Path) -> None:
    files = [fileobject.open(path, "w"), fileobject.open("/dev/zero", "rb", 0)]
    files[0].write("kept")
    numbers = [file.fileno() for file in files]
    for _ in range(2):
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del files[0]
    gc.collect()
    assert path.read_text() == "kept"
    # An OS thread closes one end.
    while any(Path(f"/proc/self/fd/{number}").exists() for number in numbers):
        green.sleep(0.001)


def test_kinds(path: Path, pipe: tuple[int, int]) -> None:
    with fileobject.open(path, "rb") as file:
        assert isinstance(file.raw, RegularFile)
        assert "RegularFile" in repr(file.raw)
    with fileobject.open("/dev/zero", "rb") as file:
        assert isinstance(file.raw, PooledFile)
        assert file.read(3) == bytes(3)
    with fileobject.open("/dev/null", "wb") as file:
        assert file.write(b"away") == 4
    for number in pipe:
        with FileObject(number, "rb") as file:
            assert isinstance(file.raw, PolledFile)
            assert not file.seekable()


# -- taking turns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [fileobject.open, FileObjectThread])
def test_many_green_threads_use_one_file(make: Make, path: Path) -> None:
    with make(path, "rb", 32) as file:
        got: list[bytes] = []

        def reads() -> None:
            while line := file.readline():
                got.append(line)
                green.sleep(0)

        green.joinall([green.spawn(reads) for _ in range(10)], raise_error=True)
    assert sorted(got) == sorted(LINES.encode().splitlines(keepends=True))


def test_one_that_is_killed_while_it_waits_for_its_turn(pipe: tuple[int, int]) -> None:
    with FileObject(pipe[0], "rb") as file, FileObject(pipe[1], "wb", 0) as other:
        first, second, third = (green.spawn(file.read, 3) for _ in range(3))
        green.sleep(0)
        second.kill()
        other.write(b"abcdef")
        assert (first.get(), third.get()) == (b"abc", b"def")


@pytest.mark.parametrize("make", PIPE_KINDS)
def test_pipes(make: Make, pipe: tuple[int, int]) -> None:
    read, write = make(pipe[0], "r", encoding="utf-8"), make(pipe[1], "w", encoding="utf-8")
    ticks = 0

    def writes() -> None:
        with write:
            for number in range(500):
                write.write(f"line {number}\n")

    def ticking() -> None:
        nonlocal ticks
        while True:
            green.sleep(0)
            ticks += 1

    writing, clock = green.spawn(writes), green.spawn(ticking)
    with read:
        assert [line.split()[1] for line in read] == [str(number) for number in range(500)]
    writing.get()
    clock.kill()
    assert ticks > 0


def test_all_of_it_is_written_without_a_buffer(pipe: tuple[int, int]) -> None:
    with FileObject(pipe[0], "rb") as read, FileObject(pipe[1], "wb", 0) as write:
        reading = green.spawn(read.read, 1_000_000)
        assert write.write(bytes(1_000_000)) == 1_000_000
        assert reading.get() == bytes(1_000_000)


def test_a_socket_and_a_terminal() -> None:
    left, right = stock.socketpair()
    with FileObject(left, "rb") as read, FileObject(right, "wb") as write:
        reading = green.spawn(read.readline)
        green.sleep(0)
        write.write(b"told\n")
        write.flush()
        assert reading.get() == b"told\n"
    assert left.fileno() == -1
    master, slave = pty.openpty()
    with FileObject(master, "wb") as typist, FileObject(slave, "r") as terminal:
        reading = green.spawn(terminal.readline)
        green.sleep(0)
        typist.write(b"typed\n")
        typist.flush()
        assert reading.get() == "typed\n"
        assert os.get_blocking(slave)
        assert terminal.isatty()


def test_a_borrowed_descriptor_is_blocking_again(pipe: tuple[int, int]) -> None:
    read, write = pipe
    one, other = FileObject(read, "rb", close=False), FileObject(read, "rb", close=False)
    assert not os.get_blocking(read)
    one.close()
    assert not os.get_blocking(read)
    other.close()
    assert os.get_blocking(read)
    os.close(read)
    os.close(write)


def test_closed_while_somebody_reads(pipe: tuple[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    file = FileObject(pipe[0], "rb")
    reading, next_one = green.spawn(file.read, 1), green.spawn(file.read, 1)
    green.sleep(0)
    file.close()
    for greenlet in (reading, next_one):
        greenlet.join()
        assert isinstance(greenlet.exception, FileObjectClosed)
    assert capsys.readouterr().err.count("failed with FileObjectClosed") == 2
    os.close(pipe[1])


def test_a_killed_reader_takes_nothing(pipe: tuple[int, int]) -> None:
    with FileObject(pipe[0], "rb") as read, FileObject(pipe[1], "wb", 0) as write:
        reading = green.spawn(read.read, 3)
        green.sleep(0)
        reading.kill()
        write.write(b"abc")
        with green.Timeout(20):
            assert read.read(3) == b"abc"
        with pytest.raises(green.Timeout), green.Timeout(0.001):
            read.read(1)


def test_in_a_coroutine(path: Path, pipe: tuple[int, int]) -> None:
    file, read, pooled = fileobject.open(path), FileObject(pipe[0]), fileobject.open("/dev/zero", "rb")
    thread = FileObjectThread(path)

    async def main() -> None:
        for use in (lambda: fileobject.open(path), file.read, read.read, pooled.read, thread.read):
            with pytest.raises(BlockingSwitchOutError, match="would block the event loop"):
                use()

    oneloop.run(main())
    for opened in (file, read, pooled, thread):
        opened.close()
    os.close(pipe[1])


# -- slow disks --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowFilesystem]:
    with mounted(tmp_path_factory.mktemp("slow")) as filesystem:
        yield filesystem


def whole(path: Path) -> None:
    with fileobject.open(path, "rb") as file:
        assert file.read() == LINES.encode()


def lines(path: Path) -> None:
    with fileobject.open(path, encoding="utf-8") as file:
        assert list(file) == LINES.splitlines(keepends=True)


def ends(path: Path) -> None:
    with fileobject.open(path, "rb", 0) as file:
        assert file.seek(-3, os.SEEK_END) == len(LINES.encode()) - 3


def written(path: Path) -> None:
    with fileobject.open(path, "r+b") as file:
        file.write(b"LINE")
        file.truncate(10)


def appended(path: Path) -> None:
    with fileobject.open(path, "a") as file:
        file.write("more\n")


@pytest.mark.parametrize("use", [whole, lines, ends, written, appended])
def test_a_slow_disk_holds_nobody_up(slow: SlowFilesystem, use: Callable[[Path], None]) -> None:
    path = slow.folder / "file"
    path.write_text(LINES, encoding="utf-8")

    def ticking() -> None:
        while True:
            slow.tick()
            green.sleep(0.005)

    clock = green.spawn(ticking)
    with slow.slow() as calls:
        green.joinall([green.spawn(use, path), green.spawn(use, path)], raise_error=True)
    clock.kill()
    assert calls.made > 0
    assert calls.held == 0, f"the hub was held during {calls.held} of {calls.made} calls"


def test_killed_on_a_slow_disk(slow: SlowFilesystem) -> None:
    path = slow.folder / "killed"
    path.write_text(LINES, encoding="utf-8")
    with fileobject.open(path, "rb") as file:
        with slow.slow(100):
            with pytest.raises(green.Timeout), green.Timeout(0.01):
                file.read(10)
        assert file.read(10) == LINES.encode()[:10]


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_a_killed_write_happens_once(slow: SlowFilesystem, mode: str) -> None:
    path = slow.folder / f"written-{mode}"
    file = fileobject.open(path, mode)
    with slow.slow(100):
        file.write(b"first")
        for _ in range(3):
            with pytest.raises(green.Timeout), green.Timeout(0.001):
                file.flush()
    file.write(b"second")
    file.close()
    assert path.read_bytes() == b"firstsecond"


# -- before the loop has run --------------------------------------------------------------------------


def test_an_operation_starts_although_the_loop_has_nothing_else_to_do() -> None:
    """It is started outside of the loop's ticks, so the loop must look for it before it sleeps."""
    files_of(green.get_hub().asyncio_loop)
    # A ring that was closed shortly before would interrupt the poll, after which the operation starts anyway.
    time.sleep(0.3)
    with fileobject.open("/dev/zero", "rb", 0) as file:
        assert file.read(3) == bytes(3)


@pytest.mark.parametrize("kind", [RegularFile, PooledFile])
def test_killed_when_it_is_about_to_close(kind: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else knows the descriptor any more."""

    def killed(*_: Any) -> Any:
        raise green.GreenletExit

    file = fileobject.open(path if kind is RegularFile else "/dev/zero", "rb", 0)
    assert isinstance(file.io, kind)
    number = file.fileno()
    monkeypatch.setattr("oneloop.green.regular_file.files_here", killed)
    monkeypatch.setattr(type(green.get_hub().threadpool), "spawn", killed)
    with pytest.raises(green.GreenletExit):
        file.close()
    while Path(f"/proc/self/fd/{number}").exists():
        green.sleep(0.001)


def test_interrupted_when_a_thread_closes_it_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be that of another file by then."""
    other = os.open("/dev/null", os.O_RDONLY)

    def interrupted(_: Any, function: Any, *args: Any) -> Any:
        function(*args)
        os.dup2(other, number)
        raise KeyboardInterrupt

    file = fileobject.open("/dev/zero", "rb", 0)
    number = file.fileno()
    monkeypatch.setattr(type(green.get_hub().threadpool), "spawn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        file.close()
    for one in (other, number):
        os.close(one)


def test_two_processes_write_at_one_position(path: Path) -> None:
    """The kernel moves it with each write; nobody writes over the other."""
    count = 2000
    script = f"i=0; while [ $i -lt {count} ]; do echo child; i=$((i+1)); done"
    with fileobject.open(path, "wb", 0) as file:
        child = subprocess.Popen(["sh", "-c", script], stdout=file.fileno())
        for _ in range(count):
            file.write(b"ours!\n")
        assert child.wait() == 0
    assert sorted(path.read_bytes().split(b"\n")) == [b"", *[b"child"] * count, *[b"ours!"] * count]


def test_the_end_of_a_block_device() -> None:
    for device in Path("/sys/block").glob("*"):
        try:
            with open(f"/dev/{device.name}", "rb") as model:
                size = model.seek(0, os.SEEK_END)
        except OSError:
            continue
        if size:
            with fileobject.open(f"/dev/{device.name}", "rb") as file:
                assert file.seek(0, os.SEEK_END) == size
            return
    pytest.skip("no block device that this user may read")
