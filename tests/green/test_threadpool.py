"""OS threads for green threads: calls, room, sizes and shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import workers
from oneloop.green.exceptions import BlockingSwitchOutError, InvalidThreadUseError
from oneloop.green.hub import end_own_hub, get_hub
from oneloop.green.threadpool import ThreadPool, ThreadResult
from tests.green.threads import Gate, fail, square, until


@pytest.fixture
def pool(own_hub: None, gate: Gate) -> Iterator[ThreadPool]:
    made = ThreadPool(2)
    yield made
    gate.open()
    made.kill()


# -- calls ---------------------------------------------------------------------------------------------


def test_a_call_runs_in_another_thread_while_green_threads_go_on(pool: ThreadPool, gate: Gate) -> None:
    result = pool.spawn(gate, 5)
    assert green.spawn(square, 3).get() == 9
    assert not result.ready()
    assert len(pool) == 1
    gate.open()
    assert result.get() == 5
    assert pool.spawn(get_ident).get() != get_ident()
    pool.join()
    assert (len(pool), bool(pool)) == (0, True)


def test_threads_are_reused_and_made_when_needed(pool: ThreadPool, gate: Gate) -> None:
    assert pool.size == 0
    for _ in range(20):
        pool.spawn(square, 2).get()
    assert pool.size == 1
    pool.spawn(gate)
    pool.spawn(gate)
    assert pool.size == 2


def test_an_exception_is_raised_and_reported(pool: ThreadPool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="1"):
        pool.spawn(fail, 1).get()
    green.sleep(0)
    told = capsys.readouterr().err
    assert "the call of <function fail" in told
    assert "failed with ValueError" in told


def test_system_exit_of_a_call_ends_the_program(pool: ThreadPool) -> None:
    pool.spawn(sys.exit, 3)
    with pytest.raises(SystemExit) as raised:
        pool.join()
        green.sleep(1)
    assert raised.value.code == 3


def test_spawn_waits_for_a_free_thread(pool: ThreadPool, gate: Gate) -> None:
    # One call may wait for a thread.
    for n in range(3):
        pool.spawn(gate, n)
    fourth = green.spawn(pool.spawn, gate, 3)
    green.sleep(0)
    assert not fourth.ready()
    gate.open()
    assert fourth.get().get() == 3
    pool.join()


def test_who_is_thrown_out_of_its_wait_takes_no_room(pool: ThreadPool, gate: Gate) -> None:
    for n in range(3):
        pool.spawn(gate, n)
    until(lambda: len(gate.entered) == 2)
    with pytest.raises(green.Timeout):
        with green.Timeout(0.001):
            pool.spawn(gate, 2)
    killed = green.spawn(pool.spawn, gate, 3)
    green.sleep(0)
    killed.kill()
    gate.open()
    pool.join()
    assert sorted(gate.entered) == [0, 1, 2]
    assert [pool.spawn(square, 2).get() for _ in range(3)] == [4, 4, 4]


@pytest.mark.parametrize("method", ["get", "join"])
def test_a_wait_for_a_call_may_be_left(pool: ThreadPool, gate: Gate, method: str) -> None:
    result = pool.spawn(gate, 1)
    wait = result.get if method == "get" else pool.join
    with pytest.raises(green.Timeout):
        with green.Timeout(0.001):
            wait()
    killed = green.spawn(wait)
    green.sleep(0)
    killed.kill()
    assert isinstance(killed.value, green.GreenletExit)
    gate.open()
    assert result.get() == 1


def test_apply_and_maps(pool: ThreadPool) -> None:
    got: list[Any] = []
    assert pool.apply(int, ("11",), {"base": 2}) == 3
    assert pool.apply_cb(square, (2,), callback=got.append) == 4
    assert pool.apply_async(square, (3,), callback=got.append).get() == 9
    assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
    assert pool.map_async(square, [2]).get() == [4]
    assert list(pool.imap(square, range(5), maxsize=1)) == [0, 1, 4, 9, 16]
    assert sorted(pool.imap_unordered(square, range(5))) == [0, 1, 4, 9, 16]
    assert got == [4, 9]
    for ask in (lambda: pool.apply(fail, (1,)), lambda: pool.map(fail, [0, 1]), lambda: list(pool.imap(fail, [0, 1]))):
        with pytest.raises(ValueError, match="1"):
            ask()


def test_results_keep_the_order_of_the_items(pool: ThreadPool, gate: Gate) -> None:
    def first_is_last(number: int) -> int:
        return int(gate(number)) if number == 0 else number

    results = pool.imap(first_is_last, range(3))
    unordered = pool.imap_unordered
    until(lambda: len(pool) == 1)
    gate.open()
    assert list(results) == [0, 1, 2]
    assert sorted(unordered(square, [1, 2])) == [1, 4]


def test_a_killed_imap_starts_no_more_calls(pool: ThreadPool, gate: Gate) -> None:
    results = pool.imap(gate, range(10))
    until(lambda: len(gate.entered) == 2)
    results.kill()
    assert list(results) == []
    gate.open()
    pool.join()
    # The third one waited for a thread.
    assert sorted(gate.entered) == [0, 1, 2]


def test_a_call_that_applies_calls_right_there(pool: ThreadPool) -> None:
    assert pool.spawn(lambda: pool.apply(get_ident) == get_ident()).get() is True


def test_a_pool_that_was_made_on_another_hub(pool: ThreadPool) -> None:
    """As a module's, which several runs of a program's loop use in turn."""
    get_hub()
    for _ in range(2):
        assert oneloop.run(_applied(pool)) == 2
    assert pool.apply(len, ("ab",)) == 2


def test_a_pool_whose_own_run_has_ended(own_hub: None, gate: Gate) -> None:
    """Before its calls: they count no more when they have ended."""

    async def begin() -> ThreadPool:
        green_call = asyncio.get_running_loop().run_green  # type: ignore[attr-defined]
        made: ThreadPool = await green_call(ThreadPool, 1)
        for _ in range(2):
            await green_call(made.spawn, gate)
        return made

    pool = oneloop.run(begin())
    assert len(pool) == 2
    gate.open()
    until(lambda: not len(pool))
    assert oneloop.run(_applied(pool)) == 2
    oneloop.run(_joined(pool))


async def _joined(pool: ThreadPool) -> None:
    await asyncio.get_running_loop().run_green(pool.join)  # type: ignore[attr-defined]


def test_a_result_that_a_closed_loop_has_dropped_counts_once() -> None:
    calls: list[str] = []

    class Hub:
        _is_parents = False

        def run_callback_threadsafe(self, callback: Callable[[], object]) -> None:
            """Drop it, as the end of a loop does."""

        def handle_error(self, *_: object) -> None:
            raise AssertionError

    result = ThreadResult(None, Hub(), lambda: calls.append("ready"))  # type: ignore[arg-type]
    result.set(1)
    assert not calls
    del result
    gc.collect()
    assert calls == ["ready"]
    # One that has never been set is not ready.
    ThreadResult(None, Hub(), lambda: calls.append("ready"))  # type: ignore[arg-type]
    gc.collect()
    assert calls == ["ready"]


def test_a_result_for_a_closed_loop_is_ready_at_once() -> None:
    calls: list[str] = []

    class Hub:
        _is_parents = False

        def run_callback_threadsafe(self, callback: Callable[[], object]) -> None:
            raise RuntimeError("closed")

    result = ThreadResult(None, Hub(), lambda: calls.append("ready"))  # type: ignore[arg-type]
    result.set(1)
    assert calls == ["ready"]
    del result
    gc.collect()
    assert calls == ["ready"]


async def _applied(pool: ThreadPool) -> Any:
    return await asyncio.get_running_loop().run_green(pool.apply, len, ("ab",))  # type: ignore[attr-defined]


def test_another_thread_may_not_spawn(pool: ThreadPool) -> None:
    with pytest.raises(InvalidThreadUseError):
        pool.spawn(pool.spawn, square, 2).get()


def test_a_call_may_have_green_threads_of_its_own(pool: ThreadPool) -> None:
    hubs: list[weakref.ref[Any]] = []

    def inside() -> int:
        hubs.append(weakref.ref(get_hub()))
        green.sleep(0)
        number: int = green.spawn(square, 3).get()
        return number

    assert pool.spawn(inside).get() == 9
    pool.kill()
    hub = hubs[0]()
    assert hub is None or hub.asyncio_loop.is_closed()


def test_threading_forgets_the_threads(pool: ThreadPool) -> None:
    before = set(threading.enumerate())
    assert pool.spawn(threading.current_thread).get() not in before
    pool.kill()
    assert set(threading.enumerate()) == before


def test_what_a_call_holds_is_let_go(pool: ThreadPool) -> None:
    class Argument:
        pass

    argument = Argument()
    reference = weakref.ref(argument)
    pool.spawn(id, argument).get()
    del argument
    # The worker drops its reference shortly after it has notified the hub.
    until(lambda: reference() is None)


async def test_a_coroutine_awaits_results(loop: asyncio.AbstractEventLoop) -> None:
    pool = ThreadPool(1)
    gate = Gate()
    assert await pool.spawn(square, 3) == 9
    result = pool.spawn(gate, 1)
    pool.spawn(square, 2)
    for wait in (lambda: pool.spawn(square, 1), pool.join, lambda: pool.map(square, [1])):
        with pytest.raises(BlockingSwitchOutError):
            wait()
    gate.open()
    assert await result == 1
    assert get_hub().threadpool is get_hub().threadpool
    assert await get_hub().threadpool.spawn(square, 4) == 16
    pool.kill()
    get_hub().threadpool.close()


# -- sizes ---------------------------------------------------------------------------------------------


def test_maxsize(pool: ThreadPool, gate: Gate) -> None:
    for wrong, error in ((None, TypeError), ("2", TypeError), (-1, ValueError)):
        with pytest.raises(error):
            ThreadPool(wrong)  # type: ignore[arg-type]
        with pytest.raises(error):
            pool.maxsize = wrong  # type: ignore[assignment]
    pool.maxsize = 3
    calls = [pool.spawn(gate, n) for n in range(3)]
    assert pool.size == 3
    pool.maxsize = 1
    assert (pool.maxsize, pool.size) == (1, 1)
    fourth = green.spawn(pool.spawn, square, 4)
    gate.open()
    assert [call.get() for call in calls] == [0, 1, 2]
    assert fourth.get().get() == 16
    pool.join()
    assert pool._calls._room.counter == 2


def test_size(pool: ThreadPool) -> None:
    pool.size = 2
    assert pool.size == 2
    with pytest.raises(ValueError, match="cannot be bigger than maxsize: 3 > 2"):
        pool.size = 3
    with pytest.raises(ValueError, match="cannot be negative"):
        pool.size = -1
    pool.kill()
    assert (pool.size, pool._workers.threads) == (0, 0)
    assert pool.spawn(square, 2).get() == 4


def test_kill_waits_for_calls_and_may_be_left(pool: ThreadPool, gate: Gate) -> None:
    result = pool.spawn(gate, 1)
    with pytest.raises(green.Timeout):
        with green.Timeout(0.001):
            pool.kill()
    killer = green.spawn(pool.kill)
    green.sleep(0)
    assert not killer.ready()
    gate.open()
    killer.join()
    assert result.ready()
    assert pool._workers.threads == 0


def test_idle_threads_leave(own_hub: None) -> None:
    pool = ThreadPool(2, idle_task_timeout=0.001)
    assert pool.spawn(square, 2).get() == 4
    until(lambda: pool.size == 0)
    assert pool.spawn(square, 3).get() == 9
    pool.kill()


def test_threads_leave_when_the_pool_is_dropped(own_hub: None) -> None:
    pool = ThreadPool(1)
    pool.spawn(square, 2).get()
    threads = pool._workers
    del pool
    gc.collect()
    until(lambda: threads.threads == 0)


def test_the_system_gives_no_thread(pool: ThreadPool, monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    held = pool.spawn(gate, 1)
    monkeypatch.setattr(workers, "start_new_thread", refuse)
    second = pool.spawn(square, 2)
    gate.open()
    assert (held.get(), second.get()) == (1, 4)
    pool.kill()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        pool.spawn(square, 3)
    pool.join()
    monkeypatch.undo()
    assert pool.spawn(square, 3).get() == 9


# -- the hub's pool ------------------------------------------------------------------------------------


def test_the_hub_has_a_pool(own_hub: None) -> None:
    pool = get_hub().threadpool
    assert pool is get_hub().threadpool
    assert pool.maxsize == 10
    assert pool.spawn(square, 3).get() == 9
    threads = pool._workers
    end_own_hub()
    assert get_hub().threadpool is not pool
    until(lambda: threads.threads == 0)


def test_a_result_for_a_hub_that_is_gone_is_dropped(own_hub: None, gate: Gate) -> None:
    pool = get_hub().threadpool
    pool.spawn(gate)
    threads = pool._workers
    end_own_hub()
    gate.open()
    until(lambda: threads.threads == 0)


def test_a_thread_result_tells_its_receiver(own_hub: None) -> None:
    told: list[object] = []
    result = ThreadResult(
        lambda result: told.append((result.value, result.successful(), result.exception)),
        get_hub(),
        lambda: told.append("ready"),
    )
    result.set(5)
    assert told == []
    green.sleep(0)
    assert told == ["ready", (5, True, None)]
    # Nothing is kept.
    assert result.value is None


def test_the_main_greenlet_destroys_its_hub_after_it_has_waited(own_hub: None) -> None:
    hub = get_hub()
    green.sleep(0)
    refused = green.spawn(hub.destroy)
    with pytest.raises(RuntimeError, match="requires the thread's main greenlet"):
        refused.get()
    hub.destroy()
    assert hub.asyncio_loop.is_closed()
    assert get_hub() is not hub


PROGRAMS = {
    "a call runs for ever": "green.get_hub().threadpool.spawn(lock.acquire); green.sleep(0.01)",
    "an idle thread": "green.get_hub().threadpool.spawn(int).get()",
    "an executor's call runs for ever": "e = ThreadPoolExecutor(1); e.submit(lock.acquire); e.submit(int)",
    "nobody has waited": "green.get_hub().threadpool.spawn(int)",
    "a result comes at the end": "green.get_hub().threadpool.spawn(time.sleep, 0.02); time.sleep(0.019)",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_ends(program: str) -> None:
    head = (
        "import time, _thread\nfrom oneloop import green\nfrom oneloop.green.threadpool import ThreadPoolExecutor\n"
        "lock = _thread.allocate_lock()\nlock.acquire()\n"
    )
    code = f"{head}{program}\nprint('end')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(gate: Gate) -> None:
    crowd = workers.Workers(1)
    done = allocate_lock()
    done.acquire()

    class Task:
        def do(self) -> Callable[[], object]:
            return done.release

    crowd.put(Task())
    assert done.acquire(timeout=10)
    assert crowd.threads == 1
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if crowd.threads == 0:
                crowd.put(Task())
                code = 0 if done.acquire(timeout=10) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    crowd.shrink(0)
    until(lambda: crowd.threads == 0)
