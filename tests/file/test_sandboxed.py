"""A program that sandboxes itself, or gets its filter late: an engine that worked is forbidden in mid-flight."""

from __future__ import annotations

import errno

import pytest

from tests import programs

# `cold` and `folder` are for all programs; `main()` is each program's own.
PROGRAM = """
import ctypes, errno, mmap, tempfile
from tests.seccomp import forbid
from oneloop import files
from oneloop.files.engine import current

os.environ["ONELOOP_FILES"] = {engine!r}
ERROR = {error}
folder = tempfile.mkdtemp(dir="/var/tmp")
path = os.path.join(folder, "file")
content = bytes(range(256)) * 400
with open(path, "wb") as file:
    file.write(content)

def cold():
    number = os.open(path, os.O_RDONLY)
    os.fsync(number)
    # The kernel keeps pages that somebody uses at the moment. A read that asks would bring them back; mincore(2) does
    # not.
    with mmap.mmap(number, len(content), access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        resident = (ctypes.c_ubyte * (len(content) // mmap.PAGESIZE + 1))()
        for _ in range(1000):
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(content)), resident)
            if not any(page & 1 for page in resident):
                break
            time.sleep(0.01)
        else:
            raise AssertionError("the kernel does not drop the file's pages")
        del first
    os.close(number)

def no_more(*calls):
    try:
        forbid(*calls, error=ERROR)
    except OSError as exc:
        print("no seccomp:", exc)
        os._exit(0)

async def idle():
    while files.engine_info().operations:
        await asyncio.sleep(0.001)

def gone(task):
    exc = task.exception()
    assert exc.errno == ERROR and "unknown whether" in exc.__notes__[0], exc
    return exc.__notes__[0].split(",")[0]

{body}

loop = new_loop()
reported = []
loop.set_exception_handler(lambda loop, context: reported.append(context))
try:
    loop.run_until_complete(asyncio.wait_for(main(), 60))
finally:
    loop.close()
    import shutil
    shutil.rmtree(folder)
assert not reported, reported
print("ended")
"""


def run(body: str, engine: str = "ring", error: int = errno.EPERM) -> None:
    done = programs.run("oneloop", PROGRAM.format(engine=engine, error=error, body=body))
    if "no seccomp" in done.stdout:
        pytest.skip("seccomp filters are not available here")
    if "was requested, but" in done.stderr:
        pytest.skip(f"no {engine} here: {done.stderr.splitlines()[-1]}")
    if "no O_DIRECT" in done.stdout:
        pytest.skip("this filesystem has no O_DIRECT")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("ended\n"), done.stdout + done.stderr
    assert done.stderr == ""


ERRORS = [errno.EPERM, errno.ENOSYS]


@pytest.mark.parametrize("error", ERRORS)
def test_io_uring_enter_is_forbidden_after_a_read(error: int) -> None:
    run(
        """
async def main():
    file = await files.open(path, "r+b", buffering=0)
    cold()
    assert await file.pread(10, 5) == content[5:15]
    no_more("io_uring_enter")
    cold()
    assert await files.read_file(path) == content
    cold()
    pieces = await asyncio.gather(*[file.pread(10, 4096 * n) for n in range(20)])
    assert pieces == [content[4096 * n :][:10] for n in range(20)]
    target = bytearray(100)
    cold()
    assert await file.readinto(target) == 100 and target == content[:100]
    assert await file.pwrite(b"new", 0) == 3
    await file.fsync()
    await file.close()
    await files.mkdir(path + ".folder")
    await files.rmdir(path + ".folder")
    assert (await files.read_file(path))[:4] == b"new\\x03"
    info = files.engine_info()
    assert info.engine == "threads" and info.operations == 0 and os.strerror(ERROR) in info.refused["ring"], info
""",
        error=error,
    )


@pytest.mark.parametrize("error", ERRORS)
def test_what_the_kernel_had_taken_fails_with_the_cause(error: int) -> None:
    run(
        """
async def main():
    reader, writer = os.pipe()
    waiting = [asyncio.ensure_future(current().read(reader, 10, -1, False)) for _ in range(3)]
    await asyncio.sleep(0.01)
    no_more("io_uring_enter")
    # The kernel reports what has come only to those who enter the ring.
    os.write(writer, b"x")
    await asyncio.wait(waiting)
    assert {gone(task) for task in waiting} == {"io_uring_enter"}
    assert os.read(reader, 10) == b"x"
    os.close(reader)
    os.close(writer)
    await idle()
""",
        error=error,
    )


def test_a_close_does_not_wait_for_what_was_given_up() -> None:
    run(
        """
async def main():
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)
    file = await files.open(fifo, "rb", buffering=0)
    waiting = asyncio.ensure_future(file.read(10))
    await asyncio.sleep(0.01)
    no_more("io_uring_enter")
    closing = asyncio.ensure_future(file.close())
    await asyncio.sleep(0.01)
    os.write(writer, b"x")
    await asyncio.wait([waiting, closing])
    assert waiting.exception() is not None and closing.exception() is None
    os.close(writer)
    await idle()
"""
    )


def test_what_has_moved_to_threads_can_still_be_cancelled() -> None:
    run(
        """
async def main():
    await files.mkdir(path + ".folder")
    no_more("io_uring_enter")
    reader, writer = os.pipe()
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    reading = asyncio.ensure_future(current().read(reader, 10, -1, False))
    opening = asyncio.ensure_future(files.open(fifo, "rb", buffering=0).__aenter__())
    unsent = asyncio.ensure_future(current().read(reader, 10, -1, False))
    unsent.cancel()
    await asyncio.sleep(0.05)
    assert files.engine_info().engine == "threads" and files.engine_info().operations == 2
    assert unsent.cancelled() and not reading.done() and not opening.done()
    reading.cancel()
    opening.cancel()
    await asyncio.wait([reading, opening])
    await idle()
    os.write(writer, b"kept")
    assert os.read(reader, 10) == b"kept"
    os.close(reader)
    os.close(writer)
"""
    )


def test_the_loop_is_closed_next() -> None:
    run(
        """
async def main():
    reader, writer = os.pipe()
    current().read(reader, 10, -1, False)
    await asyncio.sleep(0.01)
    no_more("io_uring_enter")
    current().read(reader, 10, -1, False)
"""
    )


def test_no_ring_for_another_thread() -> None:
    """The loop runs in another thread, where no ring can be made any more."""
    run(
        """
async def first():
    cold()
    assert await files.read_file(path) == content

async def second():
    # A filter is the calling thread's, and that of threads that it starts.
    no_more("io_uring_setup", "io_uring_enter")
    cold()
    assert await files.read_file(path) == content
    assert files.engine_info().engine == "threads"

async def main():
    other = new_loop()
    def elsewhere():
        other.run_until_complete(second())
        other.close()
    def here():
        other.run_until_complete(first())
    for run in (here, elsewhere):
        thread = threading.Thread(target=run)
        thread.start()
        await asyncio.to_thread(thread.join)
"""
    )


def test_no_thread_can_be_started_either() -> None:
    run(
        """
async def main():
    await files.mkdir(path + ".folder")
    file = await files.open(path, "rb", buffering=0)
    no_more("io_uring_enter", "clone", "clone3")
    cold()
    # The kernel reads ahead for an attempt that does not wait, and another attempt may find the result.
    try:
        assert await file.pread(10, 0) == content[:10]
    except OSError as exc:
        assert exc.errno == ERROR, exc
    # This one is never attempted on the loop.
    try:
        await file.fsync()
    except OSError as exc:
        assert exc.errno == ERROR, exc
    else:
        raise AssertionError("nothing can have done it")
    # The descriptor does not wait for what nobody has done.
    await file.close()
    assert files.engine_info().operations == 0
"""
    )


DIRECT = """
async def main():
    try:
        file = await files.open(path, "r+b", direct=True)
    except OSError as exc:
        print("no O_DIRECT")
        return
    assert (await file.pread(4096, 0)) == content[:4096]
    assert files.engine_info().engine == "aio"
    no_more({call!r})
    reads = [asyncio.ensure_future(file.pread(4096, 4096 * n)) for n in range(20)]
    done, _ = await asyncio.wait(reads)
    lost = [task for task in reads if task.exception() is not None]
    assert {call!r} == "io_getevents" or not lost
    assert {{gone(task) for task in lost}} <= {{"io_getevents"}}
    for n, task in enumerate(reads):
        assert task in lost or task.result() == content[4096 * n :][:4096]
    assert (await file.pread(4096, 4096)) == content[4096:8192]
    assert files.engine_info().engine == {then!r}
    await file.close()
    await idle()
"""


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("call", "then"), [("io_submit", "aio"), ("io_getevents", "threads")])
def test_kernel_aio_is_forbidden_after_a_read(call: str, then: str, error: int) -> None:
    run(DIRECT.format(call=call, then=then), engine="aio", error=error)
