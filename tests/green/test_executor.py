"""`ThreadPoolExecutor` of green threads: a pool of OS threads with the interface of `concurrent.futures`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.threadpool import ThreadPoolExecutor
from tests.green.threads import Gate, fail, square, until


@pytest.fixture
def executor(own_hub: None, gate: Gate) -> Iterator[ThreadPoolExecutor]:
    made = ThreadPoolExecutor(2)
    yield made
    gate.open()
    made.shutdown()


def test_a_future_lets_green_threads_go_on(executor: ThreadPoolExecutor, gate: Gate) -> None:
    future = executor.submit(gate, 5)
    waiting = green.spawn(future.result)
    assert green.spawn(square, 3).get() == 9
    assert not waiting.ready()
    gate.open()
    assert waiting.get() == future.result() == 5
    assert future.exception() is None


def test_an_exception_is_the_futures(executor: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str]) -> None:
    future = executor.submit(fail, 1)
    with pytest.raises(ValueError, match="1"):
        future.result()
    assert isinstance(future.exception(), ValueError)
    assert capsys.readouterr().err == ""


def test_waits_for_a_future_may_be_left(executor: ThreadPoolExecutor, gate: Gate) -> None:
    future = executor.submit(gate, 1)
    for wait in (future.result, future.exception):
        with pytest.raises(TimeoutError):
            wait(0.001)
        with pytest.raises(green.Timeout):
            with green.Timeout(0.001):
                wait()
        killed = green.spawn(wait)
        green.sleep(0)
        killed.kill()
    assert future._done_callbacks == []  # type: ignore[attr-defined]
    gate.open()
    assert future.result() == 1


def test_submit_never_waits_and_calls_may_be_cancelled(executor: ThreadPoolExecutor, gate: Gate) -> None:
    futures = [executor.submit(gate, n) for n in range(4)]
    until(lambda: len(gate.entered) == 2)
    assert not futures[0].cancel()
    assert futures[3].cancel()
    gate.open()
    assert futures[2].result() == 2
    with pytest.raises(concurrent.futures.CancelledError):
        futures[3].result()
    assert sorted(gate.entered) == [0, 1, 2]


def test_the_functions_of_concurrent_futures(executor: ThreadPoolExecutor) -> None:
    futures = [executor.submit(square, n) for n in range(4)]
    assert concurrent.futures.wait(futures).not_done == set()
    assert sorted(done.result() for done in concurrent.futures.as_completed(futures)) == [0, 1, 4, 9]
    assert list(executor.map(square, [2, 3])) == [4, 9]
    called: list[object] = []
    futures[0].add_done_callback(called.append)
    assert called == [futures[0]]


def test_another_thread_waits_for_real(executor: ThreadPoolExecutor, gate: Gate) -> None:
    future = executor.submit(gate, 5)
    got: list[object] = []
    with pytest.raises(TimeoutError):
        _in_thread(future.result, 0.001)
    thread = threading.Thread(target=lambda: got.append(future.result()))
    thread.start()
    gate.open()
    thread.join()
    assert got == [5]


def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        return other.submit(function, *args).result()


def test_shutdown(gate: Gate, own_hub: None) -> None:
    executor = ThreadPoolExecutor(1)
    running, queued = executor.submit(gate, 1), executor.submit(gate, 2)
    with pytest.raises(green.Timeout):
        with green.Timeout(0.001):
            executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(square, 1)
    until(lambda: gate.entered)
    executor.shutdown(wait=False, cancel_futures=True)
    assert queued.cancelled()
    gate.open()
    executor.shutdown()
    assert running.result() == 1
    assert executor._pool.workers.threads == 0
    with ThreadPoolExecutor(1) as unused:
        pass
    unused.shutdown()


def test_an_initializer(own_hub: None) -> None:
    called: list[int] = []
    with ThreadPoolExecutor(1, initializer=called.append, initargs=(1,)) as executor:
        assert executor.submit(square, 2).result() == 4
    assert called == [1]
    with pytest.raises(TypeError):
        ThreadPoolExecutor(1, initializer=5)  # type: ignore[arg-type]


def test_an_initializer_that_fails(own_hub: None) -> None:
    executor = ThreadPoolExecutor(1, initializer=fail, initargs=(1,))
    future = executor.submit(square, 2)
    with pytest.raises(concurrent.futures.thread.BrokenThreadPool):
        future.result()
    with pytest.raises(concurrent.futures.thread.BrokenThreadPool):
        executor.submit(square, 2)
    executor.shutdown()


def test_threads_of_a_dropped_executor_leave(own_hub: None) -> None:
    executor = ThreadPoolExecutor(1)
    assert executor.submit(square, 2).result() == 4
    threads = executor._pool.workers
    del executor
    gc.collect()
    until(lambda: threads.threads == 0)


def test_a_loop_takes_the_executor(own_hub: None) -> None:
    async def main() -> tuple[int, int]:
        running = asyncio.get_running_loop()
        executor = ThreadPoolExecutor(1)
        running.set_default_executor(executor)
        gate = Gate()
        future = executor.submit(gate, 1)
        with pytest.raises(BlockingSwitchOutError):
            future.result()
        gate.open()
        return await asyncio.wrap_future(future), await running.run_in_executor(None, square, 3)

    assert oneloop.run(main()) == (1, 9)
