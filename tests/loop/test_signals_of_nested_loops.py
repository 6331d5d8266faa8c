"""Signal handlers of several loops: one runs in a callback of another, or after it.

There is one wakeup descriptor (`signal.set_wakeup_fd`) and one handler of each signal in a process. asyncio gives both
to the loop that comes last; when that ends, the first one is deaf, and its signals have their default action.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

import oneloop

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


def within(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call in a callback of a running loop, in which others may run."""

    def call() -> None:
        asyncio._set_running_loop(None)
        try:
            function()
        finally:
            asyncio._set_running_loop(loop)
            loop.stop()

    loop.call_soon(call)
    loop.run_forever()


def received(loop: asyncio.AbstractEventLoop, sig: int, seen: list[str], count: int) -> None:
    """Send a signal to this process, and run until it was handled."""
    os.kill(os.getpid(), sig)
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
        assert wakeup_fd() not in (-1, found)
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


def test_a_forked_child_has_no_handlers_of_its_parents_loops(outer: asyncio.AbstractEventLoop) -> None:
    outer.add_signal_handler(MINE, print)
    child = os.fork()
    if not child:
        own = oneloop.new_event_loop()
        own.add_signal_handler(MINE, print)
        own.close()
        os._exit(0 if wakeup_fd() == -1 and signal.getsignal(MINE) == signal.SIG_DFL else 1)
    assert os.waitpid(child, 0)[1] == 0
