"""Green threads and coroutines on one loop: results, errors, cancellation, kills and timeouts across the boundary."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import GreenletExit, Timeout
from oneloop.green.event import AsyncResult, Event
from oneloop.green.lock import Semaphore
from oneloop.green.queue import Channel, Empty, Full, Queue, ShutDown

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


Run = Callable[[Coroutine[Any, Any, Any]], Any]


def run_on_facade(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a green thread, on a facade loop on the hub's loop."""

    def runs() -> tuple[Any, BaseException | None]:
        try:
            return green.run(main), None
        except BaseException as error:
            return None, error

    value, error = green.spawn(runs).get()
    if error is not None:
        raise error
    return value


@pytest.fixture(params=[oneloop.run, run_on_facade], ids=["loop", "facade"])
def run(request: pytest.FixtureRequest) -> Run:
    """Where coroutines run: on the hub's own loop, or on a facade loop that a green thread runs."""
    chosen: Run = request.param
    return chosen


def run_green(function: Any, *args: Any) -> Any:
    loop: Any = asyncio.get_running_loop()
    return loop.run_green(function, *args)


async def coroutine(value: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


def in_both_ways(function: Any) -> list[Any]:
    """Run a function in a green thread of a plain script, or of a loop with coroutines."""

    async def main() -> Any:
        return await run_green(function)

    return [green.spawn(function).get(), oneloop.run(main())]


# -- awaiting in green threads -----------------------------------------------------------------------


def test_await_gives_the_value_or_the_error() -> None:
    def awaits() -> Any:
        with pytest.raises(LookupError, match="told"):
            green.await_(coroutine(LookupError("told")))
        return green.await_(coroutine(7))

    assert in_both_ways(awaits) == [7, 7]
    assert green.await_(coroutine(8)) == 8


def test_await_in_a_coroutine_is_refused(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="use `await` in a coroutine"):
            green.await_(coroutine(1))

    run(main())


def test_a_kill_cancels_what_is_awaited(run: Run) -> None:
    async def main() -> None:
        ended = []

        async def long() -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                ended.append("cancelled")
                raise

        greenlet = green.spawn(green.await_, long())
        await asyncio.sleep(0.001)
        greenlet.kill(block=False)
        with pytest.raises(asyncio.CancelledError):
            await greenlet
        assert isinstance(greenlet.value, GreenletExit)
        await asyncio.sleep(0.001)
        assert ended == ["cancelled"]

    run(main())


def test_a_timeout_cancels_what_is_awaited() -> None:
    def awaits() -> str:
        with pytest.raises(Timeout), Timeout(0.001):
            green.await_(asyncio.sleep(100))
        return "in time"

    assert in_both_ways(awaits) == ["in time", "in time"]


def test_a_cancelled_task_is_told_as_such(run: Run) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(asyncio.sleep(100))

        def awaits() -> str:
            with pytest.raises(asyncio.CancelledError):
                green.await_(task)
            return "told"

        waiting = asyncio.ensure_future(run_green(awaits))
        await asyncio.sleep(0.001)
        task.cancel()
        assert await waiting == "told"

    run(main())


# -- awaiting green threads --------------------------------------------------------------------------


def test_a_cancellation_is_raised_where_the_green_thread_waits(run: Run) -> None:
    async def main() -> None:
        seen: list[str] = []

        def works() -> None:
            try:
                green.sleep(100)
            except asyncio.CancelledError:
                seen.append("cancelled")
                green.sleep(0.001)
                seen.append("unwound")
                raise

        task = asyncio.ensure_future(run_green(works))
        await asyncio.sleep(0.001)
        task.cancel("why")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cancelled", "unwound"]
        assert task.cancelled()

    run(main())


def test_a_green_thread_may_refuse_a_cancellation(run: Run) -> None:
    async def main() -> None:
        def stays() -> str:
            try:
                green.sleep(100)
            except asyncio.CancelledError:
                green.sleep(0)
            return "stayed"

        task = asyncio.ensure_future(run_green(stays))
        await asyncio.sleep(0.001)
        task.cancel()
        assert await task == "stayed"

    run(main())


def test_a_timeout_of_asyncio(run: Run) -> None:
    async def main() -> None:
        def works() -> None:
            with pytest.raises(asyncio.CancelledError) as told:
                green.sleep(100)
            raise told.value

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await run_green(works)

    run(main())


@pytest.mark.parametrize("error", [LookupError("told"), Timeout(1), asyncio.CancelledError("told")])
def test_errors_reach_the_awaiter(error: BaseException, capsys: pytest.CaptureFixture[str], run: Run) -> None:
    async def main() -> None:
        def fails() -> None:
            green.sleep(0)
            raise error

        with pytest.raises(type(error)):
            await run_green(fails)

    run(main())
    assert capsys.readouterr().err == ""


def test_greenlet_exit_is_a_cancellation_for_the_awaiter(run: Run) -> None:
    async def main() -> None:
        def leaves() -> None:
            raise GreenletExit("left")

        with pytest.raises(asyncio.CancelledError, match="left"):
            await run_green(leaves)

    run(main())


def test_stop_iteration_is_a_runtime_error(run: Run) -> None:
    async def main() -> None:
        def stops() -> None:
            raise StopIteration

        with pytest.raises(RuntimeError, match="StopIteration"):
            await run_green(stops)

    run(main())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_leaves_the_loop(kind: type[BaseException], run: Run) -> None:
    def ends() -> None:
        green.sleep(0)
        raise kind

    async def main() -> None:
        await run_green(ends)

    with pytest.raises(kind):
        run(main())


def test_the_context_is_a_copy(run: Run) -> None:
    async def main() -> None:
        def looks() -> str:
            seen = VARIABLE.get()
            VARIABLE.set("green")
            green.sleep(0)
            assert VARIABLE.get() == "green"
            return seen

        VARIABLE.set("outer")
        assert await run_green(looks) == "outer"
        assert VARIABLE.get() == "outer"

    run(main())


def test_another_loops_green_thread() -> None:
    greenlet = green.spawn(green.sleep, 0.001)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            await greenlet

    oneloop.run(main())
    greenlet.join()


def test_many_at_once(run: Run) -> None:
    async def main() -> None:
        def steps(number: int) -> int:
            for _ in range(5):
                green.sleep(0)
                green.await_(asyncio.sleep(0))
            return number

        assert await asyncio.gather(*(run_green(steps, number) for number in range(200))) == list(range(200))

    run(main())


# -- objects that both use ---------------------------------------------------------------------------


def test_a_queue_between_both(run: Run) -> None:
    async def main() -> None:
        queue: Queue[Any] = Queue(2)

        def produce() -> None:
            for number in range(50):
                queue.put(number)

        producers = [green.spawn(produce) for _ in range(2)]
        found = [await queue.get() for _ in range(100)]
        assert sorted(found) == sorted([*range(50), *range(50)])

        def consume() -> list[Any]:
            return [queue.get() for _ in range(50)]

        consumer = green.spawn(consume)
        for number in range(50):
            await queue.put(number)
        assert await consumer == list(range(50))
        await asyncio.gather(*producers)

    run(main())


def test_both_wait_in_one_line(run: Run) -> None:
    async def main() -> None:
        queue: Queue[int] = Queue()
        seen: list[Any] = []

        async def gets(name: str) -> None:
            seen.append((name, await queue.get()))

        def gets_green(name: str) -> None:
            seen.append((name, queue.get()))

        tasks: list[Any] = []
        for number in range(3):
            tasks.append(asyncio.ensure_future(gets(f"coroutine{number}")))
            await asyncio.sleep(0.001)
            tasks.append(green.spawn(gets_green, f"green{number}"))
            await asyncio.sleep(0.001)
        for number in range(6):
            queue.put_nowait(number)
        await asyncio.gather(*tasks)
        assert dict(seen) == {
            f"{kind}{i}": 2 * i + j for i in range(3) for j, kind in enumerate(["coroutine", "green"])
        }

    run(main())


@pytest.mark.parametrize("who", ["coroutine", "green"])
def test_an_item_is_not_lost_with_who_has_got_it(who: str, run: Run) -> None:
    """If a getter is cancelled or killed after it was given an item, the next getter gets the item."""

    async def main() -> None:
        queue: Queue[int] = Queue()
        if who == "coroutine":
            getting: Any = asyncio.ensure_future(queue.get())
        else:
            getting = green.spawn(queue.get)
        await asyncio.sleep(0.001)
        if who == "coroutine":
            queue.put_nowait(7)
            getting.cancel()
            await asyncio.wait([getting])
        else:
            # The exception is scheduled, but the green thread is still in the line.
            green.kill(getting)
            queue.put_nowait(7)
            await asyncio.sleep(0.001)
        assert queue.get_nowait() == 7

    run(main())


def test_semaphore_event_and_result_for_coroutines(run: Run) -> None:
    async def main() -> None:
        semaphore, event, result = Semaphore(1), Event(), AsyncResult[int]()
        await semaphore.acquire()
        assert await semaphore.acquire(timeout=0.001) is False
        green.spawn(semaphore.release)
        async with semaphore:
            pass
        green.spawn_later(0.001, event.set)
        assert await event.wait(timeout=0) is False
        assert await event.wait() is True
        green.spawn_later(0.001, result.set, 5)
        assert await result == 5
        assert await result.get() == 5
        failed = AsyncResult[int]()
        green.spawn(failed.set_exception, LookupError("told"))
        with pytest.raises(LookupError, match="told"):
            await failed
        with pytest.raises(Timeout):
            await AsyncResult[int]().get(timeout=0.001)

    run(main())


def test_a_channel_between_both(run: Run) -> None:
    async def main() -> None:
        channel: Channel[int] = Channel()
        with pytest.raises(Full):
            channel.put_nowait(1)
        with pytest.raises(Empty):
            channel.get_nowait()
        sender = green.spawn(channel.put, 1)
        await asyncio.sleep(0.001)
        assert not sender.ready()
        assert await channel.get() == 1
        await sender
        receiver = green.spawn(channel.get)
        await asyncio.sleep(0.001)
        await channel.put(2)
        assert await receiver == 2
        with pytest.raises(Full):
            await channel.put(3, timeout=0.001)
        assert channel.empty()

    run(main())


def test_a_queue_is_shut_down_for_both(run: Run) -> None:
    async def main() -> None:
        queue: Queue[int] = Queue()
        greenlet = green.spawn(queue.get)
        task = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0.001)
        queue.shutdown()
        with pytest.raises(ShutDown):
            await greenlet
        with pytest.raises(ShutDown):
            await task
        with pytest.raises(ShutDown):
            await queue.put(1)

    run(main())


# -- what asyncio reports in a green thread ----------------------------------------------------------


def test_no_loop_runs_in_a_green_thread(run: Run) -> None:
    """Code that refuses to block a running loop, as Django does, must work in green threads."""

    def looks() -> None:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.current_task()
            green.sleep(0)
            green.await_(asyncio.sleep(0))

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        await asyncio.gather(run_green(looks), green.spawn(looks), run_green(looks))
        assert asyncio.get_running_loop() is loop
        assert asyncio.current_task() is task

    run(main())
    green.spawn(looks).get()


def test_the_context_is_shared(run: Run) -> None:
    async def main() -> None:
        def changes() -> str:
            seen = VARIABLE.get()
            VARIABLE.set("green")
            green.sleep(0)
            return seen

        VARIABLE.set("outer")
        assert await run_green(green.in_context(changes)) == "outer"
        assert VARIABLE.get() == "green"
        VARIABLE.set("again")
        assert await green.spawn(green.in_context(changes)) == "again"
        assert VARIABLE.get() == "green"

    run(main())


def test_a_green_thread_of_its_own_has_a_new_context() -> None:
    VARIABLE.set("outer")
    context = contextvars.copy_context()

    def changes() -> str:
        green.sleep(0)
        seen = VARIABLE.get()
        VARIABLE.set("green")
        return seen

    assert green.spawn(changes).get() == "unset"
    assert green.spawn(contextvars.copy_context().run, changes).get() == "outer"
    assert green.spawn(green.in_context(changes, context)).get() == "outer"
    assert context[VARIABLE] == "green"
    assert VARIABLE.get() == "outer"


def test_many_share_a_context() -> None:
    context = contextvars.copy_context()

    def adds() -> None:
        for _ in range(10):
            VARIABLE.set(VARIABLE.get() + "x")
            green.sleep(0)

    context.run(VARIABLE.set, "")
    green.joinall([green.spawn(green.in_context(adds, context)) for _ in range(10)], raise_error=True)
    assert context[VARIABLE] == "x" * 100


# -- how results and exceptions are mapped -----------------------------------------------------------


def test_a_killed_green_threads_result_is_its_exit(run: Run) -> None:
    async def main() -> None:
        greenlet = green.spawn(green.sleep, 100)
        await asyncio.sleep(0.001)
        greenlet.kill(block=False)
        with pytest.raises(asyncio.CancelledError):
            await greenlet
        assert isinstance(greenlet.get(), GreenletExit)
        assert greenlet.successful()

    run(main())


def test_stop_iteration_of_a_coroutine() -> None:
    def awaits() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            green.await_(coroutine(StopIteration()))

    in_both_ways(awaits)


def test_a_timeout_of_asyncio_around_what_is_awaited(run: Run) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(100)

    def awaits() -> str:
        with pytest.raises(TimeoutError):
            green.await_(bounded())
        return "told"

    async def main() -> None:
        assert await run_green(awaits) == "told"

    run(main())


def test_a_timeout_in_a_green_thread_reaches_the_awaiter(run: Run) -> None:
    async def main() -> None:
        def sleeps() -> None:
            with Timeout(0.001):
                green.sleep(100)

        with pytest.raises(Timeout):
            await run_green(sleeps)

    run(main())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_in_a_coroutine_that_is_awaited(kind: type[BaseException]) -> None:
    async def main() -> None:
        await run_green(green.await_, coroutine(kind()))

    with pytest.raises(kind):
        oneloop.run(main())


def test_a_kill_with_an_exception_of_ones_own(run: Run) -> None:
    async def main() -> None:
        ended: list[str] = []

        async def long() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ended.append("awaited")

        def works() -> None:
            try:
                green.await_(long())
            except LookupError:
                ended.append("green")
                green.sleep(0)
                raise

        task = asyncio.ensure_future(run_green(works))
        await asyncio.sleep(0.001)
        (greenlet,) = [one for one in gc.get_objects() if isinstance(one, green.Greenlet) and not one.ready()][-1:]
        greenlet.kill(LookupError("told"), block=False)
        with pytest.raises(LookupError, match="told"):
            await task
        await asyncio.sleep(0.001)
        assert sorted(ended) == ["awaited", "green"]

    run(main())
