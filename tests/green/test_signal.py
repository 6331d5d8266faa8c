"""Signals while green threads wait."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import signal as green_signal
from oneloop.green.event import Event


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Check that the tests restore the signal handlers."""
    watched = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
    before = [signal.getsignal(number) for number in watched]
    yield
    for number, handler in zip(watched, before, strict=True):
        assert signal.getsignal(number) is handler
        signal.signal(number, handler)


def send_soon(number: int) -> None:
    green.spawn_later(0.001, os.kill, os.getpid(), number)


def test_a_handler_runs_while_all_wait() -> None:
    came: list[int] = []

    def come(number: int, _: object) -> None:
        came.append(number)

    old = green_signal.signal(signal.SIGUSR1, come)
    assert green_signal.getsignal(signal.SIGUSR1) is come is signal.getsignal(signal.SIGUSR1)
    event = Event()
    send_soon(signal.SIGUSR1)
    green.spawn_later(0.01, event.set)
    event.wait()
    assert came == [signal.SIGUSR1]
    green_signal.signal(signal.SIGUSR1, old)


def test_a_signal_from_outside_while_the_loop_sleeps() -> None:
    came = Event()
    old = signal.signal(signal.SIGUSR1, lambda number, _: came.set())
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.kill(parent, signal.SIGUSR1)
        os._exit(0)
    assert came.wait(10)
    os.waitpid(pid, 0)
    signal.signal(signal.SIGUSR1, old)


def test_an_interrupt_reaches_the_main_greenlet() -> None:
    send_soon(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        green.sleep(10)
    # Green threads work after it.
    green.spawn(green.sleep, 0.001).get()


def test_what_a_handler_raises_reaches_the_main_greenlet() -> None:
    class TooLate(Exception):  # noqa: N818 - a name for a test
        pass

    def late(number: int, frame: object) -> None:
        raise TooLate

    old = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    with pytest.raises(TooLate):
        green.sleep(10)
    signal.signal(signal.SIGALRM, old)


# -- signal_handler ----------------------------------------------------------------------------------


def test_a_function_in_a_green_thread() -> None:
    came: list[Any] = []
    done = Event()

    def handle(*args: Any, **kwargs: Any) -> None:
        # The handler may block.
        green.sleep(0)
        came.append((args, kwargs))
        done.set()

    handler = green.signal_handler(signal.SIGUSR1, handle, 1, word="two")
    for _ in range(2):
        done.clear()
        send_soon(signal.SIGUSR1)
        assert done.wait(10)
    assert came == [((1,), {"word": "two"})] * 2
    handler.cancel()
    handler.cancel()
    handler.handle()
    green.sleep(0)
    assert len(came) == 2


def test_several_for_a_signal() -> None:
    came: list[int] = []
    old_came: list[int] = []
    old = signal.signal(signal.SIGUSR1, lambda number, _: old_came.append(number))
    handlers = [green.signal_handler(signal.SIGUSR1, came.append, number) for number in range(3)]
    os.kill(os.getpid(), signal.SIGUSR1)
    green.sleep(0.001)
    assert came == [0, 1, 2]
    handlers.pop(1).cancel()
    os.kill(os.getpid(), signal.SIGUSR1)
    green.sleep(0.001)
    assert came == [0, 1, 2, 0, 2]
    for handler in handlers:
        handler.cancel()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert old_came == [signal.SIGUSR1]
    signal.signal(signal.SIGUSR1, old)


def test_the_program_puts_another_in_its_place() -> None:
    handler = green.signal_handler(signal.SIGUSR1, green.sleep)
    old = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGUSR1)
    later: list[int] = []
    other = green.signal_handler(signal.SIGUSR1, later.append, 1)
    os.kill(os.getpid(), signal.SIGUSR1)
    green.sleep(0.001)
    assert later == [1]
    handler.cancel()
    other.cancel()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    assert old is not signal.SIG_IGN
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def test_another_in_its_place_at_the_end() -> None:
    handler = green.signal_handler(signal.SIGUSR1, green.sleep)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    handler.cancel()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def test_under_a_running_loop() -> None:
    async def main() -> None:
        done = Event()

        def handle() -> None:
            green.sleep(0)
            done.set()

        handler = green.signal_handler(signal.SIGUSR1, handle)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert await done.wait(10)
        handler.cancel()

    oneloop.run(main())


def test_wrong_handlers() -> None:
    with pytest.raises(TypeError, match="must be callable"):
        green.signal_handler(signal.SIGUSR1, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="signal number out of range"):
        green.signal_handler(1000, green.sleep)
    with pytest.raises(OSError, match="Invalid argument"):
        green.signal_handler(signal.SIGKILL, green.sleep)


def test_in_another_thread() -> None:
    with pytest.raises(ValueError, match="main thread"):
        green.get_hub().threadpool.apply(green.signal_handler, (signal.SIGUSR1, green.sleep))
    green.get_hub().threadpool.kill()


# -- wake-up descriptors -----------------------------------------------------------------------------


def test_a_wakeup_descriptor_of_the_programs() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        green.sleep(0.001)
        old = signal.signal(signal.SIGUSR1, lambda *_: None)
        # The hub's loop uses the descriptor only while it sleeps, and only if there is none.
        assert green_signal.set_wakeup_fd(theirs.fileno()) == -1
        send_soon(signal.SIGUSR1)
        green.sleep(0.01)
        assert ours.recv(10) == bytes([signal.SIGUSR1])
        assert green_signal.set_wakeup_fd(-1) == theirs.fileno()
        signal.signal(signal.SIGUSR1, old)


def test_names_of_the_standard_library() -> None:
    assert green_signal.SIGTERM is signal.SIGTERM
    with pytest.raises(AttributeError):
        green_signal.nothing  # noqa: B018
    assert all(hasattr(signal, name) for name in green_signal.__implements__)
