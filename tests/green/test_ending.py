"""How green threads end whose loop was closed: GreenletExit, a bounded time, and no thread that keeps the program.

At the end of the process nothing of theirs runs any more, as in gevent, and as of daemon threads.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green.lock import Semaphore
from oneloop.green.queue import Queue

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 100

SERVICE = """
def service(wait):
    while True:
        try:
            wait(0.05)
        except BaseException as error:
            print("swallowed", type(error).__name__, flush=True)
"""
STYLES = {
    "--replace gevent": ("--replace", "gevent"),
    "--patch": ("--patch",),
    "oneloop.run": (),
}
MAINS = {
    "--replace gevent": "import gevent\ngevent.spawn(service, gevent.sleep)\ngevent.sleep(0.02)",
    "--patch": (
        "import threading, time\n"
        "threading.Thread(target=service, args=(time.sleep,), daemon=True).start()\n"
        "time.sleep(0.02)"
    ),
    "oneloop.run": (
        "import asyncio, oneloop\n"
        "from oneloop import green\n"
        "async def main():\n"
        "    green.spawn(service, green.sleep)\n"
        "    await asyncio.sleep(0.02)\n"
        "oneloop.run(main())"
    ),
}


def run(tmp_path: Path, style: str, body: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(body)
    command = [sys.executable, "-m", "oneloop", "run", *STYLES[style], str(program)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.parametrize("style", STYLES)
def test_a_green_thread_that_catches_everything_does_not_keep_the_program(tmp_path: Path, style: str) -> None:
    done = run(tmp_path, style, f"{SERVICE}\n{MAINS[style]}\nprint('end', flush=True)\n")
    told = ["swallowed GreenletExit"] if style == "oneloop.run" else []
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, [*told, "end"], "")


def test_a_finally_may_need_what_another_ends_with(tmp_path: Path) -> None:
    body = """
        import asyncio
        import oneloop
        from oneloop import green
        from oneloop.green.lock import Semaphore

        lock = Semaphore(0)

        def first():
            try:
                green.sleep(100)
            finally:
                lock.acquire()
                print("first", flush=True)

        def second():
            try:
                green.sleep(100)
            finally:
                green.sleep(0.01)
                print("second", flush=True)
                lock.release()

        async def main():
            green.spawn(first)
            green.spawn(second)
            await asyncio.sleep(0.01)

        oneloop.run(main())
    """
    done = run(tmp_path, "oneloop.run", textwrap.dedent(body))
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["second", "first"], "")


class Waits:
    """Ways to wait for ever: with a Python frame, and of native code alone."""

    @staticmethod
    def in_python() -> None:
        green.sleep(100)

    sleeping = staticmethod(lambda: green.spawn(green.sleep, 100))
    on_a_lock = staticmethod(lambda: green.spawn(Semaphore(0).acquire))
    on_a_queue = staticmethod(lambda: green.spawn(Queue().get))


@pytest.mark.parametrize(
    "spawn",
    [lambda: green.spawn(Waits.in_python), Waits.sleeping, Waits.on_a_lock, Waits.on_a_queue],
    ids=["in Python", "sleep", "a lock", "a queue"],
)
def test_all_end_with_their_loop_and_call_their_links(spawn: Any) -> None:
    ended: list[Any] = []
    alive: list[weakref.ref[Any]] = []

    async def main() -> None:
        greenlet = spawn()
        greenlet.link(lambda one: ended.append(one.value))
        alive.append(weakref.ref(greenlet))
        alive.append(weakref.ref(asyncio.get_running_loop()))
        await asyncio.sleep(0.001)

    oneloop.run(main())
    gc.collect()
    assert [type(value) for value in ended] == [green.GreenletExit]
    assert [one() for one in alive] == [None, None]


def test_a_green_thread_closes_the_loop_of_another_hub() -> None:
    told: list[str] = []

    def service() -> None:
        try:
            green.sleep(100)
        except green.GreenletExit:
            green.sleep(0.001)
            told.append("ended")

    async def inner() -> None:
        green.spawn(service)
        await asyncio.sleep(0.001)

    loop = oneloop.new_event_loop()
    loop.run_until_complete(inner())
    green.spawn(loop.close).get()
    assert told == ["ended"]
