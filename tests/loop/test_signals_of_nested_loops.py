"""Signal handlers of several loops: one runs in a callback of another, or after it.

There is one wakeup descriptor (`signal.set_wakeup_fd`) and one handler of each signal in a process. asyncio gives both
to the loop that comes last; when that ends, the first one is deaf, and its signals have their default action.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

import oneloop
from oneloop import signals
from tests.loop.sleeping import Sleeping
from tests.tracing import traced

MINE, OTHER = signal.SIGUSR1, signal.SIGUSR2


def wakeup_fd() -> int:
    fd = signal.set_wakeup_fd(-1)
    if fd != -1:
        signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
    return fd


@pytest.fixture(autouse=True)
def all_is_restored(audit: None) -> Iterator[None]:
    yield
    assert signal.getsignal(MINE) == signal.getsignal(OTHER) == signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


@pytest.fixture
def outer() -> Iterator[asyncio.AbstractEventLoop]:
    loop = oneloop.new_event_loop()
    yield loop
    loop.close()


def within(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Call in a callback of a running loop, in which others may run."""
    loop.call_soon(hidden, loop, function)
    loop.call_soon(loop.stop)
    loop.run_forever()


def hidden(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    asyncio._set_running_loop(None)
    try:
        function()
    finally:
        asyncio._set_running_loop(loop)


def received(loop: asyncio.AbstractEventLoop, sig: int, seen: list[str], count: int) -> None:
    """Run until a signal that arrives meanwhile was handled."""
    loop.call_soon(os.kill, os.getpid(), sig)
    while len(seen) < count:
        loop.call_soon(loop.stop)
        loop.run_forever()


def by_removing(inner: asyncio.AbstractEventLoop, signals: list[signal.Signals]) -> None:
    for sig in signals:
        assert inner.remove_signal_handler(sig)


def by_closing(inner: asyncio.AbstractEventLoop, signals: list[signal.Signals]) -> None:
    inner.close()


ENDS = [by_removing, by_closing]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("signals", [[OTHER], [MINE], [MINE, OTHER]], ids=["other", "same", "both"])
@pytest.mark.parametrize("is_nested", [True, False])
def test_the_first_loop_hears_again(
    outer: asyncio.AbstractEventLoop, ends: Callable[..., None], signals: list[signal.Signals], is_nested: bool
) -> None:
    seen: list[str] = []
    outer.add_signal_handler(MINE, seen.append, "outer")
    found = wakeup_fd()

    def run_another() -> None:
        inner = oneloop.new_event_loop()
        inner_seen: list[str] = []
        for sig in signals:
            inner.add_signal_handler(sig, inner_seen.append, "inner")
        # While it does not run, the outer one may sleep next.
        assert (wakeup_fd() == found) == is_nested
        received(inner, signals[0], inner_seen, 1)
        ends(inner, signals)
        inner.close()

    if is_nested:
        within(outer, run_another)
    else:
        run_another()
    assert wakeup_fd() == found
    assert not seen
    received(outer, MINE, seen, 1)
    assert seen == ["outer"]


@pytest.mark.parametrize("is_read", [True, False], ids=["while it runs", "as the last"])
def test_what_the_inner_loop_is_told_of_is_passed_on(outer: asyncio.AbstractEventLoop, is_read: bool) -> None:
    seen: list[str] = []
    outer.add_signal_handler(MINE, seen.append, "outer")

    def run_another() -> None:
        inner = oneloop.new_event_loop()
        inner.add_signal_handler(OTHER, inner.stop)
        inner.call_soon(os.kill, os.getpid(), MINE)
        if is_read:
            inner.call_soon(os.kill, os.getpid(), OTHER)
            inner.run_forever()
        else:
            os.kill(os.getpid(), MINE)
        inner.close()

    within(outer, run_another)
    outer.run_until_complete(asyncio.sleep(0))
    assert seen == ["outer"]


def sent_while_it_sleeps(loop: asyncio.AbstractEventLoop, sig: int) -> None:
    """Run the loop once, and send a signal to this process from a thread."""

    def send() -> None:
        os.kill(os.getpid(), sig)
        # The poll before the timer sees the signal, if the loop is told of it.
        loop.call_soon_threadsafe(loop.call_later, 0.001, loop.stop)

    loop.call_soon(threading.Thread(target=send).start)
    loop.run_forever()


def run_between(outer: asyncio.AbstractEventLoop, inner: asyncio.AbstractEventLoop) -> None:
    inner.add_signal_handler(OTHER, inner.stop)
    outer.call_soon(hidden, outer, lambda: inner.run_until_complete(asyncio.sleep(0)))


def add_within(outer: asyncio.AbstractEventLoop, inner: asyncio.AbstractEventLoop) -> None:
    outer.call_soon(hidden, outer, lambda: inner.add_signal_handler(OTHER, inner.stop))


def add_before(outer: asyncio.AbstractEventLoop, inner: asyncio.AbstractEventLoop) -> None:
    inner.add_signal_handler(OTHER, inner.stop)


def add_and_close_a_third(outer: asyncio.AbstractEventLoop, inner: asyncio.AbstractEventLoop) -> None:
    def run() -> None:
        inner.add_signal_handler(OTHER, inner.stop)
        third = oneloop.new_event_loop()
        third.add_signal_handler(OTHER, third.stop)
        third.run_until_complete(asyncio.sleep(0))
        third.close()

    outer.call_soon(hidden, outer, run)


@pytest.mark.parametrize("adds", [run_between, add_within, add_before, add_and_close_a_third])
def test_a_loop_that_runs_hears_while_another_has_handlers(
    outer: asyncio.AbstractEventLoop, adds: Callable[[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop], None]
) -> None:
    """The other one keeps its handlers, for its next run. Then it hears what came meanwhile."""
    seen: list[str] = []
    outer.add_signal_handler(MINE, seen.append, "outer")
    inner = oneloop.new_event_loop()
    adds(outer, inner)
    sent_while_it_sleeps(outer, MINE)
    assert seen == ["outer"]
    os.kill(os.getpid(), OTHER)
    inner.run_forever()
    os.kill(os.getpid(), MINE)
    inner.call_soon(os.kill, os.getpid(), OTHER)
    inner.run_forever()
    inner.close()
    outer.run_until_complete(asyncio.sleep(0))
    assert seen == ["outer", "outer"]


def test_the_innermost_loop_is_told(outer: asyncio.AbstractEventLoop) -> None:
    """When a third one has ended within it, too, and although the outer one's handlers are newer."""
    seen: list[str] = []
    inner = oneloop.new_event_loop()
    inner.add_signal_handler(OTHER, seen.append, "inner")

    def close_a_third() -> None:
        third = oneloop.new_event_loop()
        third.add_signal_handler(OTHER, print)
        third.close()

    def run() -> None:
        inner.call_soon(hidden, inner, close_a_third)
        sent_while_it_sleeps(inner, OTHER)

    outer.add_signal_handler(MINE, print)
    within(outer, run)
    assert seen == ["inner"]
    inner.close()


def test_a_descriptor_that_the_program_sets_later_stays(outer: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        outer.add_signal_handler(MINE, seen.append, "outer")
        signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
        outer.run_until_complete(asyncio.sleep(0))
        os.kill(os.getpid(), MINE)
        assert theirs.recv(1) == bytes([MINE])
        assert signal.set_wakeup_fd(-1) == ours.fileno()


def test_the_descriptor_that_another_library_has_reset(outer: asyncio.AbstractEventLoop) -> None:
    """The loop of asyncio resets it when it has no handlers any more."""
    seen: list[str] = []
    outer.add_signal_handler(MINE, seen.append, "outer")
    other = asyncio.SelectorEventLoop()
    other.add_signal_handler(OTHER, print)
    other.close()
    assert wakeup_fd() == -1
    sent_while_it_sleeps(outer, MINE)
    assert seen == ["outer"]


def test_a_loop_in_another_thread_is_woken(outer: asyncio.AbstractEventLoop) -> None:
    heard = threading.Event()
    outer.add_signal_handler(MINE, heard.set)
    thread = threading.Thread(target=outer.run_forever)
    thread.start()
    here = oneloop.new_event_loop()
    here.add_signal_handler(OTHER, print)
    here.call_soon(os.kill, os.getpid(), MINE)
    here.run_until_complete(here.run_in_executor(None, heard.wait))
    here.close()
    outer.call_soon_threadsafe(outer.stop)
    thread.join()


def lines_of(function: Callable[[], None], at: int = -1, sig: int = 0) -> int:
    """Call it, send a signal before the line number `at` that it runs in `signals.py`, and return their number."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != signals.__file__:
            return None
        if event == "line":
            if count == at:
                os.kill(os.getpid(), sig)
            count += 1
        return trace

    traced(function, trace)
    return count


@pytest.mark.parametrize("is_nested", [True, False])
def test_no_signal_is_lost_whenever_it_comes(outer: asyncio.AbstractEventLoop, is_nested: bool) -> None:
    """While another loop takes the descriptor, is told, and gives it back."""
    seen: list[str] = []
    outer.add_signal_handler(MINE, seen.append, "outer")

    def run_another() -> None:
        inner = oneloop.new_event_loop()
        inner.add_signal_handler(OTHER, print)
        inner.run_until_complete(asyncio.sleep(0))
        inner.close()

    def lines(at: int = -1, sig: int = 0) -> int:
        counts: list[int] = []
        run = functools.partial(within, outer) if is_nested else lambda function: function()
        run(lambda: counts.append(lines_of(run_another, at, sig)))
        return counts[0]

    count = lines()
    assert count > 50
    for number in range(count):
        assert lines(number, MINE) >= count
        outer.run_until_complete(asyncio.sleep(0))
        assert len(seen) == number + 1, f"line number {number}"


@pytest.mark.parametrize("first", ["outer", "inner"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_the_descriptor_of_the_program(outer: asyncio.AbstractEventLoop, first: str, is_closed: bool) -> None:
    """It is restored by the last loop that leaves, unless the program has closed it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    number = ours.fileno()
    signal.set_wakeup_fd(number, warn_on_full_buffer=False)
    outer.add_signal_handler(MINE, print)
    inner = oneloop.new_event_loop()
    inner.add_signal_handler(OTHER, print)
    if is_closed:
        # The number belongs to another file afterwards.
        os.dup2(theirs.fileno(), number)
    for loop in (outer, inner) if first == "outer" else (inner, outer):
        assert wakeup_fd() != number
        loop.close()
    assert wakeup_fd() == (-1 if is_closed else number)
    signal.set_wakeup_fd(-1)
    ours.close()
    theirs.close()


def test_the_last_descriptor_of_the_program_is_restored(outer: asyncio.AbstractEventLoop) -> None:
    """It has set another one between the first handlers of two loops."""
    (first, one), (last, two) = socket.socketpair(), socket.socketpair()
    with first, one, last, two:
        for each in (first, last):
            each.setblocking(False)
        signal.set_wakeup_fd(first.fileno(), warn_on_full_buffer=False)
        outer.add_signal_handler(MINE, print)
        signal.set_wakeup_fd(last.fileno(), warn_on_full_buffer=False)
        inner = oneloop.new_event_loop()
        inner.add_signal_handler(OTHER, print)
        outer.close()
        inner.close()
        assert signal.set_wakeup_fd(-1) == last.fileno()


def test_the_descriptor_of_a_loop_without_handlers_is_not_restored(outer: asyncio.AbstractEventLoop) -> None:
    outer.add_signal_handler(MINE, print)
    inner = oneloop.new_event_loop()
    inner.add_signal_handler(OTHER, print)
    outer.remove_signal_handler(MINE)
    inner.close()
    assert wakeup_fd() == -1


def test_a_descriptor_of_the_program_with_the_number_of_a_closed_loops(outer: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        closed: Any = oneloop.new_event_loop()
        number = closed._csock.fileno()
        closed.close()
        os.dup2(ours.fileno(), number)
        signal.set_wakeup_fd(number, warn_on_full_buffer=False)
        outer.add_signal_handler(MINE, print)
        outer.remove_signal_handler(MINE)
        assert signal.set_wakeup_fd(-1) == number
        os.close(number)


async def hears(loop: asyncio.AbstractEventLoop, sig: int) -> None:
    """In this run: the next one would take the descriptor over."""
    heard = asyncio.Event()
    loop.add_signal_handler(sig, heard.set)
    loop.call_soon(os.kill, os.getpid(), sig)
    await asyncio.wait_for(heard.wait(), 60)


@pytest.mark.parametrize("is_removed", [False, True], ids=["added", "removed"])
def test_one_that_ran_in_a_thread_ends(outer: asyncio.AbstractEventLoop, is_removed: bool) -> None:
    """While it ran, the one of the main thread has got another handler."""
    inner = oneloop.new_event_loop()
    inner.add_signal_handler(OTHER, print)
    runs = threading.Event()
    thread = threading.Thread(target=inner.run_forever)

    async def main() -> None:
        heard = asyncio.Event()
        outer.add_signal_handler(MINE, heard.set)
        inner.call_soon(runs.set)
        thread.start()
        runs.wait()
        outer.add_signal_handler(signal.SIGHUP, print)
        if is_removed:
            outer.remove_signal_handler(signal.SIGHUP)
        inner.call_soon_threadsafe(inner.stop)
        thread.join()
        outer.call_soon(os.kill, os.getpid(), MINE)
        await asyncio.wait_for(heard.wait(), 60)

    outer.run_until_complete(main())
    inner.close()


def test_one_that_ran_last_is_closed_beside_a_descriptor_of_the_program(outer: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
        outer.add_signal_handler(MINE, print)
        inner: Any = oneloop.new_event_loop()
        inner.add_signal_handler(OTHER, print)
        outer.run_until_complete(asyncio.sleep(0))
        outer.close()
        assert wakeup_fd() == inner._csock.fileno()
        inner.run_until_complete(hears(inner, OTHER))
        inner.close()
        assert signal.set_wakeup_fd(-1) == ours.fileno()


def interrupted(function: Callable[[], object], number: int) -> bool:
    """Call it with a Ctrl-C at its nth line of signals.py; False: it has fewer."""
    left = number

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != signals.__file__:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    try:
        traced(function, trace)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_close_heals_an_interrupted_removal(outer: asyncio.AbstractEventLoop, beside: bool) -> None:
    """At each line of it: afterwards neither the descriptor nor the action of the signal is left."""
    if beside:
        outer.add_signal_handler(OTHER, print)
    expected = wakeup_fd()
    for number in range(1000):
        loop = oneloop.new_event_loop()
        loop.add_signal_handler(MINE, print)
        was_interrupted = interrupted(lambda loop=loop: loop.remove_signal_handler(MINE), number)
        loop.close()
        assert (wakeup_fd(), signal.getsignal(MINE)) == (expected, signal.SIG_DFL), number
        if not was_interrupted:
            break
    assert number > 5
    outer.close()


def another_runs(outer: asyncio.AbstractEventLoop, third: asyncio.AbstractEventLoop) -> None:
    third.run_until_complete(asyncio.sleep(0.001))


def another_runs_and_keeps_a_handler(outer: asyncio.AbstractEventLoop, third: asyncio.AbstractEventLoop) -> None:
    third.add_signal_handler(signal.SIGHUP, print)
    third.run_until_complete(asyncio.sleep(0.001))


def another_gets_a_handler(outer: asyncio.AbstractEventLoop, third: asyncio.AbstractEventLoop) -> None:
    third.add_signal_handler(signal.SIGHUP, print)


def another_had_a_handler(outer: asyncio.AbstractEventLoop, third: asyncio.AbstractEventLoop) -> None:
    third.add_signal_handler(signal.SIGHUP, print)
    third.close()


def the_outer_one_gets_another_handler(outer: asyncio.AbstractEventLoop, third: asyncio.AbstractEventLoop) -> None:
    outer.add_signal_handler(signal.SIGHUP, print)


def nothing_happens(outer: asyncio.AbstractEventLoop, third: asyncio.AbstractEventLoop) -> None:
    pass


MEANWHILE = [
    nothing_happens,
    another_runs,
    another_runs_and_keeps_a_handler,
    another_gets_a_handler,
    another_had_a_handler,
    the_outer_one_gets_another_handler,
]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="before Python 3.13, it looks for signals every second")
@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("way", ["beside", "within"])
def test_a_loop_without_handlers_is_woken(
    outer: asyncio.AbstractEventLoop,
    way: str,
    meanwhile: Callable[[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop], None],
) -> None:
    """Another thread gets the signal: only the wakeup descriptor ends the sleep, and the program's handler runs."""
    heard, has_happened = threading.Event(), threading.Event()
    before = signal.signal(OTHER, lambda *_: heard.set())
    outer.add_signal_handler(MINE, print)
    third = oneloop.new_event_loop()

    def sleep() -> None:
        inner = oneloop.new_event_loop()
        sleeping = Sleeping(inner)

        def happen() -> None:
            meanwhile(outer, third)
            has_happened.set()

        def send() -> None:
            assert has_happened.wait(10)
            sleeping.wait()
            signal.pthread_kill(threading.get_ident(), OTHER)
            assert heard.wait(10), "the loop sleeps on"

        # It has slept before.
        inner.call_later(0.001, hidden, inner, happen)
        sleeping.while_asleep(send)
        inner.close()

    if way == "beside":
        sleep()
    else:
        within(outer, sleep)
    third.close()
    assert wakeup_fd() == outer._csock.fileno()  # type: ignore[attr-defined]
    outer.close()
    signal.signal(OTHER, before)


def test_the_descriptor_of_the_program_outlives_a_loop_that_stood_in(outer: asyncio.AbstractEventLoop) -> None:
    """The one that had found it is closed before."""
    ours, theirs = socket.socketpair()
    inner = oneloop.new_event_loop()

    async def main() -> None:
        inner.add_signal_handler(MINE, print)
        await asyncio.sleep(0.001)
        inner.close()
        await asyncio.sleep(0.001)

    with ours, theirs:
        ours.setblocking(False)
        signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
        outer.run_until_complete(main())
        assert signal.set_wakeup_fd(-1) == ours.fileno()


def succeeds_in_a_child(function: Callable[[], bool]) -> bool:
    child = os.fork()
    if not child:
        status = 1
        try:
            status = 0 if function() else 1
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def test_a_forked_child_has_no_handlers_of_its_parents_loops(outer: asyncio.AbstractEventLoop) -> None:
    def with_its_own() -> bool:
        own = oneloop.new_event_loop()
        own.add_signal_handler(MINE, print)
        own.close()
        return wakeup_fd() == -1 and signal.getsignal(MINE) == signal.SIG_DFL

    outer.add_signal_handler(MINE, print)
    assert succeeds_in_a_child(with_its_own)


def test_a_forked_child_may_go_on_with_its_parents_loop(outer: asyncio.AbstractEventLoop) -> None:
    def with_its_parents() -> bool:
        outer.add_signal_handler(OTHER, print)
        is_told = wakeup_fd() == outer._csock.fileno()  # type: ignore[attr-defined]
        outer.remove_signal_handler(MINE)
        outer.remove_signal_handler(OTHER)
        return is_told and wakeup_fd() == -1

    outer.add_signal_handler(MINE, print)
    assert succeeds_in_a_child(with_its_parents)
