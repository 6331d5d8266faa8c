"""Signals: handlers on the loop, Ctrl-C as asyncio.Runner has it, nothing left behind."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests import programs


@pytest.fixture(autouse=True)
def signals_are_restored(audit: None) -> Iterator[None]:
    watched = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGCHLD, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in watched}
    yield
    assert {number: signal.getsignal(number) for number in watched} == before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_handler_runs_on_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[tuple[Any, ...]] = []

    def note(*arguments: Any) -> None:
        seen.append(arguments)
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR1, note, 1, "two")
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    assert seen == [(1, "two")]
    assert loop.remove_signal_handler(signal.SIGUSR1) is True
    assert loop.remove_signal_handler(signal.SIGUSR1) is False


def test_a_signal_wakes_an_idle_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    sender = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    sender.start()
    loop.run_forever()
    sender.join()
    loop.remove_signal_handler(signal.SIGUSR1)


def test_several_signals(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []

    def note(number: int) -> None:
        seen.append(number)
        if len(seen) == 2:
            loop.stop()

    for number in (signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, note, number)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR2)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    assert sorted(seen) == [signal.SIGUSR1, signal.SIGUSR2]
    loop.remove_signal_handler(signal.SIGUSR1)
    loop.remove_signal_handler(signal.SIGUSR2)


async def test_one_of_two_handlers_is_removed(loop: asyncio.AbstractEventLoop) -> None:
    """In the same run, the other one is still called."""
    heard = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.add_signal_handler(signal.SIGUSR2, heard.set)
    loop.remove_signal_handler(signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR2)
    await heard.wait()
    loop.remove_signal_handler(signal.SIGUSR2)


class Action(ctypes.Structure):
    """`struct sigaction` of glibc and musl."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


SA_RESTART = 0x10000000


def test_system_calls_of_c_libraries_are_not_interrupted(loop: asyncio.AbstractEventLoop) -> None:
    """Python's own begin again after EINTR; others seldom do."""
    action = Action()
    loop.add_signal_handler(signal.SIGUSR1, print)
    assert ctypes.CDLL(None).sigaction(signal.SIGUSR1, None, ctypes.byref(action)) == 0
    assert action.flags & SA_RESTART
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_second_handler_replaces_the_first(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, pytest.fail, "replaced, but called")
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_handler_that_raises_is_reported(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    def fail() -> None:
        loop.call_soon(loop.stop)
        raise LookupError("in a signal handler")

    loop.add_signal_handler(signal.SIGUSR1, fail)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    reported.take_one(LookupError)
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_handler_may_remove_itself(loop: asyncio.AbstractEventLoop) -> None:
    def once() -> None:
        loop.remove_signal_handler(signal.SIGUSR1)
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR1, once)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    assert not loop.remove_signal_handler(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_closing_the_loop_restores_the_dispositions(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.add_signal_handler(signal.SIGINT, print)
    loop.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("number", "error"),
    [
        ("SIGUSR1", TypeError),
        (None, TypeError),
        (1.5, TypeError),
        (-1, ValueError),
        (0, ValueError),
        (1000, ValueError),
        (signal.SIGKILL, RuntimeError),
        (signal.SIGSTOP, RuntimeError),
    ],
)
def test_what_is_not_a_signal(loop: asyncio.AbstractEventLoop, number: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        loop.add_signal_handler(number, print)


@pytest.mark.parametrize("number", ["SIGUSR1", -1, 1000])
def test_what_cannot_be_removed(loop: asyncio.AbstractEventLoop, number: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        loop.remove_signal_handler(number)


def test_coroutines_are_no_handlers(loop: asyncio.AbstractEventLoop) -> None:
    async def coroutine() -> None: ...

    with pytest.raises(TypeError, match="coroutines cannot be used with add_signal_handler"):
        loop.add_signal_handler(signal.SIGUSR1, coroutine)


def test_only_in_the_main_thread(loop: asyncio.AbstractEventLoop) -> None:
    errors: list[BaseException] = []

    def add() -> None:
        try:
            loop.add_signal_handler(signal.SIGUSR1, print)
        except (RuntimeError, ValueError) as error:
            errors.append(error)

    thread = threading.Thread(target=add)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_a_handler_of_the_program_runs_while_the_loop_waits(loop: asyncio.AbstractEventLoop) -> None:
    """signal.signal() without the loop: the Python handler must not wait for the loop's next event."""
    before = signal.signal(signal.SIGUSR1, lambda *_: loop.call_soon_threadsafe(loop.stop))
    sender = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        sender.start()
        loop.run_forever()
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_python_handler_that_raises_leaves_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, fail)
    sender = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert loop.run_until_complete(asyncio.sleep(0, "alive")) == "alive"


def test_ctrl_c_cancels_the_main_task(loop_name: str) -> None:
    done = programs.run(
        loop_name,
        """
        async def main():
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                print("cancelled")
                raise

        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(main())
        except KeyboardInterrupt:
            print("interrupted")
        """,
    )
    assert done.stdout.split() == ["cancelled", "interrupted"], done.stderr
    assert done.stderr == ""


def test_ctrl_c_in_a_busy_program(loop_name: str) -> None:
    """The second Ctrl-C raises at once, in whatever runs."""
    done = programs.run(
        loop_name,
        """
        async def main():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass

        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(main())
        except KeyboardInterrupt:
            print("interrupted")
        """,
    )
    assert done.stdout.split() == ["interrupted"], done.stderr


@pytest.mark.oneloop_only("an interrupt in asyncio's own set-up or clean-up leaves its loop marked as running")
def test_keyboard_interrupt_anywhere(loop_name: str) -> None:
    """SIGINTs at many moments of a loop under load: each leaves run_forever, and the loop can always be run on."""
    out = programs.run_ok(
        loop_name,
        """
        loop = new_loop()
        signal.setitimer
        interrupted = 0
        pair = socket.socketpair()
        for end in pair:
            end.setblocking(False)
        def on_readable():
            pair[0].recv(100)
            pair[1].send(b"x")
        def again():
            loop.call_soon(again)
        def timer():
            loop.call_later(0.0001, timer)
        loop.add_reader(pair[0], on_readable)
        pair[1].send(b"x")
        again()
        timer()
        rounds = 150
        # An interval timer sends the signals from outside of Python.
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        for turn in range(rounds):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + (turn % 17) * 0.0001)
                loop.run_forever()
            except KeyboardInterrupt:
                interrupted += 1
                # A callback that was interrupted may not have scheduled itself again.
                loop.call_soon(again)
                loop.call_soon(timer)
                try:
                    pair[1].send(b"x")
                except BlockingIOError:
                    pass
        loop.remove_reader(pair[0])
        for end in pair:
            end.close()
        assert loop.run_until_complete(asyncio.sleep(0, "alive")) == "alive"
        loop.close()
        print(interrupted)
        """,
    )
    assert out.strip() == "150"


@pytest.mark.oneloop_only("asyncio watches its socket from the constructor on")
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no watches"), RuntimeError("not now")])
def test_a_watch_that_fails_is_tried_again(loop: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    real = type(loop)._add_reader
    failed: list[int] = []

    def add_reader(self: Any, fd: int, *given: Any) -> Any:
        if not failed:
            failed.append(fd)
            raise error
        return real(self, fd, *given)

    monkeypatch.setattr(type(loop), "_add_reader", add_reader)
    if isinstance(error, OSError):
        loop.run_until_complete(asyncio.sleep(0))
    else:
        with pytest.raises(RuntimeError):
            loop.add_signal_handler(signal.SIGUSR1, print)
    assert failed
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    assert loop.remove_signal_handler(signal.SIGUSR1) is True
