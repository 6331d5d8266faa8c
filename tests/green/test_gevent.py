"""The real, unchanged gevent on a oneloop loop: coroutines beside it, and parts of gevent's own test suite."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from textwrap import dedent

import pytest

pytestmark = pytest.mark.skipif(find_spec("gevent") is None, reason="gevent is not installed for this Python")

LOOP = "oneloop.green.gevent_loop.loop"

# Files of gevent's test suite, each run in a new process. They take some seconds in total.
FILES = [
    "test__api",
    "test__core_async",
    "test__core_callback",
    "test__core_fork",
    "test__core_loop_run",
    "test__core_timer",
    "test__core_watcher",
    "test__destroy",
    "test__event",
    "test__greenlet",
    "test__hub_join",
    "test__iwait",
    "test__joinall",
    "test__lock",
    "test__loop_callback",
    "test__order",
    "test__os",
    "test__queue",
    "test__select",
    "test__semaphore",
    "test__server",
    "test__signal",
    "test__sleep0",
    "test__socket",
    "test__subprocess_poll",
    "test__systemerror",
    "test__timeout",
]

# Tests that are allowed to fail, with the reason.
FAIL = {
    # It requires that timers start from the loop's cached time, and so expire early.
    "test__core_timer": {"test_resolution"},
}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    ours = {"GEVENT_LOOP": LOOP, "GEVENTTEST_LEAKCHECK": "", "GITHUB_ACTIONS": "1"}
    environment = {**os.environ, **ours, **variables}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=100,
        env=environment,
        check=False,
    )


@pytest.mark.time_limit(600)
@pytest.mark.parametrize("first", range(0, len(FILES), 9))
def test_gevents_own_tests(first: int) -> None:
    """They mostly wait, so run several at a time. Run a failed file again, without the bounds of its tests on time."""
    files = FILES[first : first + 9]
    with ThreadPoolExecutor(3) as threads:
        failures = dict(zip(files, threads.map(run_file, files), strict=True))
    for file, failure in failures.items():
        # With it, gevent expects that a timer may be late by any time.
        if failure and (again := run_file(file, GEVENTTEST_COVERAGE="1")):
            pytest.fail(f"{file}: {failure[-4000:]}\nand again: {again[-4000:]}")


def run_file(file: str, **variables: str) -> str:
    """Run a test file. Return the output if there are unexpected failures, otherwise ""."""
    done = run("-m", f"gevent.tests.{file}", **variables)
    failed = set(re.findall(r"^(?:ERROR|FAIL): (\w+)", done.stderr, re.MULTILINE))
    is_well = failed <= FAIL.get(file, set()) if failed else done.returncode == 0
    return "" if is_well else done.stdout + done.stderr


def test_coroutines_beside_gevent() -> None:
    program = """
        import asyncio, gevent, gevent.event, gevent.monkey
        gevent.monkey.patch_all()
        import socket, threading, time
        import oneloop

        hub = gevent.get_hub()
        below = hub.loop.asyncio_loop
        assert isinstance(below, oneloop.Loop)
        said, told = gevent.event.Event(), gevent.event.AsyncResult()

        async def serve(reader, writer):
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()

        async def main():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            told.set(server.sockets[0].getsockname())
            async with server:
                while not said.is_set():
                    await asyncio.sleep(0.001)
            return asyncio.get_running_loop() is below

        task = below.create_task(main())

        def client(number):
            # Blocking code, patched, in a greenlet; for it no loop runs.
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                pass
            with socket.create_connection(told.get()) as sock:
                sock.sendall(b"hello %d\\n" % number)
                return sock.makefile("rb").readline()

        clients = [gevent.spawn(client, number) for number in range(10)]
        gevent.joinall(clients, raise_error=True)
        assert [one.value for one in clients] == [b"HELLO %d\\n" % number for number in range(10)]
        thread = threading.Thread(target=said.set)
        thread.start()
        thread.join()
        # gevent has nothing left to do: only the coroutine keeps the loop running.
        gevent.wait()
        print(task.result())
        try:
            gevent.event.Event().wait()
        except gevent.exceptions.LoopExit:
            print("LoopExit")
    """
    done = run("-c", dedent(program))
    assert (done.stdout, done.stderr) == ("True\nLoopExit\n", "")


def test_ctrl_c_reaches_the_main_greenlet() -> None:
    program = """
        import gevent, os, signal, threading
        try:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            gevent.sleep(60)
        except KeyboardInterrupt:
            print("KeyboardInterrupt")
    """
    done = run("-c", dedent(program))
    assert done.stdout == "KeyboardInterrupt\n"


def test_programs_choose_it_by_its_name() -> None:
    program = """
        import gevent.core
        from zope.interface.verify import verifyObject
        from gevent._interfaces import ICallback, ILoop
        loop = gevent.get_hub().loop
        verifyObject(ILoop, loop)
        verifyObject(ICallback, loop.run_callback(len))
        print(type(loop).__module__, gevent.core.get_version().partition("-")[0])
    """
    assert run("-c", dedent(program)).stdout == "oneloop.green.gevent_loop oneloop\n"
