"""`core.loop`: gevent's standalone loop, driven by `run`. The real gevent runs on it; this tests it without gevent."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from greenlet import getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812

from oneloop.green import core
from oneloop.green.exceptions import HubDestroyed
from oneloop.green.watchers.events import READ
from tests.green.test_loop import noting


@pytest.fixture
def loop(audit: None) -> Iterator[core.loop]:
    made = core.loop(default=False)
    yield made
    made.destroy()


def test_run_ends_when_nothing_is_left(loop: core.loop) -> None:
    said: list[int] = []
    loop.run()
    loop.timer(0.001).start(said.append, 1)
    loop.timer(60, ref=False).start(said.append, 2)
    loop.run()
    assert said == [1]
    loop.run_callback(said.append, 3)
    loop.run(nowait=True)
    assert said == [1, 3]
    assert loop.iteration > 1
    assert loop.depth == 0


def test_once_is_one_turn(loop: core.loop) -> None:
    said: list[int] = []
    loop.timer(0.001).start(said.append, 1)
    loop.timer(60).start(said.append, 2)
    while not said:
        loop.run(once=True)
    assert said == [1]
    assert loop.activecnt == 1


def test_break_ends_the_turn(loop: core.loop) -> None:
    timer = loop.timer(0, 0.001)
    timer.start(loop.break_)
    loop.run()
    assert timer.active


def test_turns_are_told(loop: core.loop) -> None:
    said: list[str] = []
    for name, watcher in (("prepare", loop.prepare(ref=False)), ("check", loop.check(ref=False))):
        watcher.start(said.append, name)
    idle = loop.idle()
    idle.start(noting(said, "idle", idle))
    loop.run()
    assert said[:3] == ["prepare", "idle", "check"]


def test_callbacks_that_keep_each_other_ready_let_others_through(loop: core.loop) -> None:
    is_over = False

    def again() -> None:
        if not is_over:
            loop.run_callback(again)

    def end() -> None:
        nonlocal is_over
        is_over = True

    loop.run_callback(again)
    loop.timer(0.001).start(end)
    loop.run()
    assert is_over


def test_another_thread_wakes_it(loop: core.loop) -> None:
    said: list[int] = []
    sign = loop.async_()
    sign.start(noting(said, 1, sign))
    thread = threading.Timer(0.001, sign.send)
    thread.start()
    loop.run()
    thread.join()
    loop.ref()
    thread = threading.Timer(0.001, loop.run_callback_threadsafe, (loop.unref,))
    thread.start()
    loop.run()
    thread.join()
    assert said == [1]


def test_coroutines_beside_it(loop: core.loop) -> None:
    """A task keeps the loop running. In callbacks, no loop counts as running."""
    said: list[Any] = []

    async def main() -> None:
        await asyncio.sleep(0.001)
        said.append(asyncio.get_running_loop())
        loop.run_callback(lambda: said.append(asyncio._get_running_loop()))
        await asyncio.to_thread(said.append, "thread")
        await loop.asyncio_loop.shutdown_default_executor()

    task = loop.asyncio_loop.create_task(main())
    loop.run()
    assert task.done()
    assert said[0] is loop.asyncio_loop
    assert {*said[1:]} == {None, "thread"}


def test_a_reader_of_the_loop_below_is_something_to_go_on_for(loop: core.loop) -> None:
    reader, writer = os.pipe()
    below = loop.asyncio_loop
    below.add_reader(reader, below.remove_reader, reader)
    below.call_later(0.001, os.write, writer, b"x")
    loop.run()
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    os.close(writer)


def test_greenlets_are_switched_by_callbacks(loop: core.loop) -> None:
    """As in gevent's hub: the loop runs in a greenlet, and its callbacks switch to other greenlets."""
    hub = RawGreenlet(loop.run)
    main = getcurrent()
    loop.timer(0.001).start(main.switch, "first")
    loop.timer(0.002).start(main.switch, "second")
    assert [hub.switch(), hub.switch()] == ["first", "second"]
    assert hub.switch() is None
    assert hub.dead


def test_errors_go_to_the_handler(loop: core.loop, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[Any] = []

    def fail() -> None:
        raise ValueError("mine")

    loop.error_handler = lambda context, kind, value, trace: told.append((context, kind))
    callback = loop.run_callback(fail)
    timer = loop.timer(0)
    timer.start(fail)
    loop.run()
    assert told == [(callback, ValueError), (timer, ValueError)]

    def handler(*_args: object) -> None:
        raise KeyError("the handler's")

    loop.error_handler = handler
    loop.run_callback(fail)
    loop.run()
    assert "the handler's" in capsys.readouterr().err
    loop.error_handler = None
    loop.run_callback(fail)
    timer.start(len, ())
    loop.run()
    assert "mine" in capsys.readouterr().err


def test_the_end_of_a_hub_ends_it(loop: core.loop) -> None:
    def end() -> None:
        raise HubDestroyed

    loop.timer(60).start(len, ())
    loop.run_callback(end)
    loop.run_callback(pytest.fail)
    loop.run()


def test_not_in_a_coroutine(loop: core.loop) -> None:
    async def main() -> None:
        loop.run()

    with pytest.raises(RuntimeError, match="coroutine"):
        asyncio.run(main())


def test_a_forked_child_goes_on(loop: core.loop) -> None:
    reader, writer = os.pipe()
    said: list[str] = []
    loop.timer(0.001).start(said.append, "timer")
    incoming = loop.io(reader, READ)
    incoming.start(noting(said, "io", incoming))
    fork = loop.fork(ref=False)
    fork.start(said.append, "fork")
    results, result = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(writer, b"x")
            loop.run()
        finally:
            os.write(result, " ".join(sorted(said)).encode() or b"nothing")
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(results, 100) == b"fork io timer"
    loop.run()
    assert sorted(said) == ["io", "timer"]
    for fd in (reader, writer, results, result):
        os.close(fd)


def test_flags_are_libevs(loop: core.loop) -> None:
    flagged = core.loop("select, forkcheck", default=False)
    assert flagged.origflags == ["forkcheck", "select"] or set(flagged.origflags) == {"forkcheck", "select"}
    assert flagged.origflags_int == core.BACKEND_SELECT | core.FORKCHECK
    flagged.destroy()
    with pytest.raises(ValueError, match="blabla"):
        core.loop(["port", "blabla"], default=False)
    with pytest.raises(TypeError):
        core.loop(object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="default"):
        loop.child(1)
    assert core.get_version() == core.get_header_version()
    assert core.supported_backends() == ["epoll"]


def test_destroyed(loop: core.loop) -> None:
    timer = loop.timer(60)
    timer.start(len, ())
    assert loop.destroy() is True
    assert loop.destroy() is None
    assert not timer.active
    assert not loop.default
    assert loop.ptr == 0
    for attempt in (loop.run, loop.break_, loop.verify, loop.reinit, lambda: timer.start(len)):
        with pytest.raises(ValueError, match="destroyed"):
            attempt()
