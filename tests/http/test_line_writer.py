"""`LineWriter`: what each kind of descriptor takes, what is kept, what is dropped; the loop is never blocked."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from oneloop.http import line_writer
from oneloop.http.line_writer import KEPT_BYTES, LineWriter
from oneloop.loop import Loop
from tests.http.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.time_limit(180)

BATCH = b"".join(b"%04d\n" % number for number in range(1000))
LOOPS = [asyncio.new_event_loop, Loop]


@pytest.fixture(params=LOOPS, ids=["asyncio", "oneloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made: asyncio.AbstractEventLoop = request.param()
    yield made
    made.close()


def pipe_ends(kind: str) -> tuple[int, int]:
    if kind == "pipe":
        return os.pipe()
    if kind == "terminal":
        ours, theirs = os.openpty()
        # A terminal would make two bytes of a line's end.
        import termios

        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        return ours, theirs
    first, second = socket.socketpair()
    return first.detach(), second.detach()


def forbid_reopening(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a change of the user."""

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(errno.EACCES, "of the test", path)

    monkeypatch.setattr(os, "open", refuse)


def run_reading(loop: asyncio.AbstractEventLoop, ours: int, wanted: int) -> bytes:
    """What comes while the loop runs, until that is so much."""

    async def read() -> bytes:
        got = b""
        while len(got) < wanted:
            got += await asyncio.to_thread(os.read, ours, 1 << 20)
        return got

    got = loop.run_until_complete(asyncio.wait_for(read(), 60))
    loop.run_until_complete(loop.shutdown_default_executor())
    return got


@pytest.mark.parametrize("kind", ["pipe", "terminal", "socket", "thread"])
def test_a_full_descriptor_blocks_nothing(
    kind: str, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lines come, in their order, when the reader comes; its description does not become non-blocking."""
    ours, theirs = pipe_ends("pipe" if kind == "thread" else kind)
    with monkeypatch.context() as patch:
        if kind == "thread":
            forbid_reopening(patch)
        writer = LineWriter(loop, theirs)
    count = 100
    for _ in range(count):
        writer.write(BATCH)
    assert not fcntl.fcntl(theirs, fcntl.F_GETFL) & os.O_NONBLOCK
    assert run_reading(loop, ours, count * len(BATCH)) == BATCH * count
    assert writer.dropped_lines == 0
    writer.close()
    os.close(theirs)
    with contextlib.suppress(OSError):
        # A terminal says its end by EIO.
        assert os.read(ours, 10) == b""
    os.close(ours)


@pytest.mark.parametrize("kind", ["pipe", "terminal", "socket"])
def test_a_short_line_does_not_overtake_those_that_wait(kind: str, loop: asyncio.AbstractEventLoop) -> None:
    """The reader has made room, and the loop has not seen it yet."""
    ours, theirs = pipe_ends(kind)
    writer = LineWriter(loop, theirs)
    count = 0
    while not writer._kept:
        writer.write(b"%06d\n" % count)
        count += 1
    got = os.read(ours, 1 << 20)
    writer.write(b"%06d\n" % count)
    got += run_reading(loop, ours, 7 * (count + 1) - len(got))
    assert got == b"".join(b"%06d\n" % number for number in range(count + 1))
    writer.close()
    os.close(theirs)
    os.close(ours)


@pytest.mark.parametrize("is_thread", [False, True])
def test_what_is_too_much_is_dropped_and_told_once(
    is_thread: bool,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = os.pipe()
    with monkeypatch.context() as patch:
        if is_thread:
            forbid_reopening(patch)
        writer = LineWriter(loop, theirs)
    count = 3 * KEPT_BYTES // len(BATCH)
    for _ in range(count):
        writer.write(BATCH)
    assert writer.dropped_lines >= 1000
    assert "dropped" not in caplog.text
    dropped = writer.dropped_lines
    wanted = count * len(BATCH) - dropped * 5
    got = run_reading(loop, ours, wanted)
    assert got == BATCH * (wanted // len(BATCH))
    writer.write(BATCH)
    writer.close()
    assert os.read(ours, 1 << 20) == BATCH
    assert caplog.text.count(f"{dropped} lines of the access log were dropped") == 1
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("is_errors_place", [False, True])
def test_the_end_waits_for_a_short_time(
    is_errors_place: bool,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it drops is told, unless stderr is the full pipe."""
    monkeypatch.setattr(LineWriter, "_is_errors_place", lambda _: is_errors_place)
    ours, theirs = os.pipe()
    writer = LineWriter(loop, theirs)
    for _ in range(40):
        writer.write(BATCH)
    writer.close()
    writer.close()
    assert writer.dropped_lines > 0
    assert len(os.read(ours, 1 << 20)) == 40 * len(BATCH) - 5 * writer.dropped_lines
    assert caplog.text.count(f"{writer.dropped_lines} lines of the access log were dropped") == (not is_errors_place)
    os.close(ours)
    os.close(theirs)


def test_the_end_tells_how_many_lines_were_dropped_in_all(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = os.pipe()
    writer = LineWriter(loop, theirs)
    told: list[int] = []
    for _ in range(2):
        while writer.dropped_lines == sum(told):
            writer.write(BATCH)
        told.append(writer.dropped_lines - sum(told))
        while writer._kept:
            os.read(ours, 1 << 20)
            loop.run_until_complete(asyncio.sleep(0))
    writer.close()
    assert [f"{lines} lines of the access log were dropped" in caplog.text for lines in (told[0], sum(told))] == [
        True
    ] * 2
    os.close(ours)
    os.close(theirs)


def test_the_end_waits_for_the_thread(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the middle of its last write, and the reader comes."""
    monkeypatch.setattr(line_writer, "END_S", 60.0)
    ours, theirs = os.pipe()
    with monkeypatch.context() as patch:
        forbid_reopening(patch)
        writer = LineWriter(loop, theirs)
    room = fcntl.fcntl(ours, fcntl.F_GETPIPE_SZ)
    os.write(theirs, bytes(room))
    writer.write(b"the last line\n")
    got = []
    reader = threading.Timer(0.05, lambda: got.append(os.read(ours, room)))
    reader.start()
    writer.close()
    reader.join()
    assert writer.dropped_lines == 0
    assert (got[0] + os.read(ours, room))[room:] == b"the last line\n"
    os.close(ours)
    os.close(theirs)


def thread_in_a_write(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, LineWriter]:
    """A full pipe, and a writer whose thread waits in it."""
    ours, theirs = os.pipe()
    with monkeypatch.context() as patch:
        forbid_reopening(patch)
        writer = LineWriter(loop, theirs)
    os.write(theirs, bytes(fcntl.fcntl(ours, fcntl.F_GETPIPE_SZ)))
    writer.write(b"line\n")
    return ours, theirs, writer


def test_the_end_does_not_wait_for_a_thread_that_fails(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_writer, "END_S", 3600.0)
    ours, theirs, writer = thread_in_a_write(loop, monkeypatch)
    leaving = threading.Timer(0.05, os.close, [ours])
    leaving.start()
    writer.close()
    leaving.join()
    os.close(theirs)


def test_a_thread_fails_when_the_loop_is_closed(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its write has ended after all; nobody is left to be told, and its traceback would be on stderr."""
    monkeypatch.setattr(line_writer, "END_S", 0.0)
    failed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    monkeypatch.setattr(sys, "unraisablehook", failed.append)
    ours, theirs, writer = thread_in_a_write(loop, monkeypatch)
    writer.close()
    assert writer.dropped_lines == 1
    loop.close()
    os.close(ours)
    while writer._is_waiting:
        time.sleep(0.001)
    os.close(theirs)
    assert failed == []


def test_a_default_timeout_of_sockets_is_not_used(loop: asyncio.AbstractEventLoop) -> None:
    """It would wait, and would make the description non-blocking for all who have it."""
    ours, theirs = pipe_ends("socket")
    socket.setdefaulttimeout(3600)
    try:
        writer = LineWriter(loop, theirs)
        while not writer._kept:
            writer.write(BATCH)
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(theirs)
    os.close(ours)
    writer.close()
    os.close(theirs)


def test_a_named_pipe_whose_reader_comes_later(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And then reads nothing: this does not wait for it, and has no thread that does."""
    os.mkfifo(tmp_path / "log")
    first = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    theirs = os.open(tmp_path / "log", os.O_WRONLY)
    os.close(first)
    writer = LineWriter(loop, theirs)
    for _ in range(2):
        writer.write(b"lost\n")
    assert caplog.text.count("The access log cannot be written: [Errno 32] Broken pipe") == 1
    ours = os.open(tmp_path / "log", os.O_RDONLY)
    for _ in range(100):
        writer.write(BATCH)
    assert (writer.dropped_lines, writer._needs_thread) == (2, False)
    assert run_reading(loop, ours, 100 * len(BATCH)) == 100 * BATCH
    writer.close()
    os.close(ours)
    os.close(theirs)


def test_each_time_without_a_reader_is_told_and_at_the_end_what_was_lost(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "log")
    ours = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    theirs = os.open(tmp_path / "log", os.O_WRONLY)
    writer = LineWriter(loop, theirs)
    for time_number in range(1, 4):
        writer.write(b"read\n")
        assert os.read(ours, 100) == b"read\n"
        os.close(ours)
        for _ in range(5):
            writer.write(b"lost\nlost\n")
        assert caplog.text.count("cannot be written") == time_number
        ours = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    writer.close()
    assert "30 lines of the access log were dropped" in caplog.text
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("is_thread", [False, True])
def test_a_named_pipe_whose_reader_is_replaced(
    is_thread: bool, loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept for the first one is lost; for the second one as much is kept."""
    os.mkfifo(tmp_path / "log")
    first = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    theirs = os.open(tmp_path / "log", os.O_WRONLY | os.O_NONBLOCK)
    # What the pipe has taken is not kept.
    with contextlib.suppress(BlockingIOError):
        while os.write(theirs, bytes(4096)):
            pass
    os.set_blocking(theirs, True)
    with monkeypatch.context() as patch:
        if is_thread:
            forbid_reopening(patch)
        writer = LineWriter(loop, theirs)
    while writer._kept_bytes < KEPT_BYTES // 2:
        writer.write(BATCH)
    os.close(first)

    async def failed() -> None:
        while writer._kept or writer._is_waiting:
            await asyncio.sleep(0.001)

    loop.run_until_complete(asyncio.wait_for(failed(), 60))
    lost = writer.dropped_lines
    assert lost * len(BATCH) // 1000 >= KEPT_BYTES // 2
    count = KEPT_BYTES // len(BATCH)
    ours = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.read(ours, 1 << 20):
            pass
    os.set_blocking(ours, True)
    for _ in range(count):
        writer.write(BATCH)
    assert writer.dropped_lines == lost
    assert run_reading(loop, ours, count * len(BATCH)) == count * BATCH
    writer.close()
    os.close(ours)
    os.close(theirs)


def test_lines_stay_whole_among_others(loop: asyncio.AbstractEventLoop) -> None:
    """Two processes write into one pipe, which is nearly full all the time."""
    ours, theirs = os.pipe()
    writers = [LineWriter(loop, theirs) for _ in range(2)]
    lines = [name * 70 + b"\n" for name in (b"a", b"b")]

    async def read() -> bytes:
        got = b""
        while len(got) < 2 * 100 * 500 * 71:
            got += await asyncio.to_thread(os.read, ours, 5000)
        return got

    async def run() -> bytes:
        reading = asyncio.ensure_future(read())
        for _ in range(100):
            for writer, line in zip(writers, lines, strict=True):
                writer.write(line * 500)
            while any(writer._kept_bytes > KEPT_BYTES // 2 for writer in writers):
                await asyncio.sleep(0.001)
        return await reading

    got = loop.run_until_complete(asyncio.wait_for(run(), 50))
    loop.run_until_complete(loop.shutdown_default_executor())
    assert {*got.splitlines(keepends=True)} == {*lines}
    for writer in writers:
        writer.close()
    os.close(ours)
    os.close(theirs)


def test_files_are_written_at_once(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        writer = LineWriter(loop, file.fileno())
        for _ in range(1000):
            writer.write(BATCH)
        writer.close()
    assert (tmp_path / "log").read_bytes() == BATCH * 1000


@pytest.mark.parametrize(
    ("app", "options"), [("app", ()), ("app", ("--access-log-format", "json")), ("wsgi", ()), ("wsgi", ("--green",))]
)
def test_a_server_whose_log_nobody_reads(tmp_path: Path, app: str, options: tuple[str, ...]) -> None:
    """It went on only when its pipe was read: after some hundred requests it answered none."""
    with Service(tmp_path, *options, app=f"apps:{app}") as service:
        # Only the errors are read meanwhile.
        service.log.others = []
        connection: Any = service.connect()
        for _ in range(1500):
            connection.request("GET", "/" + "a" * 200)
            assert connection.getresponse().read()
        connection.close()
        assert service.out.text.count("\n") < 1500
        service.send(signal.SIGTERM)
        service.log.others = [service.out]
        assert service.wait() == 0
        assert sum("a" * 200 in line for line in service.out.text.splitlines()) == 1500
