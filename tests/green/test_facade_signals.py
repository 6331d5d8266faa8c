"""Signal handlers of asyncio's loops in green threads: several may handle a signal, as several of `oneloop.Loop` may.

One runs in a callback of another, or in another green thread, or the program's own loop has the handler.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

import oneloop
from oneloop import green
from oneloop.green.facade import FacadeLoop
from tests.green.patched import patched

MINE, OTHER = signal.SIGUSR1, signal.SIGUSR2


def heard_by(loop: asyncio.AbstractEventLoop, seen: list[str], sig: int = MINE) -> None:
    """Send the signal, and run the loop until it was handled."""
    count = len(seen)

    async def wait() -> None:
        os.kill(os.getpid(), sig)
        while len(seen) == count:
            await asyncio.sleep(0.001)

    loop.run_until_complete(wait())


def by_removing(loop: asyncio.AbstractEventLoop, sig: int) -> None:
    assert loop.remove_signal_handler(sig)


def by_closing(loop: asyncio.AbstractEventLoop, sig: int) -> None:
    loop.close()


ENDS = pytest.mark.parametrize("ends", [by_removing, by_closing])


@ENDS
@pytest.mark.parametrize("first_ends", [False, True])
@pytest.mark.parametrize("sig", [MINE, OTHER])
def test_the_first_hears_again(ends: Callable[..., None], first_ends: bool, sig: signal.Signals) -> None:
    seen: list[str] = []

    def run() -> None:
        first, second = FacadeLoop(), FacadeLoop()
        first.add_signal_handler(MINE, seen.append, "first")
        second.add_signal_handler(sig, seen.append, "second")
        heard_by(second, seen, sig)
        leaving, staying = (first, second) if first_ends else (second, first)
        ends(leaving, MINE if first_ends else sig)
        heard_by(staying, seen, sig if first_ends else MINE)
        first.close()
        second.close()
        assert seen == ["second", "second" if first_ends else "first"]

    green.spawn(run).get()
    assert signal.getsignal(MINE) == signal.getsignal(OTHER) == signal.SIG_DFL


@ENDS
def test_the_handler_of_the_hubs_loop(ends: Callable[..., None]) -> None:
    """The program's coroutines have one, and a green thread runs a loop that has one, too."""
    seen: list[str] = []

    def run() -> None:
        inner = FacadeLoop()
        # A handler that is replaced leaves nothing behind.
        inner.add_signal_handler(MINE, print)
        inner.add_signal_handler(MINE, seen.append, "inner")
        heard_by(inner, seen)
        ends(inner, MINE)
        inner.close()

    def hear(arrived: asyncio.Event) -> None:
        seen.append("outer")
        arrived.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_signal_handler(MINE, hear, arrived)
        await asyncio.get_running_loop().run_green(run)  # type: ignore[attr-defined]
        os.kill(os.getpid(), MINE)
        await arrived.wait()
        assert loop.remove_signal_handler(MINE)
        assert not loop.remove_signal_handler(MINE)

    oneloop.run(main())
    assert seen == ["inner", "outer"]
    assert signal.getsignal(MINE) == signal.SIG_DFL


def test_a_handler_that_the_program_has_replaced_stays() -> None:
    seen: list[str] = []

    def run() -> None:
        inner = FacadeLoop()
        inner.add_signal_handler(MINE, print)
        green.get_hub().asyncio_loop.add_signal_handler(MINE, seen.append, "later")
        inner.close()

    async def main() -> None:
        await asyncio.get_running_loop().run_green(run)  # type: ignore[attr-defined]
        os.kill(os.getpid(), MINE)
        while not seen:
            await asyncio.sleep(0)
        assert asyncio.get_running_loop().remove_signal_handler(MINE)

    oneloop.run(main())
    assert seen == ["later"]


def test_green_threads_with_a_loop_each() -> None:
    """The threads of a patched program are green, and any of them may have handlers: the signals are the last one's."""
    out = patched("""
import asyncio, os, signal, threading
async def until(seen, name):
    while name not in seen:
        await asyncio.sleep(0.001)
seen, order = [], []
async def main(name, ready, go):
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, seen.append, name)
    ready.set()
    await asyncio.to_thread(go.wait)
    os.kill(os.getpid(), signal.SIGUSR1)
    await until(seen, name)
def run(name):
    ready, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(main(name, ready, go)))
    thread.start()
    ready.wait()
    return thread, go
threads = [run(name) for name in "abc"]
for thread, go in reversed(threads):
    go.set()
    thread.join()
print(seen, signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL)
""")
    assert out == "['c', 'b', 'a'] True\n"
