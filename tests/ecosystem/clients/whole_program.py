"""What programs with clients do beside them: log, hand work to pools of threads and processes, run asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import io
import logging
import logging.handlers
import multiprocessing
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.ecosystem.clients.parts import at_once, part, raises, run

MANY = 50


@part
def logging_by_many() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        logger = logging.getLogger("green")
        file = logging.FileHandler(path)
        file.setFormatter(logging.Formatter("%(threadName)s|%(thread)d|%(message)s"))
        records: queue.Queue[Any] = queue.Queue()
        listener = logging.handlers.QueueListener(records, file)
        logger.addHandler(logging.handlers.QueueHandler(records))
        logger.addHandler(file)
        listener.start()

        def one(number: int) -> None:
            for _ in range(10):
                logger.warning("of %s", number)
                time.sleep(0)

        at_once(MANY, one)
        listener.stop()
        file.close()
        lines = path.read_text().splitlines()
        assert len(lines) == 2 * 10 * MANY
        names = {tuple(line.split("|")[:2]) for line in lines}
        # A number may be given again to a later thread.
        assert len(names) == MANY


@part
def a_handler_that_parks() -> None:
    """Logging over a socket: the handler's lock is held while it waits."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        received = 0

        def serve() -> None:
            nonlocal received
            connection, _ = listener.accept()
            with connection:
                while data := connection.recv(65536):
                    received += len(data)

        serving = threading.Thread(target=serve)
        serving.start()
        logger = logging.getLogger("remote")
        handler = logging.handlers.SocketHandler("127.0.0.1", listener.getsockname()[1])
        logger.addHandler(handler)

        def one(_: int) -> None:
            for _ in range(5):
                logger.warning("x" * 20_000)

        at_once(20, one)
        logger.removeHandler(handler)
        handler.close()
        serving.join()
        assert received > 20 * 5 * 20_000


@part
def pools_of_threads() -> None:
    together = threading.Barrier(MANY)
    with concurrent.futures.ThreadPoolExecutor(MANY) as executor:
        futures = [executor.submit(together.wait) for _ in range(MANY)]
        assert sorted(future.result() for future in concurrent.futures.as_completed(futures)) == list(range(MANY))
    done = []
    with concurrent.futures.ThreadPoolExecutor(3, initializer=lambda: time.sleep(0.01)) as executor:
        executor.submit(time.sleep, 0.01).add_done_callback(lambda _: done.append(threading.current_thread().name))
        assert list(executor.map(lambda number: number * number, range(100))) == [n * n for n in range(100)]
        raises(concurrent.futures.TimeoutError, lambda: executor.submit(time.sleep, 0.2).result(0.01))
    assert len(done) == 1
    executor = concurrent.futures.ThreadPoolExecutor(1)
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go_on.wait()

    held = executor.submit(hold)
    begun.wait()
    never = executor.submit(time.sleep, 30)
    executor.shutdown(wait=False, cancel_futures=True)
    assert never.cancelled()
    go_on.set()
    held.result()


@part
def asyncio_in_many_threads() -> None:
    together = threading.Barrier(MANY)
    name = contextvars.ContextVar[int]("name")

    async def one(number: int) -> int:
        name.set(number)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"%d\n" % number)
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        # A thread of the interpreter's: it waits without holding up anybody.
        await asyncio.to_thread(os.getpid)
        async with asyncio.timeout(30):
            await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(5)))
        assert name.get() == number
        return int(line)

    def run_one(number: int) -> int:
        together.wait()
        return asyncio.run(one(number))

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        port = listener.getsockname()[1]

        def answer(connection: socket.socket) -> None:
            with connection, connection.makefile("rb") as file:
                connection.sendall(file.readline())

        def serve() -> None:
            threads = [threading.Thread(target=answer, args=(listener.accept()[0],)) for _ in range(MANY)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        serving = threading.Thread(target=serve)
        serving.start()
        assert at_once(MANY, run_one) == list(range(MANY))
        serving.join()


@part
def a_coroutine_beside_threads() -> None:
    """It goes on while threads wait, and they while it does."""
    ticks = 0
    stop = threading.Event()

    async def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            await asyncio.sleep(0.001)

    ticking = threading.Thread(target=lambda: asyncio.run(tick()))
    ticking.start()

    def one(_: int) -> None:
        began = ticks
        while ticks < began + 20:
            time.sleep(0.001)

    at_once(MANY, one)
    stop.set()
    ticking.join()


@part
def between_a_loop_and_threads() -> None:
    """`run_coroutine_threadsafe` from many threads, and futures that a coroutine awaits."""
    loop = asyncio.new_event_loop()
    running = threading.Thread(target=loop.run_forever)
    running.start()

    async def double(number: int) -> int:
        await asyncio.sleep(0.005)
        return 2 * number

    assert at_once(MANY, lambda n: asyncio.run_coroutine_threadsafe(double(n), loop).result(30)) == [
        2 * number for number in range(MANY)
    ]

    async def use_pool() -> list[int]:
        with concurrent.futures.ThreadPoolExecutor(10) as executor:
            together = threading.Barrier(10)
            return sorted(await asyncio.gather(*(loop.run_in_executor(executor, together.wait) for _ in range(10))))

    assert asyncio.run_coroutine_threadsafe(use_pool(), loop).result(30) == list(range(10))
    loop.call_soon_threadsafe(loop.stop)
    running.join()
    loop.close()


def square(number: int) -> int:
    time.sleep(0.001)
    return number * number


def fill(items: Any, number: int) -> None:
    items.put(number)


def answer_in_pipe(connection: Any) -> None:
    connection.send(connection.recv() * 2)
    connection.close()


def in_threads(number: int) -> list[int]:
    return at_once(5, lambda other: square(number + other))


@part
def pools_of_processes() -> None:
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
            assert list(executor.map(square, range(20))) == [number * number for number in range(20)]
            # Many threads, each with work for another process, which has threads itself.
            assert at_once(5, lambda n, e=executor: e.submit(in_threads, n).result()) == [  # type: ignore[misc]
                [(number + other) ** 2 for other in range(5)] for number in range(5)
            ]


@part
def multiprocessings_own() -> None:
    for method in ("fork", "spawn", "forkserver"):
        context: Any = multiprocessing.get_context(method)
        items = context.Queue()
        children = [context.Process(target=fill, args=(items, number)) for number in range(3)]
        for child in children:
            child.start()
        assert sorted(items.get() for _ in children) == [0, 1, 2]
        for child in children:
            child.join()
            assert child.exitcode == 0
        ours, theirs = context.Pipe()
        child = context.Process(target=answer_in_pipe, args=(theirs,))
        child.start()
        theirs.close()
        ours.send(21)
        assert ours.recv() == 42
        child.join()
        ours.close()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(square, range(10)) == [number * number for number in range(10)]
        assert pool.apply_async(square, (3,)).get(30) == 9


@part
def programs_at_once() -> None:
    command = [sys.executable, "-S", "-c"]
    source = "import sys; sys.stdout.write(sys.stdin.read().upper())"

    def one(number: int) -> str:
        done = subprocess.run([*command, source], input=f"a{number}", capture_output=True, text=True, check=True)
        return done.stdout

    assert at_once(10, one) == [f"A{number}" for number in range(10)]
    at_once(
        5,
        lambda _: raises(subprocess.TimeoutExpired, lambda: subprocess.run(["sleep", "30"], timeout=0.05, check=True)),
    )


@part
def names_are_resolved_at_once() -> None:
    found = at_once(MANY, lambda n: socket.getaddrinfo("localhost", n, type=socket.SOCK_STREAM))
    assert [{entry[4][1] for entry in entries} for entries in found] == [{number} for number in range(MANY)]
    raises(socket.gaierror, lambda: socket.getaddrinfo("no-such-name.invalid", 80))


@part
def timers_and_locals() -> None:
    mine = threading.local()
    fired = threading.Semaphore(0)

    def one(number: int) -> None:
        mine.number = number
        timer = threading.Timer(0.01, fired.release)
        timer.start()
        time.sleep(0.005)
        assert mine.number == number
        timer.join()

    at_once(MANY, one)
    for _ in range(MANY):
        assert fired.acquire(timeout=30)
    assert not hasattr(mine, "number")
    # What is printed by many at once is not torn.
    output = io.StringIO()
    at_once(MANY, lambda number: print(number, file=output))
    assert sorted(map(int, output.getvalue().split())) == list(range(MANY))


if __name__ == "__main__":
    run()
