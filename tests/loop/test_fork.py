"""fork while the loop runs: the child does not touch its parent's poller, the parent lives on."""

from __future__ import annotations

import sys

import pytest

from tests import programs

# Python 3.12 and later warn of fork in a process with threads, such as the executor's and faulthandler's watchdog.
OPTIONS = ("-W", "ignore::DeprecationWarning")

FORK = """
async def main():
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    assert await ask(address) == b"hello"
    pid = os.fork()
    if pid == 0:
        child(loop)
    status = await asyncio.to_thread(os.waitpid, pid, 0)
    assert os.waitstatus_to_exitcode(status[1]) == 0, status
    # The parent's listener, timers and wake-ups work on.
    assert await ask(address) == b"hello"
    await asyncio.sleep(0.001)
    server.close()
    await server.wait_closed()
    print("parent lives")

async def serve(reader, writer):
    writer.write(await reader.readexactly(5))
    writer.close()

async def ask(address):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"hello")
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    return data

def run():
    loop = new_loop()
    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
"""


def test_the_parent_lives_on(loop_name: str) -> None:
    body = FORK + "\ndef child(loop):\n    os._exit(0)\nrun()\n"
    assert programs.run_ok(loop_name, body, options=OPTIONS).strip() == "parent lives"


def test_the_child_can_make_a_loop_of_its_own(loop_name: str) -> None:
    body = (
        FORK
        + """
def child(loop):
    async def answer():
        await asyncio.sleep(0.001)
        return 42
    own = new_loop()
    ok = own.run_until_complete(answer()) == 42
    own.close()
    os._exit(0 if ok else 1)
run()
"""
    )
    assert programs.run_ok(loop_name, body, options=OPTIONS).strip() == "parent lives"


@pytest.mark.oneloop_only("stock asyncio's child shares its parent's epoll and takes its events")
@pytest.mark.parametrize(
    "use",
    [
        "loop.run_forever()",
        "loop.run_until_complete(loop.create_future())",
        "loop.add_reader(0, print)",
        "loop.call_soon_threadsafe(print); loop.run_forever()",
    ],
)
def test_the_child_gets_a_clear_error(loop_name: str, use: str) -> None:
    body = (
        FORK
        + f"""
def child(loop):
    asyncio._set_running_loop(None)
    try:
        {use}
    except RuntimeError as error:
        if "fork" in str(error):
            os._exit(0)
        print("unclear:", error, flush=True)
    except BaseException as error:
        print("wrong:", repr(error), flush=True)
    os._exit(1)
run()
"""
    )
    assert programs.run_ok(loop_name, body, options=OPTIONS).strip() == "parent lives"


@pytest.mark.oneloop_only("stock asyncio's child unregisters its parent's descriptors from the shared epoll")
def test_the_child_may_close_its_copy(loop_name: str) -> None:
    body = (
        FORK
        + """
def child(loop):
    asyncio._set_running_loop(None)
    try:
        loop.stop()
        loop.close()
    except RuntimeError:
        pass
    os._exit(0)
run()
"""
    )
    assert programs.run_ok(loop_name, body, options=OPTIONS).strip() == "parent lives"


def test_multiprocessing_with_fork(loop_name: str) -> None:
    body = """
    import multiprocessing

    def work(pipe):
        async def answer():
            return os.getpid()
        loop = new_loop()
        pipe.send(loop.run_until_complete(answer()))
        loop.close()

    async def main():
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs,))
        process.start()
        answered = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(ours.fileno(), answered.set)
        await answered.wait()
        loop.remove_reader(ours.fileno())
        assert ours.recv() == process.pid
        process.join()
        print("answered")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    """
    assert programs.run_ok(loop_name, body, options=OPTIONS).strip() == "answered"


def test_the_child_of_a_thread_has_another_main_thread(loop_name: str) -> None:
    body = """
    from oneloop.interrupts import is_main_thread

    # From here on the main thread is known.
    new_loop().close()
    assert is_main_thread()

    def child():
        assert is_main_thread()
        async def main():
            loop = asyncio.get_running_loop()
            heard = asyncio.Event()
            loop.add_signal_handler(signal.SIGUSR1, heard.set)
            os.kill(os.getpid(), signal.SIGUSR1)
            await heard.wait()
            assert not await asyncio.to_thread(is_main_thread)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())
        os._exit(0)

    def fork():
        assert not is_main_thread()
        pid = os.fork()
        if pid == 0:
            child()
        _, status = os.waitpid(pid, 0)
        print("ended with", os.waitstatus_to_exitcode(status))

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    """
    assert programs.run_ok(loop_name, body, options=OPTIONS).strip() == "ended with 0"


def test_the_child_exits_though_a_thread_of_the_parents_works() -> None:
    """It does not wait for that at its exit: the thread does not exist there."""
    program = """
import asyncio, os, sys, threading
import oneloop
from oneloop.files.engine import current

begun, goes_on = threading.Event(), threading.Event()
working = []

def work():
    begun.set()
    goes_on.wait()

async def begin():
    working.append(asyncio.ensure_future(current().call(work)))
    while not begun.is_set():
        await asyncio.sleep(0)

loop = oneloop.new_event_loop()
loop.run_until_complete(begin())
pid = os.fork()
if not pid:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
goes_on.set()
loop.run_until_complete(working[0])
loop.close()
"""
    done = programs.run_command(sys.executable, *OPTIONS, "-c", program)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
