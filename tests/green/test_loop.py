"""`get_hub().loop`: watchers and callbacks, compared with gevent 26.9 on libev."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from greenlet import greenlet as RawGreenlet  # noqa: N812

import oneloop
from oneloop import green
from oneloop.green import get_hub, sleep, spawn
from oneloop.green.event import Event
from oneloop.green.exceptions import BlockingSwitchOutError, ConcurrentObjectUseError, LoopExit
from oneloop.green.hub_loop import HubLoop
from oneloop.green.waiter import Waiter
from oneloop.green.watchers import Watcher
from oneloop.green.watchers.events import READ, TIMER, WRITE


@pytest.fixture
def hub_loop() -> HubLoop:
    return get_hub().loop


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        with contextlib.suppress(OSError):
            os.close(fd)


def until(is_so: Callable[[], object]) -> None:
    """Let green threads run until the condition is true."""
    while not is_so():
        sleep(0.001)


def noting(said: list[Any], value: Any, watcher: Watcher) -> Callable[..., None]:
    """A callback that records a value (`...` stands for its argument) and stops a watcher."""

    def note(*events: int) -> None:
        said.append(*(events if value is ... else (value,)))
        watcher.stop()

    return note


# -- timers --------------------------------------------------------------------------------------------


def test_timer_calls_once_and_forgets(hub_loop: HubLoop) -> None:
    said: list[int] = []
    timer = hub_loop.timer(0.001)
    timer.start(said.append, 1)
    assert timer.active
    assert timer.args == (1,)
    assert timer.callback == said.append
    until(lambda: said)
    told: tuple[Any, ...] = (timer.active, timer.pending, timer.callback, timer.args)
    assert told == (False, False, None, None)


def test_timer_repeats_until_it_is_stopped(hub_loop: HubLoop) -> None:
    said: list[int] = []
    timer = hub_loop.timer(0, 0.001)

    def note() -> None:
        if len(said) == 2:
            timer.stop()
        else:
            said.append(1)

    timer.start(note)
    until(lambda: not timer.active)
    sleep(0.005)
    assert len(said) == 2


def test_timer_can_be_started_in_its_callback(hub_loop: HubLoop) -> None:
    said: list[int] = []
    timer = hub_loop.timer(0.001)

    def again() -> None:
        said.append(1)
        if len(said) < 3:
            timer.start(again)

    timer.start(again)
    until(lambda: len(said) == 3)
    assert not timer.active


def test_again_takes_the_repeat_as_its_time(hub_loop: HubLoop) -> None:
    said: list[int] = []
    timer = hub_loop.timer(60, 0.001)
    timer.again(said.append, 1)
    until(lambda: said)
    timer.again(said.append, 2)
    until(lambda: 2 in said)
    timer.close()
    single = hub_loop.timer(60)
    single.again(said.append, 3)
    assert not single.active


def test_one_watcher_can_stop_another_that_is_pending(hub_loop: HubLoop) -> None:
    said: list[str] = []
    one, other = hub_loop.timer(0.001), hub_loop.timer(0.001)
    one.start(noting(said, "one", other))
    other.start(noting(said, "other", one))
    time.sleep(0.002)
    sleep(0.005)
    assert len(said) == 1


def test_urgent_watchers_go_first(hub_loop: HubLoop) -> None:
    said: list[int] = []
    for priority in (0, -2, 2, 1):
        hub_loop.timer(0.001, priority=priority).start(said.append, priority)
    time.sleep(0.003)
    sleep(0.003)
    assert said == [2, 1, 0, -2]


def test_refused(hub_loop: HubLoop) -> None:
    timer = hub_loop.timer(60)
    bad: list[tuple[type[Exception], Callable[[], Any]]] = [
        (ValueError, lambda: hub_loop.timer(1, -1)),
        (TypeError, lambda: hub_loop.timer(None)),  # type: ignore[arg-type]
        (TypeError, lambda: timer.start(None)),  # type: ignore[arg-type]
        (TypeError, lambda: setattr(timer, "callback", 5)),
        (TypeError, lambda: setattr(timer, "args", [1])),
        (ValueError, lambda: hub_loop.io(-1, READ)),
        (OSError, lambda: hub_loop.io(100_000, READ)),
        (ValueError, lambda: hub_loop.io(0, TIMER)),
        (ValueError, lambda: hub_loop.signal(1000)),
        (TypeError, lambda: hub_loop.stat(1)),  # type: ignore[arg-type]
    ]
    for error, attempt in bad:
        with pytest.raises(error):
            attempt()
    timer.start(len, ())
    with pytest.raises(AttributeError, match="priority"):
        timer.priority = 1
    timer.close()
    timer.priority = 5
    assert timer.priority == 2


# -- references that keep the loop alive -----------------------------------------------------------------


def test_watchers_that_do_not_count_do_not_keep_a_wait_alive(hub_loop: HubLoop, pipe: tuple[int, int]) -> None:
    quiet = [hub_loop.timer(60, ref=False), hub_loop.io(pipe[0], READ, ref=False), hub_loop.async_(ref=False)]
    for watcher in quiet:
        watcher.start(len, ())
    with pytest.raises(LoopExit):
        Event().wait()
    with pytest.raises(LoopExit):
        sleep(60, ref=False)


def test_timeouts_that_do_not_count() -> None:
    with pytest.raises(LoopExit), green.Timeout(60, ref=False):
        Event().wait()
    with pytest.raises(green.Timeout, match="too long"), green.Timeout(0.001, "too long", ref=False):
        sleep(60)


def test_what_ends_the_program_leaves_the_loop_that_the_main_greenlet_runs(hub_loop: HubLoop) -> None:
    get_hub().exception_stream = None

    def leave() -> None:
        raise SystemExit(3)

    for leaves in (lambda: hub_loop.run_callback(leave), lambda: spawn(leave), lambda: green.spawn_raw(leave)):
        leaves()
        with pytest.raises(SystemExit):
            hub_loop.run()


def test_they_are_served_while_something_counts(hub_loop: HubLoop, pipe: tuple[int, int]) -> None:
    said: list[str] = []
    hub_loop.timer(0.001, ref=False).start(said.append, "timer")
    reader = hub_loop.io(pipe[0], READ, ref=False)
    reader.start(noting(said, "io", reader))
    os.write(pipe[1], b"x")
    until(lambda: len(said) == 2)


def test_ref_can_be_changed_while_it_is_active(hub_loop: HubLoop) -> None:
    # The loop below forgets a cancelled timer when its time has come.
    timer = hub_loop.timer(0.01, 60)
    timer.start(len, ())
    timer.ref = False
    with pytest.raises(LoopExit):
        Event().wait()
    timer.ref = True
    assert get_hub().join(0.001) is False


def test_watchers_of_every_kind_keep_a_wait_alive(hub_loop: HubLoop) -> None:
    for watcher in (hub_loop.async_(), hub_loop.signal(signal.SIGUSR1), hub_loop.fork(), hub_loop.stat("/")):
        watcher.start(len, ())
        assert get_hub().join(0.001) is False
        watcher.close()
    hub_loop.ref()
    assert get_hub().join(0.001) is False
    hub_loop.unref()
    assert get_hub().join() is True


def test_join_waits_for_what_is_left() -> None:
    later = green.spawn_later(0.005, lambda: 1)
    assert green.wait(timeout=0.0001) is False
    assert green.wait() is True
    assert later.value == 1
    assert get_hub().join() is True


# -- descriptors -----------------------------------------------------------------------------------------


def test_io_tells_what_has_happened(hub_loop: HubLoop) -> None:
    one, other = socket.socketpair()
    with one, other:
        said: list[int] = []
        both = hub_loop.io(one.fileno(), READ | WRITE)
        both.start(noting(said, ..., both), pass_events=True)
        until(lambda: said)
        assert said == [WRITE]
        other.send(b"x")
        both.start(noting(said, ..., both), pass_events=True)
        until(lambda: len(said) == 2)
        assert said[1] & READ


def test_several_watch_one_descriptor(hub_loop: HubLoop, pipe: tuple[int, int]) -> None:
    said: list[int] = []
    watchers = [hub_loop.io(pipe[0], READ) for _ in range(2)]
    for number, watcher in enumerate(watchers):
        watcher.start(noting(said, number, watcher))
    os.write(pipe[1], b"x")
    until(lambda: len(said) == 2)
    assert sorted(said) == [0, 1]


def test_regular_files_are_always_ready(hub_loop: HubLoop) -> None:
    said: list[int] = []
    with open(__file__, "rb") as file:
        watcher = hub_loop.io(file.fileno(), READ)

        def note() -> None:
            said.append(1)
            if len(said) == 3:
                watcher.stop()

        watcher.start(note)
        until(lambda: not watcher.active)


def test_a_number_that_is_another_file_by_now(hub_loop: HubLoop, pipe: tuple[int, int]) -> None:
    said: list[str] = []
    hub_loop.io(pipe[0], READ).start(said.append, "old")
    reader, writer = os.pipe()
    os.dup2(reader, pipe[0])
    new = hub_loop.io(pipe[0], READ)
    new.start(noting(said, "new", new))
    os.write(writer, b"x")
    until(lambda: "new" in said)
    hub_loop.closing_fd(pipe[0])
    for fd in (reader, writer):
        os.close(fd)


def test_closing_fd_tells_who_watches(hub_loop: HubLoop, pipe: tuple[int, int]) -> None:
    said: list[int] = []
    watcher = hub_loop.io(pipe[0], READ)
    watcher.start(said.append, 1)
    assert (hub_loop.closing_fd(pipe[0]), hub_loop.closing_fd(pipe[1])) == (True, False)
    sleep(0)
    sleep(0)
    watcher.stop()
    assert said == [1]


def test_a_callback_that_fails_is_reported_and_not_called_again(hub_loop: HubLoop, pipe: tuple[int, int]) -> None:
    get_hub().exception_stream = stream = io.StringIO()
    watcher = hub_loop.io(pipe[1], WRITE)
    watcher.start(lambda: 1 / 0)
    until(lambda: not watcher.active)
    hub_loop.run_callback(lambda: 1 / 0)
    sleep(0)
    assert stream.getvalue().count("ZeroDivisionError: ") == 2


# -- async, signals, children ------------------------------------------------------------------------------


def test_async_is_sent_by_another_thread(hub_loop: HubLoop) -> None:
    sign = hub_loop.async_()
    thread = threading.Timer(0.001, sign.send_ignoring_arg, (1,))
    # As with libev, a send before the start is lost.
    hub_loop.run_callback(thread.start)
    get_hub().wait(sign)
    thread.join()
    assert not sign.pending
    assert not sign.active


def test_async_is_sent_by_a_handler_of_a_signal(hub_loop: HubLoop) -> None:
    sign = hub_loop.async_()
    old = signal.signal(signal.SIGUSR1, lambda *_: sign.send())
    try:
        hub_loop.run_callback(os.kill, os.getpid(), signal.SIGUSR1)
        get_hub().wait(sign)
    finally:
        signal.signal(signal.SIGUSR1, old)


def test_signals_are_watched_by_several(hub_loop: HubLoop) -> None:
    said: list[int] = []
    watchers = [hub_loop.signal(signal.SIGUSR1, ref=False) for _ in range(2)]
    for number, watcher in enumerate(watchers):
        watcher.start(said.append, number)
    os.kill(os.getpid(), signal.SIGUSR1)
    until(lambda: len(said) == 2)
    for watcher in watchers:
        watcher.close()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


@pytest.mark.parametrize("trace", [0, 1])
def test_child_tells_how_it_has_ended(hub_loop: HubLoop, trace: int) -> None:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "raise SystemExit(3)"], dict(os.environ))
    child = hub_loop.child(pid, trace)
    get_hub().wait(child)
    assert (child.rpid, os.waitstatus_to_exitcode(child.rstatus)) == (pid, 3)


def test_any_child(hub_loop: HubLoop) -> None:
    child = hub_loop.child(0)
    pid = os.posix_spawn("/bin/true", ["true"], {})
    get_hub().wait(child)
    assert (child.rpid, child.rstatus) == (pid, 0)
    hub_loop.reset_sigchld()


def test_a_child_that_somebody_else_has_waited_for(hub_loop: HubLoop) -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    child = hub_loop.child(pid)
    get_hub().wait(child)
    assert os.waitstatus_to_exitcode(child.rstatus) == 255


def test_stat_tells_of_changes(hub_loop: HubLoop, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    watcher = hub_loop.stat(str(path))
    spawn(path.write_text, "xx")
    get_hub().wait(watcher)
    assert watcher.attr is not None
    assert watcher.attr.st_size == 2
    assert watcher.prev is not None
    assert watcher.prev.st_size == 0
    spawn(path.unlink)
    get_hub().wait(watcher)
    assert watcher.attr is None
    assert watcher.prev is not None
    spawn(path.write_text, "x")
    get_hub().wait(watcher)
    assert watcher.attr is not None
    assert watcher.interval > 5


def test_fork_is_told_in_the_child_alone(hub_loop: HubLoop, pipe: tuple[int, int]) -> None:
    said: list[int] = []
    watcher = hub_loop.fork(ref=False)
    watcher.start(lambda: said.append(os.getpid()))
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            sleep(0.001)
            os.write(pipe[1], b"%d" % (said == [os.getpid()]))
        os._exit(0)
    os.waitpid(pid, 0)
    watcher.stop()
    assert (os.read(pipe[0], 9), said) == (b"1", [])


# -- turns and callbacks ---------------------------------------------------------------------------------


def test_turns(hub_loop: HubLoop) -> None:
    said: set[str] = set()
    watchers = [hub_loop.idle(), hub_loop.prepare(), hub_loop.check()]
    for name, watcher in zip("ipc", watchers, strict=True):
        watcher.start(said.add, name)
    until(lambda: said == set("ipc"))
    for watcher in watchers:
        watcher.stop()
    assert get_hub().join() is True


def test_callbacks_run_in_the_order_of_green_threads(hub_loop: HubLoop) -> None:
    said: list[object] = []
    first = hub_loop.run_callback(said.append, 1)
    spawn(said.append, "green")
    hub_loop.run_callback_threadsafe(said.append, 2)
    stopped = hub_loop.run_callback(said.append, 3)
    assert first
    assert first.pending
    assert stopped
    stopped.stop()
    sleep(0)
    assert said == [1, "green", 2]
    assert not first
    assert not first.pending
    assert not stopped


def test_callbacks_of_another_thread_wake_the_hub(hub_loop: HubLoop) -> None:
    woken = Event()
    thread = threading.Timer(0.001, hub_loop.run_callback_threadsafe, (woken.set,))
    thread.start()
    assert woken.wait(60)
    thread.join()


def test_a_callback_cannot_block(hub_loop: HubLoop) -> None:
    get_hub().exception_stream = stream = io.StringIO()
    hub_loop.run_callback(sleep, 1)
    sleep(0)
    assert BlockingSwitchOutError.__name__ in stream.getvalue()


def test_feed_calls_as_if_it_had_happened(hub_loop: HubLoop) -> None:
    said: list[int] = []
    timer = hub_loop.timer(60)
    timer.feed(TIMER, said.append, 1)
    assert timer.pending
    assert not timer.active
    sleep(0)
    assert said == [1]
    assert not timer.pending
    assert timer.callback is None


def test_a_greenlet_is_switched_to_by_a_callback(hub_loop: HubLoop) -> None:
    hub_loop.run_callback(green.getcurrent().switch, "hello")
    assert get_hub().switch() == "hello"
    hub_loop.run_callback(green.getcurrent().throw, ValueError("thrown"))
    with pytest.raises(ValueError, match="thrown"):
        get_hub().switch()
    said: list[object] = []

    def live(value: object) -> None:
        said.append(value)
        sleep(0.001)
        said.append("end")

    raw = RawGreenlet(live)
    hub_loop.run_callback(raw.switch, 4)
    until(lambda: raw.dead)
    assert said == [4, "end"]


# -- the hub -----------------------------------------------------------------------------------------------


def test_cancel_wait_raises_where_it_is_waited(hub_loop: HubLoop, pipe: tuple[int, int]) -> None:
    hub = get_hub()
    watcher = hub_loop.io(pipe[0], READ)
    waiting = spawn(hub.wait, watcher)
    sleep(0)
    with pytest.raises(ConcurrentObjectUseError):
        hub.wait(watcher)
    hub.exception_stream = None
    hub.cancel_wait(watcher, OSError("closed"), True)
    waiting.join()
    assert isinstance(waiting.exception, OSError)
    assert not watcher.active
    said: list[str] = []
    hub.cancel_waits_close_and_then([watcher, None], OSError, said.append, "at once")
    waiting = spawn(hub.wait, watcher)
    sleep(0)
    hub.cancel_waits_close_and_then([watcher], OSError, said.append, "then")
    waiting.join()
    assert said == ["at once", "then"]
    hub.cancel_wait(None, OSError)


def test_waiter_keeps_what_comes_before_anybody_waits(hub_loop: HubLoop) -> None:
    waiter = Waiter()
    assert not waiter.ready()
    assert waiter.exc_info is None
    waiter.switch(25)
    assert waiter.get() == 25
    assert waiter.successful()
    assert str(waiter) == "<Waiter greenlet=None value=25>"
    waiter.clear()
    waiter.throw(ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        waiter.get()
    waiter.clear()
    hub_loop.run_callback(waiter.throw, ValueError, "no")
    with pytest.raises(ValueError, match="no"):
        waiter.get()
    hub_loop.run_callback(waiter.switch_args, 1, 2)
    assert waiter.get() == (1, 2)
    spawn(lambda: 7).rawlink(waiter)
    assert waiter.get() == 7


def test_a_waiter_is_for_one(hub_loop: HubLoop) -> None:
    waiter = Waiter()
    first = spawn(waiter.get)
    sleep(0)
    with pytest.raises(ConcurrentObjectUseError):
        waiter.get()
    waiter.switch(1)
    assert first.get() == 1


def test_what_the_loop_says_of_itself(hub_loop: HubLoop) -> None:
    assert (hub_loop.default, hub_loop.backend, hub_loop.backend_int, hub_loop.pendingcnt) == (True, "epoll", 4, 0)
    assert abs(hub_loop.now() - time.time()) < 3600
    assert get_hub().main_hub
    assert get_hub().parent is green.getcurrent()
    with pytest.deprecated_call():
        hub_loop.update()
    timer = hub_loop.timer(60)
    timer.start(len, ())
    assert "TimerWatcher" in str(hub_loop.debug())
    assert "ref=1" in repr(hub_loop)
    get_hub().destroy()
    assert "destroyed" in repr(hub_loop)
    assert not timer.active
    assert hub_loop.ptr == 0
    for attempt in (hub_loop.now, lambda: hub_loop.run_callback(len), lambda: timer.start(len), hub_loop.run):
        with pytest.raises(ValueError, match="destroyed"):
            attempt()
    assert hub_loop.destroy() is None


def test_run_is_for_who_has_no_hub_running(hub_loop: HubLoop) -> None:
    said: list[int] = []
    hub_loop.timer(0.001).start(said.append, 1)
    hub_loop.run(nowait=True)
    hub_loop.run()
    assert said == [1]
    spawn(hub_loop.run).join()
    get_hub().exception_stream = None
    with pytest.raises(RuntimeError):
        spawn(hub_loop.run).get()


def test_beside_coroutines() -> None:
    async def main() -> list[str]:
        said: list[str] = []
        loop = get_hub().loop
        one, other = os.pipe()
        watcher = loop.io(one, READ, ref=False)
        watcher.start(noting(said, "io", watcher))
        loop.timer(0.001, ref=False).start(said.append, "timer")
        os.write(other, b"x")
        while len(said) < 2:
            await asyncio.sleep(0.001)
        os.close(one)
        os.close(other)
        with pytest.raises(BlockingSwitchOutError):
            get_hub().wait(loop.timer(0))
        return sorted(said)

    assert oneloop.run(main()) == ["io", "timer"]
