"""A program that ends in a named way, alone or as the children of multiprocessing. `test_process_exit.py` runs it.

`python -m tests.loop.exiting LOOP WAY` ends in one way. `python -m tests.loop.exiting LOOP START FOLDER` starts one
process for each way from a coroutine and prints their exit codes as JSON; their output is in the folder.
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

LIMIT_S = 60.0
STEP_S = 0.0002

NewLoop = Callable[[], asyncio.AbstractEventLoop]


# -- ways of a loop in the main thread ----------------------------------------------------------------------


def run(new_loop: NewLoop, act: Callable[[], Any]) -> None:
    """A coroutine that waits, and calls `act` in a callback of its loop meanwhile."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        pending = asyncio.ensure_future(asyncio.sleep(3600))
        loop.call_soon(act)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pending.cancel()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    print("end", flush=True)


def raise_in_a_coroutine(new_loop: NewLoop) -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        raise LookupError("the end")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def leave_it_open(new_loop: NewLoop) -> None:
    loop = new_loop()
    loop.run_until_complete(asyncio.sleep(0))
    sys.kept = loop  # type: ignore[attr-defined]
    print("end", flush=True)


# -- ways of a loop in a daemon thread, which is still running when the interpreter ends ----------------------------


def compute(_: threading.Lock) -> NoReturn:
    while True:
        sum(range(1000))


def sleep_in_steps(_: threading.Lock) -> NoReturn:
    while True:
        time.sleep(STEP_S)


def wait_in_steps(lock: threading.Lock) -> None:
    while not lock.acquire(timeout=STEP_S):
        pass


def wait_for_ever(lock: threading.Lock) -> None:
    lock.acquire()


class Slow:
    """An object whose destructor does not end."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self.begin = begin

    def __call__(self) -> None:
        pass

    def __del__(self) -> None:
        self.begin()


def in_a_daemon_thread(work: Callable[[Callable[[], Any]], Any], act: Callable[[threading.Lock], Any]) -> None:
    """Call `work(begin)` in a daemon thread, and return once it has called `begin`, which calls `act`."""
    begun = threading.Event()
    lock = threading.Lock()
    lock.acquire()

    def begin() -> None:
        begun.set()
        act(lock)

    threading.Thread(target=work, args=(begin,), daemon=True).start()
    assert begun.wait(LIMIT_S)
    print("end", flush=True)


def in_a_callback(new_loop: NewLoop, act: Callable[[threading.Lock], Any]) -> None:
    def work(begin: Callable[[], Any]) -> None:
        loop = new_loop()
        loop.call_soon(begin)
        loop.run_forever()

    in_a_daemon_thread(work, act)


def in_a_task(new_loop: NewLoop, act: Callable[[threading.Lock], Any]) -> None:
    def work(begin: Callable[[], Any]) -> None:
        async def main() -> None:
            await asyncio.sleep(0)
            try:
                begin()
            finally:
                print("the finally block of a task in a daemon thread", flush=True)

        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())

    in_a_daemon_thread(work, act)


def in_data_received(new_loop: NewLoop, act: Callable[[threading.Lock], Any]) -> None:
    def work(begin: Callable[[], Any]) -> None:
        class Receiver(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                begin()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(Receiver, "127.0.0.1", 0)
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"data")
            await asyncio.sleep(3600)

        new_loop().run_until_complete(main())

    in_a_daemon_thread(work, act)


def in_close(new_loop: NewLoop, act: Callable[[threading.Lock], Any]) -> None:
    def work(begin: Callable[[], Any]) -> None:
        loop = new_loop()
        loop.call_soon(Slow(begin))
        loop.close()

    in_a_daemon_thread(work, act)


def in_cancel(new_loop: NewLoop, act: Callable[[threading.Lock], Any]) -> None:
    def work(begin: Callable[[], Any]) -> None:
        loop = new_loop()
        handle = loop.call_later(3600, Slow(begin))
        handle.cancel()

    in_a_daemon_thread(work, act)


def stop_it_in_atexit(new_loop: NewLoop) -> None:
    """As jupyter_core's runner: stopped in atexit, closed by the thread while the interpreter ends."""
    loop = new_loop()
    begun = threading.Event()

    def work() -> None:
        try:
            loop.run_forever()
        finally:
            loop.call_soon(Slow(lambda: sleep_in_steps(threading.Lock())))
            loop.close()

    atexit.register(loop.call_soon_threadsafe, loop.stop)
    loop.call_soon(begun.set)
    threading.Thread(target=work, daemon=True).start()
    assert begun.wait(LIMIT_S)
    print("end", flush=True)


_early: list[Callable[[], Any]] = []


def use_it_in_atexit(new_loop: NewLoop) -> None:
    """A function that was registered before oneloop was imported waits for the loop of a daemon thread."""
    loop = new_loop()

    async def answer() -> str:
        await asyncio.sleep(0.001)
        return "the loop still runs in atexit"

    _early.append(lambda: print(asyncio.run_coroutine_threadsafe(answer(), loop).result(LIMIT_S), flush=True))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    print("end", flush=True)


WAYS: dict[str, Callable[[NewLoop], Any]] = {
    "return": lambda new_loop: run(new_loop, lambda: None),
    "exception": raise_in_a_coroutine,
    "left open": leave_it_open,
    "sys.exit": lambda new_loop: run(new_loop, lambda: sys.exit(3)),
    "os._exit": lambda new_loop: run(new_loop, lambda: os._exit(4)),
    "SIGTERM": lambda new_loop: run(new_loop, lambda: os.kill(os.getpid(), signal.SIGTERM)),
    "SIGINT": lambda new_loop: run(new_loop, lambda: os.kill(os.getpid(), signal.SIGINT)),
    "daemon computes": lambda new_loop: in_a_callback(new_loop, compute),
    "daemon sleeps in steps": lambda new_loop: in_a_callback(new_loop, sleep_in_steps),
    "daemon waits in steps": lambda new_loop: in_a_callback(new_loop, wait_in_steps),
    "daemon waits for ever": lambda new_loop: in_a_callback(new_loop, wait_for_ever),
    "daemon polls": lambda new_loop: in_a_callback(new_loop, lambda _: None),
    "daemon in a task": lambda new_loop: in_a_task(new_loop, sleep_in_steps),
    "daemon in data_received": lambda new_loop: in_data_received(new_loop, sleep_in_steps),
    "daemon in close()": lambda new_loop: in_close(new_loop, sleep_in_steps),
    "daemon in cancel()": lambda new_loop: in_cancel(new_loop, sleep_in_steps),
    "daemon closes in atexit": stop_it_in_atexit,
    "daemon used in atexit": use_it_in_atexit,
}


def end(loop_name: str, way: str, output: str | None = None) -> None:
    """End this process in this way; its output goes to files if there is a name for them."""
    if output is not None:
        for number, suffix in ((1, "out"), (2, "err")):
            fd = os.open(f"{output}.{suffix}", os.O_WRONLY | os.O_CREAT)
            os.dup2(fd, number)
            os.close(fd)
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    atexit.register(lambda: [call() for call in _early])
    from tests.loops import FACTORIES

    WAYS[way](FACTORIES[loop_name])


def start_all(loop_name: str, start: str, folder: Path) -> dict[str, int | None]:
    """Start the processes from a coroutine, while another loop runs in a daemon thread. Returns their exit codes."""
    from tests.loops import FACTORIES

    new_loop = FACTORIES[loop_name]
    context = multiprocessing.get_context(start)
    other = new_loop()
    threading.Thread(target=other.run_forever, daemon=True).start()

    async def main() -> dict[str, int | None]:
        processes: dict[str, Any] = {}
        for way in WAYS:
            arguments = (loop_name, way, str(folder / way))
            processes[way] = context.Process(target=end, args=arguments, name=way)  # type: ignore[attr-defined]
            processes[way].start()
        for process in processes.values():
            await asyncio.to_thread(process.join, LIMIT_S)
        return {way: process.exitcode for way, process in processes.items()}

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main())


if __name__ == "__main__":
    if len(sys.argv) == 3:
        end(sys.argv[1], sys.argv[2])
    else:
        print(json.dumps(start_all(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
