"""Which engine is used, what happens where it is forbidden, and what the engines do at a loop's and a process's end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop import files
from oneloop.files.engine import current
from tests import programs
from tests.conftest import close_audited, settle
from tests.file.conftest import ALL_ENGINES, refusal


@pytest.fixture(params=ALL_ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    if reason := refusal(request.param):
        pytest.skip(reason)
    return str(request.param)


READ_ALL = """
from oneloop import files
async def main():
    info = files.engine_info()
    path = "/tmp/oneloop-engine-%d" % os.getpid()
    await files.write_file(path, b"content")
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert await files.read_file(path) == b"content"
    assert (await files.stat(path)).st_size == 7
    os.close(fd)
    await files.unlink(path)
    print(info.engine, *sorted(info.refused))
asyncio.run(main(), loop_factory=new_loop) if sys.version_info >= (3, 12) else new_loop().run_until_complete(main())
"""


def run_forbidding(names: str, environment: str = "") -> str:
    body = f"""
from tests.seccomp import forbid
try:
    forbid({names})
except OSError as exc:
    print("no seccomp:", exc)
    raise SystemExit
os.environ["ONELOOP_FILES"] = {environment!r}
{READ_ALL}"""
    done = programs.run("oneloop", body)
    if "no seccomp" in done.stdout:
        pytest.skip("seccomp filters are not available here")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_everything_allowed() -> None:
    done = programs.run("oneloop", READ_ALL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] in ALL_ENGINES


def test_io_uring_forbidden_as_in_docker() -> None:
    assert run_forbidding("'io_uring_setup'") == "aio ring"


def test_no_io_uring_in_the_kernel() -> None:
    assert run_forbidding("'io_uring_setup', error=38") == "aio ring"


def test_io_uring_and_kernel_aio_forbidden() -> None:
    assert run_forbidding("'io_uring_setup', 'io_setup'") == "threads aio ring"


def test_openat2_forbidden_too() -> None:
    assert run_forbidding("'io_uring_setup', 'io_setup', 'openat2'") == "threads aio ring"


def test_a_kernel_without_preadv2() -> None:
    """Before Linux 4.6, and in emulators: the older calls do it."""
    calls = "'io_uring_setup', 'io_setup', 'preadv2', 'pwritev2', error=38"
    assert run_forbidding(calls) == "threads aio ring"


@pytest.mark.parametrize(("name", "calls"), [("ring", "'io_uring_setup'"), ("aio", "'io_setup'")])
def test_forced_and_forbidden(name: str, calls: str) -> None:
    body = f"""
from tests.seccomp import forbid
forbid({calls})
os.environ["ONELOOP_FILES"] = {name!r}
from oneloop import files
async def main():
    try:
        files.engine_info()
    except PermissionError as exc:
        print(exc)
new_loop().run_until_complete(main())
"""
    done = programs.run("oneloop", body)
    if "seccomp is not available" in done.stderr:
        pytest.skip("seccomp filters are not available here")
    assert f"the file engine '{name}' was requested" in done.stdout.replace('"', "'"), done.stdout + done.stderr
    assert "ONELOOP_FILES=threads" in done.stdout


def run(loop: Any, coroutine: Any) -> Any:
    return loop.run_until_complete(asyncio.wait_for(coroutine, 60))


def test_chosen_by_environment(monkeypatch: pytest.MonkeyPatch, audit: None) -> None:
    async def name() -> str:
        return files.engine_info().engine

    for wanted in (name for name in ALL_ENGINES if not refusal(name)):
        monkeypatch.setenv("ONELOOP_FILES", wanted)
        assert oneloop.run(name()) == wanted


def test_chosen_by_call(engine: str, audit: None) -> None:
    async def main() -> None:
        files.use_engine(engine)
        files.use_engine(engine)
        assert files.engine_info() == files.EngineInfo(engine=engine, refused={}, operations=0, threads=0)
        with pytest.raises(RuntimeError, match=r"call use_engine\('\w+'\) before"):
            files.use_engine("ring" if engine != "ring" else "threads")

    oneloop.run(main())


def test_unknown_engine(monkeypatch: pytest.MonkeyPatch, audit: None) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match=r'unknown file engine "warp": use "ring", "aio" or "threads"'):
            files.engine_info()
        with pytest.raises(ValueError, match='use "ring"'):
            files.use_engine("")

    monkeypatch.setenv("ONELOOP_FILES", "warp")
    oneloop.run(main())


def test_another_loop_is_told_what_to_do(audit: None) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"start the program with oneloop\.run"):
            await files.read_file("/etc/hostname")

    loop = asyncio.SelectorEventLoop()
    run(loop, main())
    close_audited(loop)


def test_a_loop_without_files_has_no_engine(audit: None) -> None:
    loop = oneloop.new_event_loop()
    run(loop, asyncio.sleep(0))
    assert loop._files is None  # type: ignore[attr-defined]
    close_audited(loop)


def test_10_000_reads_at_once(engine: str, tmp_path: Path, audit: None) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 256)

    async def main() -> None:
        files.use_engine(engine)
        async with files.open(path, "rb", buffering=0) as file:
            reads = [file.pread(256, 256 * (n % 256)) for n in range(10_000)]
            pieces = await asyncio.gather(*reads)
        assert set(pieces) == {bytes(range(256))}
        assert files.engine_info().operations == 0

    oneloop.run(main())


async def whole(file: Any, size: int, offset: int) -> bytes:
    """Read until all of it is there."""
    pieces = bytearray()
    while len(pieces) < size:
        piece = await file.pread(size - len(pieces), offset + len(pieces))
        assert piece, "the end of the file came too early"
        pieces += piece
    return bytes(pieces)


def test_cold_reads(engine: str, tmp_path: Path, audit: None) -> None:
    path = tmp_path / "file"
    content = os.urandom(1 << 20)
    path.write_bytes(content)

    async def main() -> None:
        files.use_engine(engine)
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        for size in (1, 4096, 70_000, 1 << 20):
            async with files.open(path, "rb", buffering=0) as file:
                # One read at a time: nothing of it is cached, so that it comes as a whole.
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                assert await file.pread(size, 0) == content[:size]
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                assert await file.pread(size, len(content) - size // 2) == content[len(content) - size // 2 :][:size]
                # Many at once: what one has brought along cuts another's short, which goes on where it ended.
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                offsets = range(0, len(content), max(size, 65_536))
                pieces = await asyncio.gather(*[whole(file, min(size, len(content) - at), at) for at in offsets])
                assert pieces == [content[at : at + size] for at in offsets]
        os.close(fd)

    oneloop.run(main())


def test_many_cancelled_under_load(engine: str, tmp_path: Path, audit: None) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 20))

    async def one(file: files.UnbufferedFile, n: int) -> bytes:
        return await file.pread(4096, 4096 * (n % 256))

    async def main() -> None:
        files.use_engine(engine)
        fd = os.open(path, os.O_RDONLY)
        async with files.open(path, "rb", buffering=0) as file:
            for after in range(20):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                tasks = [asyncio.ensure_future(one(file, n)) for n in range(200)]
                await settle(after)
                for task in tasks[::2]:
                    task.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                assert {type(piece) for piece in done[::2]} <= {bytes, asyncio.CancelledError}
                assert all(isinstance(piece, bytes) and len(piece) == 4096 for piece in done[1::2])
        os.close(fd)
        while files.engine_info().operations:
            await asyncio.sleep(0.001)

    oneloop.run(main())


def test_cancelled_reads_keep_their_buffers_until_the_kernel_is_done(engine: str, audit: None) -> None:
    async def main() -> None:
        files.use_engine(engine)
        reader, writer = os.pipe()
        buffers = [bytearray(16) for _ in range(50)]
        futures = [current().readv(reader, [buffer], -1, False) for buffer in buffers]
        await asyncio.sleep(0.01)
        for buffer in buffers:
            with pytest.raises(BufferError):
                buffer.append(0)
        for future in futures:
            assert isinstance(future, asyncio.Future)
            future.cancel()
        while files.engine_info().operations:
            await asyncio.sleep(0.001)
        for buffer in buffers:
            buffer.append(0)
            assert not any(buffer)
        os.close(reader)
        os.close(writer)

    oneloop.run(main())


def test_signals_interrupt_nothing(engine: str, tmp_path: Path, audit: None) -> None:
    """EINTR, a thousand times a second, in whatever thread the kernel chooses."""
    path = tmp_path / "file"
    content = os.urandom(300_000)
    seen: list[int] = []

    async def main() -> None:
        files.use_engine(engine)
        reader, writer = os.pipe()
        for _ in range(30):
            assert await files.write_file(path, content) == len(content)
            os.posix_fadvise(fd := os.open(path, os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
            assert await files.read_file(path) == content
            reading = current().read(reader, 10, -1, False)
            assert isinstance(reading, asyncio.Future)
            await asyncio.sleep(0.002)
            os.write(writer, b"piece")
            assert await reading == b"piece"
        os.close(reader)
        os.close(writer)

    old = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        oneloop.run(main())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert len(seen) > 10


def test_loop_closed_with_operations_under_way(engine: str, audit: None) -> None:
    reader, writer = os.pipe()
    loop = oneloop.new_event_loop()

    async def main() -> asyncio.Future[bytes]:
        files.use_engine(engine)
        future = current().read(reader, 10, -1, False)
        assert isinstance(future, asyncio.Future)
        await asyncio.sleep(0)
        return future

    future = run(loop, main())
    close_audited(loop)
    assert not future.done()
    os.write(writer, b"nobody reads it")
    assert os.read(reader, 100) == b"nobody reads it"
    os.close(reader)
    os.close(writer)


def test_the_loop_moves_to_another_thread(engine: str, tmp_path: Path, audit: None) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    loop = oneloop.new_event_loop()
    reader, writer = os.pipe()
    found: list[Any] = []

    async def first() -> None:
        files.use_engine(engine)
        found.append(await current().call(path.read_bytes))
        assert await files.write_file(path, b"more content") == 12

    async def leave_one() -> asyncio.Future[bytes]:
        future = current().read(reader, 10, -1, False)
        assert isinstance(future, asyncio.Future)
        await asyncio.sleep(0.01)
        return future

    async def second(left: asyncio.Future[bytes]) -> None:
        await files.write_file(path, b"other")
        found.append(await files.read_file(path))
        os.write(writer, b"late")
        try:
            found.append(await left)
        except RuntimeError as exc:
            found.append(str(exc))

    run(loop, first())
    left = run(loop, leave_one())
    thread = threading.Thread(target=run, args=(loop, second(left)))
    thread.start()
    thread.join()
    assert found[:2] == [b"content", b"other"]
    # Only the thread that made a ring can be told what became of its operations.
    assert found[2] == b"late" or "moved to another thread" in found[2]
    close_audited(loop)
    os.close(reader)
    os.close(writer)


def test_fork_in_mid_flight(engine: str, tmp_path: Path) -> None:
    body = f"""
    import asyncio, os
    from oneloop import files
    from oneloop.files.engine import current
    async def main():
        files.use_engine({engine!r})
        reader, writer = os.pipe()
        operations = current()
        future = operations.read(reader, 10, -1, False)
        reads = [asyncio.ensure_future(files.read_file("/etc/hostname")) for _ in range(10)]
        big = [asyncio.ensure_future(current().call(time.sleep, 0.05)) for _ in range(3)]
        await asyncio.sleep(0.01)
        pid = os.fork()
        if pid == 0:
            for forbidden in (lambda: operations.read(reader, 10, -1, False), lambda: operations.call(os.getpid)):
                try:
                    forbidden()
                except RuntimeError as exc:
                    if "belongs to the parent process" not in str(exc):
                        os._exit(4)
                else:
                    os._exit(5)
            asyncio._set_running_loop(None)
            async def child():
                files.use_engine({engine!r})
                return await files.read_file("/etc/hostname")
            content = new_loop().run_until_complete(child())
            os._exit(0 if content == open("/etc/hostname", "rb").read() else 3)
        status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert status[1] == 0, status
        os.write(writer, b"for the parent")
        assert await future == b"for the pa"
        contents = await asyncio.gather(*reads)
        assert len(set(contents)) == 1
        await asyncio.gather(*big)
        print("lives on")
    new_loop().run_until_complete(main())
    """
    done = programs.run("oneloop", body)
    assert done.stdout == "lives on\n", done.stdout + done.stderr


def test_exit_waits_for_calls(engine: str) -> None:
    body = f"""
    from oneloop import files
    from oneloop.files.engine import current
    def slow():
        time.sleep(0.3)
        print("done", flush=True)
    async def main():
        files.use_engine({engine!r})
        current().call(slow)
        await asyncio.sleep(0.05)
    loop = new_loop()
    loop.run_until_complete(main())
    del loop
    """
    done = programs.run("oneloop", body)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_call_that_raises(engine: str, audit: None) -> None:
    def fail() -> None:
        raise KeyError("gone")

    async def main() -> None:
        files.use_engine(engine)
        with pytest.raises(KeyError, match="gone"):
            await current().call(fail)
        assert await current().call(divmod, 7, 2) == (3, 1)
        assert await current().call(int, "12", base=3) == 5

    oneloop.run(main())
