"""`asyncio.run` in many green threads of one hub: each has its own loop, and none blocks the others."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import GreenletExit, event
from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.queue import Queue
from oneloop.green.socket import socketpair

MANY = 100
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("VARIABLE")


def run_in_new_loop(main: Coroutine[Any, Any, Any]) -> Any:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def run_in_stock_loop(main: Coroutine[Any, Any, Any]) -> Any:
    loop = asyncio.SelectorEventLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def run_in_runner(main: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner() as runner:
        return runner.run(main)


RUNS: list[Callable[[Coroutine[Any, Any, Any]], Any]] = [
    green.run,
    oneloop.run,
    asyncio.run,
    run_in_runner,
    run_in_new_loop,
    run_in_stock_loop,
]


async def everything(number: int) -> int:
    """Typical work of a program on a loop."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    assert asyncio.all_tasks() == {task}
    VARIABLE.set(number)
    await asyncio.sleep(0.01)

    async def inner() -> int:
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is loop
        assert task in asyncio.all_tasks()
        assert len(asyncio.all_tasks()) <= 4
        return VARIABLE.get()

    assert await asyncio.gather(*(inner() for _ in range(3))) == [number] * 3
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await asyncio.sleep(100)
    assert asyncio.get_running_loop() is loop
    assert asyncio.current_task() is task
    return VARIABLE.get()


# -- many loops at the same time ---------------------------------------------------------------------


@pytest.mark.parametrize("run", RUNS)
def test_many_run_at_once(installed: None, run: Callable[..., Any]) -> None:
    inside = Queue[int]()
    seen = 0

    async def main(number: int) -> int:
        nonlocal seen
        inside.put_nowait(number)
        # Continue only when all of them have arrived.
        while inside.qsize() < MANY:
            await asyncio.sleep(0)
        seen += 1
        return await everything(number)

    threads = [green.spawn(lambda number=number: run(main(number))) for number in range(MANY)]
    green.joinall(threads)
    assert [thread.get() for thread in threads] == list(range(MANY))
    assert seen == MANY


def test_oneloop_run_in_a_green_thread_needs_no_patching() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__name__

    assert green.spawn(lambda: oneloop.run(main())).get() == "FacadeLoop"
    assert oneloop.run(main()) == "Loop"
    assert green.run(main()) == "FacadeLoop"


def test_beside_a_running_loop() -> None:
    """Green threads of `oneloop.run` run their own loops beside its coroutines."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        numbers = await asyncio.gather(*(loop.run_green(green.run, everything(n)) for n in range(20)), asyncio.sleep(0))
        assert numbers[:20] == list(range(20))
        assert asyncio.get_running_loop() is loop

    oneloop.run(main())


def test_streams_between_loops() -> None:
    """A server on one loop, its clients on others, and a blocking client in a green thread."""
    ports = event.AsyncResult[int]()
    ends = event.Event()

    async def serve() -> int:
        served = 0

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
                served += 1
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        ports.set(server.sockets[0].getsockname()[1])
        await ends.wait()
        server.close()
        await server.wait_closed()
        return served

    async def ask(number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", await ports.get())
        for _ in range(5):
            writer.write(b"%d\n" % number)
            line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return line

    def ask_blocking(number: int) -> bytes:
        with green.socket.create_connection(("127.0.0.1", ports.get())) as sock:
            for _ in range(5):
                sock.sendall(b"%d\n" % number)
                line: bytes = sock.recv(100)
            return line

    server = green.spawn(green.run, serve())
    ports.get()
    clients = [green.spawn(green.run, ask(number)) for number in range(20)]
    clients += [green.spawn(ask_blocking, number) for number in range(20, 40)]
    assert [client.get() for client in clients] == [b"%d\n" % number for number in range(40)]
    ends.set()
    assert server.get() == 200


def test_subprocesses_and_threads() -> None:
    async def main(number: int) -> bytes:
        program = f"print({number})"
        child = await asyncio.create_subprocess_exec(sys.executable, "-Sc", program, stdout=asyncio.subprocess.PIPE)
        out, _ = await child.communicate()
        assert child.returncode == 0
        assert await asyncio.to_thread(threading.get_ident) != threading.get_ident()
        return out

    threads = [green.spawn(green.run, main(number)) for number in range(5)]
    assert [thread.get() for thread in threads] == [b"%d\n" % number for number in range(5)]


def test_green_threads_block_meanwhile() -> None:
    """A blocking green thread and a coroutine take turns."""
    left, right = socketpair()
    with left, right:

        def echo() -> None:
            while data := right.recv(10):
                right.sendall(data)

        async def main() -> None:
            for number in range(10):
                left.sendall(b"%d" % number)
                await asyncio.get_running_loop().run_green(green.sleep, 0)  # type: ignore[attr-defined]

        echoing = green.spawn(echo)
        green.spawn(green.run, main()).get()
        got = b""
        while len(got) < 10:
            got += left.recv(10)
        assert got == b"0123456789"
        left.close()
        echoing.get()


def test_a_loop_that_never_rests_lets_others_go_on() -> None:
    is_over = False

    async def main() -> None:
        while not is_over:
            await asyncio.sleep(0)

    running = green.spawn(green.run, main())
    for _ in range(10):
        green.sleep(0.001)
    is_over = True
    running.get()


def test_debug_mode() -> None:
    async def main() -> bool:
        await asyncio.sleep(0.001)
        await asyncio.get_running_loop().run_green(green.sleep, 0)  # type: ignore[attr-defined]
        return asyncio.get_running_loop().get_debug() and sys.get_coroutine_origin_tracking_depth() > 0

    def runs(number: int) -> bool:
        return green.run(main(), debug=number % 2 == 0)

    threads = [green.spawn(runs, number) for number in range(6)]
    assert [thread.get() for thread in threads] == [True, False] * 3
    assert sys.get_coroutine_origin_tracking_depth() == 0


# -- shutdown, kills, timeouts -----------------------------------------------------------------------


def test_asynchronous_generators_are_shut_down() -> None:
    ended: list[int] = []

    async def numbers(number: int) -> AsyncIterator[int]:
        try:
            while True:
                yield number
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    kept = []
    green.sleep(0)
    hooks = sys.get_asyncgen_hooks()

    async def main(number: int) -> None:
        iterator = numbers(number)
        kept.append(iterator)
        assert await anext(iterator) == number
        await asyncio.sleep(0.001)

    green.joinall([green.spawn(green.run, main(number)) for number in range(10)], raise_error=True)
    assert sorted(ended) == list(range(10))
    assert sys.get_asyncgen_hooks() == hooks


def test_the_hooks_of_the_loop_around_are_kept() -> None:
    ended: list[str] = []

    async def numbers(name: str) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.append(name)

    kept = []

    async def take(name: str) -> None:
        kept.append(numbers(name))
        assert await anext(kept[-1]) == 1

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()

        async def inside() -> None:
            await asyncio.sleep(0.001)
            await take("inner")

        running = asyncio.ensure_future(loop.run_green(green.run, inside()))
        await asyncio.sleep(0)
        await take("outer")
        await running
        assert ended == ["inner"]

    oneloop.run(main())
    assert sorted(ended) == ["inner", "outer"]


def test_what_is_left_is_cancelled() -> None:
    ended: list[str] = []

    async def rest() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append("rest")

    async def main() -> Any:
        task = asyncio.ensure_future(rest())
        await asyncio.sleep(0)
        return task

    assert green.spawn(green.run, main()).get().cancelled()
    assert ended == ["rest"]


@pytest.mark.parametrize("error", [GreenletExit(), LookupError("told"), green.Timeout(1)])
def test_a_kill_unwinds_the_coroutines(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    async def main() -> None:
        try:
            seen.append("begun")
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            seen.append("unwound")
            raise

    thread = green.spawn(green.run, main())
    while not seen:
        green.sleep(0)
    thread.kill(error)
    assert seen == ["begun", "unwound"]
    assert thread.ready()
    if isinstance(error, GreenletExit):
        assert thread.value is error
    else:
        assert thread.exception is error
    assert ("failed with" in capsys.readouterr().err) != isinstance(error, GreenletExit)


def test_a_timeout_around_a_run() -> None:
    seen: list[str] = []

    async def main() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            seen.append("unwound")

    def runs() -> None:
        with pytest.raises(green.Timeout), green.Timeout(0.001):
            green.run(main())

    green.spawn(runs).get()
    assert seen == ["unwound"]


def test_errors_and_cancellations_come_out() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("told")

    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    def runs() -> None:
        with pytest.raises(LookupError, match="told"):
            green.run(fail())
        with pytest.raises(asyncio.CancelledError):
            green.run(cancel())
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    green.spawn(runs).get()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_raised_in_the_main_greenlet(
    kind: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        raise kind

    thread = green.spawn(green.run, main())
    with pytest.raises(kind):
        thread.join()
    capsys.readouterr()


# -- between green threads and coroutines ------------------------------------------------------------


def test_blocking_in_a_coroutine_is_refused() -> None:
    left, right = socketpair()
    with left, right:

        async def main() -> None:
            with pytest.raises(BlockingSwitchOutError, match=r"sleep\(1\) would block the event loop"):
                green.sleep(1)
            with pytest.raises(BlockingSwitchOutError, match="in main"):
                left.recv(1)
            with pytest.raises(RuntimeError, match=r"green.run\(\) cannot be called"):
                green.run(asyncio.sleep(0))

        green.spawn(green.run, main()).get()


def test_awaiting_green_threads_and_back() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        futures: asyncio.Queue[int] = asyncio.Queue()

        async def told(value: Any) -> Any:
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            if isinstance(value, BaseException):
                raise value
            return value

        def works() -> str:
            assert green.await_(told(1)) == 1
            assert green.await_(futures.get()) == 2
            with pytest.raises(LookupError):
                green.await_(told(LookupError("told")))
            with pytest.raises(green.Timeout), green.Timeout(0.001):
                green.await_(asyncio.sleep(100))
            assert green.await_(task) == "task"
            return "worked"

        task = asyncio.ensure_future(told("task"))
        working = asyncio.ensure_future(loop.run_green(works))
        await asyncio.sleep(0.001)
        futures.put_nowait(2)
        assert await working == "worked"
        assert await green.spawn(works_alone) == "alone"

    def works_alone() -> str:
        green.sleep(0.001)
        return "alone"

    green.joinall([green.spawn(green.run, main()) for _ in range(10)], raise_error=True)


def test_killed_before_the_other_loop_had_its_turn() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()

        async def never() -> None:
            raise AssertionError("it was killed before")

        def works() -> None:
            green.spawn(green.kill, green.getcurrent())
            green.await_(never())

        with pytest.raises(asyncio.CancelledError):
            await loop.run_green(works)

    green.spawn(green.run, main()).get()


def test_a_queue_between_two_loops_and_a_green_thread() -> None:
    queue: Queue[int] = Queue(1)
    got: list[int] = []

    async def produce() -> None:
        for number in range(100):
            await queue.put(number)

    async def consume() -> None:
        while True:
            got.append(await queue.get())

    def consume_blocking() -> None:
        while True:
            got.append(queue.get())

    producers = [green.spawn(green.run, produce()) for _ in range(2)]
    consumers = [green.spawn(green.run, consume()), green.spawn(consume_blocking)]
    green.joinall(producers, raise_error=True)
    while len(got) < 200:
        green.sleep(0)
    green.killall(consumers)
    assert sorted(got) == sorted([*range(100), *range(100)])


# -- threads, signals --------------------------------------------------------------------------------


def test_another_thread_wakes_it() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        got: list[int] = []
        done = loop.create_future()

        def told(number: int) -> None:
            got.append(number)
            if number == 499:
                done.set_result(None)

        def tell() -> None:
            for number in range(500):
                loop.call_soon_threadsafe(told, number)

        thread = threading.Thread(target=tell)
        thread.start()
        await done
        thread.join()
        return got

    threads = [green.spawn(green.run, main()) for _ in range(4)]
    for thread in threads:
        assert thread.get() == list(range(500))


def test_in_a_thread_without_green_threads() -> None:
    """In an OS thread without a hub, the loop waits in the kernel, and other threads can wake it."""
    got: list[Any] = []

    async def main() -> str:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        await asyncio.to_thread(loop.call_soon_threadsafe, future.set_result, "told")
        told: str = await future
        return told

    thread = threading.Thread(target=lambda: got.append(green.run(main())))
    thread.start()
    thread.join()
    assert got == ["told"]


def test_signals() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        got = loop.create_future()
        with pytest.raises(TypeError):
            loop.add_signal_handler(signal.SIGUSR1, main)
        loop.add_signal_handler(signal.SIGUSR1, got.set_result, "arrived")
        os.kill(os.getpid(), signal.SIGUSR1)
        arrived: str = await got
        assert loop.remove_signal_handler(signal.SIGUSR1)
        assert not loop.remove_signal_handler(signal.SIGUSR1)
        loop.add_signal_handler(signal.SIGUSR1, print)
        return arrived

    assert green.spawn(green.run, main()).get() == "arrived"
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
