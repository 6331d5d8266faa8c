"""The process's wakeup descriptor (`signal.set_wakeup_fd`) belongs to the program, and Ctrl-C still wakes the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

import oneloop
from oneloop import signals
from tests import programs
from tests.loop.sleeping import Sleeping


def current() -> int:
    fd = signal.set_wakeup_fd(-1)
    if fd != -1:
        signal.set_wakeup_fd(fd)
    return fd


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert signal.set_wakeup_fd(-1) == -1


async def test_none_is_set_in_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    """What a library in guest mode (trio) looks for, in a first callback and after a sleep."""
    assert current() == -1
    await asyncio.sleep(0.001)
    assert current() == -1


@pytest.mark.skipif(sys.version_info < (3, 13), reason="a sleep leaves the descriptor alone before Python 3.13")
def test_an_interrupt_while_the_programs_is_found(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    swap = signals._swap_wakeup_fd
    left = [KeyboardInterrupt]

    def interrupted(fd: int) -> int:
        if left:
            raise left.pop()
        return swap(fd)

    monkeypatch.setattr(signals, "_swap_wakeup_fd", interrupted)
    with contextlib.closing(oneloop.new_event_loop()) as loop:
        loop.call_later(0.001, loop.stop)
        assert signal.set_wakeup_fd(pair[1].fileno()) == -1
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        assert signal.set_wakeup_fd(-1) == pair[1].fileno()


def test_one_that_the_program_sets_during_a_run_is_kept(
    loop: asyncio.AbstractEventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    async def main() -> None:
        assert signal.set_wakeup_fd(pair[1].fileno()) == -1
        await asyncio.sleep(0.001)

    loop.run_until_complete(main())
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    assert signal.set_wakeup_fd(-1) == pair[1].fileno()


def test_one_that_a_signal_handler_sets_is_kept(
    loop: asyncio.AbstractEventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    """The handler interrupts the loop's sleep."""

    def handle(*_: object) -> None:
        signal.set_wakeup_fd(pair[1].fileno())
        loop.call_soon_threadsafe(loop.stop)

    before = signal.signal(signal.SIGUSR1, handle)
    sender = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1))
    sender.start()
    loop.run_forever()
    sender.join()
    signal.signal(signal.SIGUSR1, before)
    assert signal.set_wakeup_fd(-1) == pair[1].fileno()


def test_one_of_the_program_gets_the_signals_of_a_sleep(
    loop: asyncio.AbstractEventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.set_wakeup_fd(pair[1].fileno())

    async def main() -> bytes:
        loop.call_later(0.01, os.kill, os.getpid(), signal.SIGUSR1)
        return await loop.sock_recv(pair[0], 10)

    assert loop.run_until_complete(main()) == bytes([signal.SIGUSR1])
    assert signal.set_wakeup_fd(-1) == pair[1].fileno()
    signal.signal(signal.SIGUSR1, before)


def test_a_stale_one_is_no_error(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno())
    ours.close()
    theirs.close()
    loop.run_until_complete(asyncio.sleep(0.001))
    signal.set_wakeup_fd(-1)


def test_a_stale_one_is_no_error_beside_handlers(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno())
    ours.close()
    theirs.close()
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.remove_signal_handler(signal.SIGUSR1)
    signal.set_wakeup_fd(-1)


def test_its_warning_stays_off(loop_name: str) -> None:
    """With `warn_on_full_buffer=False` the interpreter says nothing if the socket is full."""
    programs.run_ok(
        loop_name,
        """
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        loop = new_loop()
        loop.run_until_complete(asyncio.sleep(0.001))
        loop.close()
        try:
            while True:
                theirs.send(b"x" * 1000)
        except BlockingIOError:
            pass
        try:
            while True:
                theirs.send(b"x")
        except BlockingIOError:
            pass
        os.kill(os.getpid(), signal.SIGUSR1)
        assert signal.set_wakeup_fd(-1) == theirs.fileno()
        """,
    )


@pytest.mark.oneloop_only("asyncio removes the program's descriptor with its last signal handler")
def test_one_that_replaces_the_loops_is_kept(
    loop: asyncio.AbstractEventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    assert signal.set_wakeup_fd(pair[1].fileno()) != -1
    loop.remove_signal_handler(signal.SIGUSR1)
    assert signal.set_wakeup_fd(-1) == pair[1].fileno()


def test_the_loops_is_set_while_it_has_handlers(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.run_until_complete(asyncio.sleep(0.001))
    assert current() != -1
    loop.remove_signal_handler(signal.SIGUSR1)
    assert current() == -1


@pytest.mark.oneloop_only("Python 3.11 lets a child write into its parent's loop", before=(3, 12))
def test_a_child_does_not_write_to_its_parents_loop(loop_name: str) -> None:
    out = programs.run_ok(
        loop_name,
        """
        loop = new_loop()
        told = []
        loop.add_signal_handler(signal.SIGUSR1, told.append, 1)

        async def main():
            pid = os.fork()
            if not pid:
                signal.signal(signal.SIGUSR1, lambda *_: None)
                os.kill(os.getpid(), signal.SIGUSR1)
                os._exit(0 if signal.set_wakeup_fd(-1) == -1 else 1)
            _, status = os.waitpid(pid, 0)
            await asyncio.sleep(0.01)
            return os.waitstatus_to_exitcode(status)

        print(loop.run_until_complete(main()), told)
        loop.close()
        """,
        options=("-W", "ignore::DeprecationWarning"),
    )
    assert out == "0 []\n"


def test_a_child_of_a_thread_while_the_loop_sleeps(loop: asyncio.AbstractEventLoop) -> None:
    """`fork` copies the interpreter with the descriptor that is set for the sleep."""
    exits: list[int] = []

    def fork() -> None:
        pid = os.fork()
        if not pid:
            os._exit(0 if signal.set_wakeup_fd(-1) == -1 else 1)
        exits.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    with warnings.catch_warnings():
        # Python 3.12 and later warn of a fork in a process with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        Sleeping(loop).while_asleep(fork)
    assert exits == [0]


# -- descriptors are exhausted ------------------------------------------------------------------------------


EXHAUSTED = """
import resource
{made_in}
fds = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        fds.append(os.dup(0))
except OSError:
    pass
signal.signal(signal.SIGALRM, lambda *_: loop.call_soon_threadsafe(task.cancel))

async def main():
    await asyncio.sleep(0)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    await asyncio.sleep(3600)

task = loop.create_task(main())
try:
    loop.run_until_complete(task)
except asyncio.CancelledError:
    print("a signal has ended it")
for fd in fds:
    os.close(fd)
loop.close()
"""


@pytest.mark.parametrize("made_in", ["the main thread", "another thread"])
def test_a_loop_runs_without_further_descriptors(loop_name: str, made_in: str) -> None:
    made = {
        "the main thread": "loop = new_loop()",
        "another thread": (
            "made = []\nthread = threading.Thread(target=lambda: made.append(new_loop()))\n"
            "thread.start()\nthread.join()\nloop = made.pop()"
        ),
    }[made_in]
    assert programs.run_ok(loop_name, EXHAUSTED.format(made_in=made)) == "a signal has ended it\n"


def test_a_handler_needs_no_further_descriptors(loop_name: str) -> None:
    programs.run_ok(
        loop_name,
        """
        import resource
        loop = new_loop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        loop.add_signal_handler(signal.SIGALRM, loop.stop)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        loop.run_forever()
        loop.close()
        """,
    )


# -- close() in another thread --------------------------------------------------------------------------------


def test_another_thread_closes_a_loop_with_handlers(loop: asyncio.AbstractEventLoop) -> None:
    """It cannot remove them, as only the main thread may, and says so. The loop is closed nevertheless."""
    before = signal.getsignal(signal.SIGUSR1)
    loop.add_signal_handler(signal.SIGUSR1, print)
    errors: list[BaseException] = []

    def close() -> None:
        try:
            loop.close()
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])
    assert loop.is_closed()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="before Python 3.13, only the main thread can set it")
@pytest.mark.oneloop_only("asyncio's closed one stays")
def test_what_a_close_in_another_thread_leaves(
    loop: asyncio.AbstractEventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    """The program's descriptor, and nothing that other loops with handlers stumble over."""
    before = signal.getsignal(signal.SIGUSR1)
    signal.set_wakeup_fd(pair[1].fileno())
    loop.add_signal_handler(signal.SIGUSR1, print)

    def close() -> None:
        with contextlib.suppress(ValueError):
            loop.close()

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    signal.signal(signal.SIGUSR1, before)
    assert signal.set_wakeup_fd(-1) == pair[1].fileno()
    other = oneloop.new_event_loop()
    other.add_signal_handler(signal.SIGUSR2, other.stop)
    other.call_soon(os.kill, os.getpid(), signal.SIGUSR2)
    other.run_forever()
    other.close()


# -- Ctrl-C -------------------------------------------------------------------------------------------------


@pytest.mark.oneloop_only("asyncio sleeps on if the signal comes immediately before")
def test_a_signal_between_two_sleeps(loop_name: str) -> None:
    """Signals at many moments around the begin of a long sleep: each one ends it."""
    programs.run_ok(
        loop_name,
        """
        loop = new_loop()
        sleeping = loop.call_later(3600, print)
        signal.signal(signal.SIGALRM, lambda *_: loop.call_soon_threadsafe(loop.stop))
        for turn in range(3000):
            signal.setitimer(signal.ITIMER_REAL, 0.00002 + turn % 100 * 0.000002)
            loop.run_forever()
        sleeping.cancel()
        loop.close()
        """,
    )


@pytest.mark.oneloop_only("asyncio sleeps on")
def test_a_loop_without_handlers_any_more_is_woken(loop: asyncio.AbstractEventLoop) -> None:
    """Another thread gets the signal, so that only the wakeup descriptor ends the sleep, and the handler runs."""
    heard = threading.Event()

    def send() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        assert heard.wait(10), "the loop sleeps on"

    before = signal.signal(signal.SIGUSR1, lambda *_: heard.set())
    loop.call_soon(loop.add_signal_handler, signal.SIGUSR2, print)
    loop.call_soon(loop.remove_signal_handler, signal.SIGUSR2)
    Sleeping(loop).while_asleep(send)
    signal.signal(signal.SIGUSR1, before)


class InterruptionError(Exception):
    pass


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the loop has a wakeup descriptor since Python 3.13")
def test_an_exception_of_a_signals_handler_leaves_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Another thread gets the signal, so that only the wakeup descriptor ends the sleep."""

    def handle(*_: object) -> None:
        raise InterruptionError

    runs = threading.Lock()
    runs.acquire()

    def send() -> None:
        # However busy the machine is, the loop runs by then. The callback has no Python code that a signal could end.
        runs.acquire()
        time.sleep(0.02)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    sender = threading.Thread(target=send)
    stop = loop.call_later(5, loop.stop)
    loop.call_soon(runs.release)
    sender.start()
    try:
        with pytest.raises(InterruptionError):
            loop.run_forever()
    finally:
        sender.join()
        stop.cancel()
        signal.signal(signal.SIGUSR1, before)
