"""Waiting for events: timeouts, cancelling, signals, threads."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import threading
import time
from typing import Literal

import pytest

from oneloop import aio
from tests import programs


def test_a_zero_timeout_does_not_block(context: aio.Context, pipe: tuple[int, int]) -> None:
    context.submit(aio.Poll(pipe[0], select.POLLIN))
    assert context.get_events(1, 1, 0) == ()
    assert context.get_events(1, 1, timeout=0.0) == ()
    os.write(pipe[1], b"x")
    assert len(context.get_events(1, 1)) == 1


def test_a_minimum_of_zero_does_not_block(context: aio.Context, file: int, pipe: tuple[int, int]) -> None:
    poll = aio.Poll(pipe[0], select.POLLIN)
    context.submit(poll)
    assert context.get_events(0, 10) == ()
    assert context.get_events(0, 0) == ()
    context.submit(aio.Fsync(file))
    found: tuple[aio.Event, ...] = ()
    while not found:
        found = context.get_events(0, 10)
    context.cancel(poll)
    context.get_events(1, 1)


def test_a_timeout_ends_the_wait_with_what_there_is(context: aio.Context, file: int, pipe: tuple[int, int]) -> None:
    poll = aio.Poll(pipe[0], select.POLLIN)
    context.submit(poll, aio.Fsync(file))
    events: tuple[aio.Event, ...] = ()
    while not events:  # a busy disk may need several times as long
        began = time.monotonic()
        events = context.get_events(2, 2, 0.05)
        assert time.monotonic() - began >= 0.05
    (event,) = events
    assert isinstance(event.request, aio.Fsync)
    context.cancel(poll)
    assert len(context.get_events(1, 1)) == 1


def test_the_maximum_is_kept(context: aio.Context, file: int) -> None:
    context.submit(*(aio.Read(file, bytearray(1)) for _ in range(10)))
    assert len(context.get_events(3, 3)) == 3
    assert len(context.get_events(1, 2)) <= 2
    rest = 10 - 3
    while rest := context.in_flight:
        context.get_events(1, rest)


@pytest.mark.parametrize("numbers", [(2, 1), (-1, 1), (0, -1)])
def test_numbers_that_do_not_fit(context: aio.Context, numbers: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="min_jobs <= max_jobs"):
        context.get_events(*numbers)


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_timeouts_that_are_none(context: aio.Context, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        context.get_events(1, 1, timeout)


@pytest.mark.parametrize("timeout", [float("inf"), 1e300, None])
def test_timeouts_for_ever(context: aio.Context, file: int, timeout: float | None) -> None:
    context.submit(aio.Fsync(file))
    assert len(context.get_events(1, 1, timeout)) == 1


def test_poll_of_a_socket(context: aio.Context) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        both = aio.Poll(ours, select.POLLIN | select.POLLOUT)
        assert both.events == select.POLLIN | select.POLLOUT
        context.submit(both)
        (event,) = context.get_events(1, 1)
        assert event.result() == select.POLLOUT
        poll = aio.Poll(ours, select.POLLIN)
        context.submit(poll)
        assert context.get_events(1, 1, 0.01) == ()
        theirs.sendall(b"x")
        (event,) = context.get_events(1, 1)
        assert event.result() == select.POLLIN


def test_poll_hears_of_the_end(context: aio.Context) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        context.submit(aio.Poll(ours, select.POLLIN))
        theirs.close()
        (event,) = context.get_events(1, 1)
        assert event.result() & select.POLLHUP


def test_cancelling(context: aio.Context, pipe: tuple[int, int]) -> None:
    poll = aio.Poll(pipe[0], select.POLLIN)
    with pytest.raises(ValueError, match="not in flight"):
        context.cancel(poll)
    context.submit(poll)
    context.cancel(poll)
    (event,) = context.get_events(1, 1)
    assert event.request is poll
    assert event.response == -errno.ECANCELED
    with pytest.raises(OSError, match="Operation canceled") as caught:
        event.result()
    assert caught.value.errno == errno.ECANCELED
    with pytest.raises(ValueError, match="not in flight"):
        context.cancel(poll)


def test_cancelling_what_has_ended_is_no_error(context: aio.Context, file: int) -> None:
    fsync = aio.Fsync(file)
    context.submit(fsync)
    context.cancel(fsync)
    context.cancel(fsync)
    (event,) = context.get_events(1, 1)
    assert event.response in (0, -errno.ECANCELED)
    assert context.in_flight == 0


def test_a_request_of_another_context_is_not_cancelled(context: aio.Context, pipe: tuple[int, int]) -> None:
    poll = aio.Poll(pipe[0], select.POLLIN)
    with aio.Context(1, "ring") as other:
        other.submit(poll)
        with pytest.raises(ValueError, match="not in flight in this context"):
            context.cancel(poll)
        with pytest.raises(ValueError, match="already in flight"):
            context.submit(poll)


def test_ctrl_c_ends_the_wait_and_loses_nothing(context: aio.Context, file: int, pipe: tuple[int, int]) -> None:
    poll = aio.Poll(pipe[0], select.POLLIN)
    context.submit(poll, aio.Fsync(file))
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        context.get_events(2, 2)
    timer.join()
    # The event that had come before the signal.
    (event,) = context.get_events(1, 1)
    assert isinstance(event.request, aio.Fsync)
    os.write(pipe[1], b"x")
    (event,) = context.get_events(1, 1)
    assert event.request is poll


def test_a_signal_that_raises_nothing_does_not_end_the_wait(context: aio.Context, pipe: tuple[int, int]) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    main = threading.main_thread().ident
    assert main is not None
    try:
        poll = aio.Poll(pipe[0], select.POLLIN)
        context.submit(poll)
        timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1))
        timer.start()
        began = time.monotonic()
        assert context.get_events(1, 1, 0.2) == ()
        assert time.monotonic() - began >= 0.2
        timer.join()
        assert seen == [signal.SIGUSR1]
        context.cancel(poll)
        context.get_events(1, 1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_threads_run_meanwhile(context: aio.Context, pipe: tuple[int, int]) -> None:
    """The interpreter is free while one thread waits, and another may submit."""
    events: list[tuple[aio.Event, ...]] = []
    waiting = threading.Thread(target=lambda: events.append(context.get_events(1, 4)))
    waiting.start()
    poll = aio.Poll(pipe[0], select.POLLIN)
    context.submit(poll)
    assert context.in_flight == 1
    os.write(pipe[1], b"x")
    waiting.join(60)
    assert not waiting.is_alive()
    ((event,),) = events
    assert event.request is poll


def test_closing_under_a_waiting_thread_is_refused(engine: Literal["ring", "aio"], pipe: tuple[int, int]) -> None:
    def wait(context: aio.Context) -> None:
        with contextlib.suppress(ValueError):  # closed before it was waiting: another attempt follows
            context.get_events(1, 1)

    for _ in range(100):
        context = aio.Context(4, engine)
        poll = aio.Poll(pipe[0], select.POLLIN)
        context.submit(poll)
        waiting = threading.Thread(target=wait, args=(context,))
        waiting.start()
        while not _sleeps(waiting):
            time.sleep(0)
        try:
            context.close()
        except RuntimeError as error:
            refusal = str(error)
            context.cancel(poll)
            waiting.join(60)
            context.close()
            break
        waiting.join(60)
    assert refusal == "another thread is waiting in get_events()"
    assert not waiting.is_alive()


def _sleeps(thread: threading.Thread) -> bool:
    with open(f"/proc/self/task/{thread.native_id}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"


@pytest.mark.parametrize("engine", ["ring", "aio"])
def test_many_threads_at_once(engine: str) -> None:
    """Every request gets one event, whoever asks for it."""
    shown = programs.run_ok(
        "oneloop",
        f"""
        from oneloop import aio
        import tempfile
        context = aio.Context(256, {engine!r})
        file = tempfile.TemporaryFile()
        file.write(b"x" * 4096)
        file.flush()
        seen, lock, threads = [], threading.Lock(), []
        PER_THREAD = 500

        def submit():
            for number in range(PER_THREAD):
                read = aio.Read(file, bytearray(16), number % 64)
                while True:
                    try:
                        context.submit(read)
                        break
                    except BlockingIOError:
                        time.sleep(0)

        def reap():
            while len(seen) < 4 * PER_THREAD:
                events = context.get_events(1, 64, 0.05)
                with lock:
                    seen.extend(event.request for event in events)
                assert all(event.response == 16 for event in events)

        threads = [threading.Thread(target=submit) for _ in range(4)]
        threads += [threading.Thread(target=reap) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == len(seen) == 4 * PER_THREAD, len(seen)
        context.close()
        print("done")
        """,
    )
    assert shown == "done\n"
