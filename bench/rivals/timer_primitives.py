"""The operations of timers, as those of `primitives`: what each does and what it keeps is in its docstring."""

from __future__ import annotations

import asyncio
import contextvars
import random
import sys

from bench.rivals.stopwatch import Stopwatch

Loop = asyncio.AbstractEventLoop
PENDING = 100_000
#: The number of cancelled timers that count as none: asyncio itself leaves up to this many in its heap.
LEFT = 100
#: A loop that frees no cancelled timer for this long keeps them until their deadline.
STALLED_S = 0.25
STEP_S = 1e-3


async def call_later(loop: Loop, count: int, watch: Stopwatch) -> int:
    """A hundred chains of timers of 1 to 10 ms while 100,000 others are pending.

    Both sides: each timer schedules the next of its chain. The delays are not 0: some loops turn `call_later(0, …)`
    into `call_soon`, and then no timer would be measured. Kept: the handles of the pending timers.
    """
    pending = [loop.call_later(3600 + n * 1e-3, print) for n in range(PENDING)]
    done = loop.create_future()
    left = count

    def step(delay_s: float) -> None:
        nonlocal left
        left -= 1
        if left > 0:
            loop.call_later(delay_s, step, delay_s)
        elif not done.done():
            done.set_result(None)

    watch.start()
    for chain in range(100):
        delay_s = 1e-3 + chain * 9e-5
        loop.call_later(delay_s, step, delay_s)
    await done
    # Until then the other chains end, too.
    await watch.stop_at_rest()
    for handle in pending:
        handle.cancel()
    return count


async def call_later_make(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Creates timers that never become due, 100,000 at a time.

    Both sides: `call_later` in a list comprehension. Kept: all handles, until the window has ended; then they are
    cancelled and freed outside of it.
    """
    times = max(1, count // PENDING)
    for _ in range(times):
        watch.start()
        pending = [loop.call_later(3600 + n * 1e-3, print) for n in range(PENDING)]
        watch.stop()
        for handle in pending:
            handle.cancel()
        pending.clear()
        del handle
        await asyncio.sleep(0.01)
    return times * PENDING


async def timeouts(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Sets and cancels timeouts of 30 s, 100 per tick, while 100,000 other timers are pending.

    Both sides: `call_later(…).cancel()`. Kept: nothing of the timeouts, the handles of the pending timers.
    """
    pending = [loop.call_later(3600 + n * 1e-3, print) for n in range(PENDING)]
    await asyncio.sleep(0.01)
    watch.start()
    for _ in range(count // 100):
        for _ in range(100):
            loop.call_later(30, print).cancel()
        await asyncio.sleep(0)
    await watch.stop_at_rest()
    for handle in pending:
        handle.cancel()
    return count // 100 * 100


async def random_order(loop: Loop, count: int, watch: Stopwatch) -> int:
    """10,000 timers at a time, created in random order, a microsecond apart and in the near future.

    Both sides: `call_at` and a callback that notes its number. Thrown away: the handles, at once. The window ends when
    the loop rests after the last callback. A loop that has not run them in the order of their deadlines has a note.
    """
    order = list(range(10_000))
    random.Random(7).shuffle(order)
    times = max(1, count // len(order))
    for _ in range(times):
        done = loop.create_future()
        ran: list[int] = []
        watch.start()
        now = loop.time()
        for n in order:
            loop.call_at(now + 2e-3 + n * 1e-6, ran.append, n)
        loop.call_at(now + 2e-3 + len(order) * 1e-6, done.set_result, None)
        await done
        await watch.stop_at_rest()
        if ran != sorted(order):
            watch.notes.append("does not run timers in the order of their deadlines")
    return times * len(order)


class Marks:
    """Counts the timers that a loop still holds, without its help and at no cost for the timers.

    All timers of a round share a callback, an argument and a context. Whatever part of a timer a loop keeps, it keeps
    a reference to one of them.
    """

    def __init__(self, loop: Loop) -> None:
        def callback(argument: object) -> None:
            raise AssertionError(argument)

        self.loop, self.callback, self.argument = loop, callback, object()
        self.context = contextvars.copy_context()
        self._before = self._counts()

    def _counts(self) -> tuple[int, int, int]:
        return sys.getrefcount(self.callback), sys.getrefcount(self.argument), sys.getrefcount(self.context)

    def timer(self, delay_s: float) -> asyncio.TimerHandle:
        return self.loop.call_later(delay_s, self.callback, self.argument, context=self.context)

    def held(self) -> int:
        """The number of timers of which something is left."""
        return max(now - before for now, before in zip(self._counts(), self._before, strict=True))


async def cancel(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Cancels 100,000 pending timers, and waits until the loop has freed them.

    Both sides: `cancel()` for each handle; the program drops its handles and sleeps a millisecond at a time. Kept:
    nothing. The window ends when all but a hundred timers are gone: callback, argument, context and handle. A loop
    that keeps them until their deadline, which is an hour away, does less: its window ends with the last timer that it
    freed, and the row says how many are left.
    """
    times = max(1, count // PENDING)
    for _ in range(times):
        marks = Marks(loop)
        pending = [marks.timer(3600 + n * 1e-3) for n in range(PENDING)]
        watch.start()
        for handle in pending:
            handle.cancel()
        pending.clear()
        del handle
        await _free(marks, watch)
    return times * PENDING


async def _free(marks: Marks, watch: Stopwatch) -> None:
    """Ends the window when the loop has freed the timers, or with the last one that it freed."""
    lap, held, stalled_s = watch.lap(), marks.held(), 0.0
    while held > LEFT and stalled_s < STALLED_S:
        await asyncio.sleep(STEP_S)
        stalled_s += STEP_S
        left = marks.held()
        if left < held:
            lap, held, stalled_s = watch.lap(), left, 0.0
    watch.stop_at(lap)
    if held > LEFT:
        watch.notes.append(f"keeps {held:,} of {PENDING:,} cancelled timers until their deadline")


async def fire(loop: Loop, count: int, watch: Stopwatch) -> int:
    """100,000 timers with different deadlines, created in random order, that all become due.

    Both sides: `call_at` and a callback that counts. Thrown away: the handles, at once. The window begins with the
    first `call_at` and ends when the loop rests after the last callback.
    """
    times = max(1, count // PENDING)
    for _ in range(times):
        done = loop.create_future()
        left = PENDING

        def step() -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set_result(None)  # noqa: B023 - awaited below, in the same round

        watch.start()
        now = loop.time()
        for n in range(PENDING):
            loop.call_at(now + (n * 7919 % PENDING) * 1e-7, step)
        await done
        await watch.stop_at_rest()
    return times * PENDING
