"""Waiting for what only a signal brings, in a patched program: it sleeps until the signal, as with threads.

A public report, written anew: gevent/gevent#392, #1529 (2014 and 2023): gevent raises LoopExit as soon as such a wait
begins.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import programs
from tests.green.patched import PATCHED, patched
from tests.loop.sleeping import EPOLL_CALLS

LIMIT_S = 60.0

# No watchdog: its thread, of C code, would be something to wait for.
PROGRAM = """
import concurrent.futures, queue, select, signal, threading, time
{prepare}
def handler(number, frame):
    {handler}
if {number} != signal.SIGINT:
    signal.signal({number}, handler)
idle = queue.Queue()
for _ in range(2):
    threading.Thread(target=idle.get, daemon=True).start()
print("ready", flush=True)
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted")
except ZeroDivisionError:
    print("raised")
except InterruptedError:
    print("woken")
else:
    print("woken")
"""

# A wait -> what must be there for it, the wait, and what a handler does to end it.
WAITS = {
    "event": ("event = threading.Event()", "event.wait()", "event.set()"),
    "condition": (
        "changed, told = threading.Condition(threading.Lock()), []",
        "with changed: changed.wait_for(lambda: told)",
        "with changed: told.append(1); changed.notify()",
    ),
    "lock": ("lock = threading.Lock(); lock.acquire()", "lock.acquire()", "lock.release()"),
    "rlock": (
        """lock, event = threading.RLock(), threading.Event()
holding = threading.Thread(target=lambda: (lock.acquire(), event.wait(), lock.release()), daemon=True)
holding.start(); time.sleep(0)""",
        "lock.acquire()",
        "event.set()",
    ),
    "semaphore": ("limit = threading.Semaphore(0)", "limit.acquire()", "limit.release()"),
    "queue": ("items = queue.Queue()", "items.get()", "items.put(1)"),
    "simple queue": ("items = queue.SimpleQueue()", "items.get()", "items.put(1)"),
    "full queue": ("items = queue.Queue(1); items.put(1)", "items.put(2)", "items.get()"),
    "tasks of a queue": ("items = queue.Queue(); items.put(1)", "items.join()", "items.task_done()"),
    "join": (
        "event = threading.Event(); thread = threading.Thread(target=event.wait, daemon=True); thread.start()",
        "thread.join()",
        "event.set()",
    ),
    "future": ("future = concurrent.futures.Future()", "future.result()", "future.set_result(1)"),
    "select": ("", "select.select([], [], [])", "raise InterruptedError"),
    "poll": ("", "select.poll().poll()", "raise InterruptedError"),
    "coroutine": (
        """import asyncio
async def main():
    global loop, event
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    await event.wait()""",
        "asyncio.run(main())",
        "loop.call_soon_threadsafe(event.set)",
    ),
}


def wait_until_asleep(process: subprocess.Popen[str]) -> None:
    """Wait until the program sleeps in a poll, or has ended."""
    end, asleep = time.monotonic() + LIMIT_S, 0
    while asleep < 3 and process.poll() is None:
        assert time.monotonic() < end, "the program never sleeps"
        call = Path(f"/proc/{process.pid}/syscall").read_text().split()[0]
        asleep = asleep + 1 if call in EPOLL_CALLS else 0
        time.sleep(0.0005)


def end_of(wait: tuple[str, str, str], number: signal.Signals, handler: str = "") -> tuple[str, str]:
    """What the program prints when the signal comes while it waits: (stdout, stderr)."""
    prepare, waiting, ends = wait
    source = PROGRAM.format(prepare=prepare, wait=waiting, handler=handler or ends, number=int(number))
    command = [sys.executable, "-c", PATCHED + source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            wait_until_asleep(process)
            process.send_signal(number)
            return process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_handler_ends_the_wait(wait: tuple[str, str, str]) -> None:
    assert end_of(wait, signal.SIGTERM) == ("woken\n", "")


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_an_exception_of_a_handler_ends_the_wait(wait: tuple[str, str, str]) -> None:
    assert end_of(wait, signal.SIGTERM, "1 / 0") == ("raised\n", "")


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_ctrl_c_ends_the_wait(wait: tuple[str, str, str]) -> None:
    assert end_of(wait, signal.SIGINT) == ("interrupted\n", "")


def test_a_handler_of_a_loop_ends_the_wait() -> None:
    prepare = """import asyncio
async def main():
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, event.set)
    await event.wait()"""
    assert end_of((prepare, "asyncio.run(main())", "pass"), signal.SIGUSR1) == ("woken\n", "")


def test_a_handler_of_gevent_ends_the_wait_of_a_thread() -> None:
    prepare = """from oneloop import green
event = threading.Event()
for number in (signal.SIGINT, signal.SIGUSR1): green.signal_handler(number, event.set)"""
    assert end_of((prepare, "event.wait()", "pass"), signal.SIGINT) == ("woken\n", "")


# What is done before, and a wait that nothing can end.
HOPELESS = {
    "Ctrl-C is ignored": ("signal.signal(signal.SIGINT, signal.SIG_IGN)", "threading.Event().wait()"),
    "the system's handler": ("signal.signal(signal.SIGINT, signal.SIG_DFL)", "threading.Event().wait()"),
    "gevent's function": ("from oneloop.green.event import Event", "Event().wait()"),
    "gevent's function for threads": ("from oneloop import green", "green.spawn(threading.Event().wait).get()"),
}


@pytest.mark.parametrize(("before", "wait"), HOPELESS.values(), ids=HOPELESS)
def test_where_nothing_can_wake_it_it_says_so(before: str, wait: str) -> None:
    out = patched(f"""
import faulthandler, signal, threading
from oneloop.green.exceptions import LoopExit
# Its watchdog is a thread of C code.
faulthandler.cancel_dump_traceback_later()
{before}
try:
    {wait}
except LoopExit as error:
    print("no timer, descriptor or thread can wake" in str(error))
""")
    assert out == "True\n"


def test_threads_that_nothing_can_wake_do_not_keep_the_program() -> None:
    program = "import threading; threading.Thread(target=threading.Event().wait).start()"
    done = programs.run_command(
        sys.executable, "-c", f"from oneloop.green import monkey\nmonkey.patch_all()\n{program}"
    )
    assert "LoopExit: this operation would block forever" in done.stderr
