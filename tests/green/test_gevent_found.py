"""Behaviour that gevent's own tests have found, where they do not hold it themselves on every version."""

from __future__ import annotations

import os
import select
import signal
import socket as stock_socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from oneloop import green
from oneloop.green import core, events, selectors
from oneloop.green import select as green_select
from oneloop.green import subprocess as green_subprocess
from oneloop.green.event import AsyncResult, Event
from oneloop.green.exceptions import InvalidSwitchError
from oneloop.green.fileobject import FileObject
from oneloop.green.greenlet import Greenlet
from oneloop.green.lock import RLock, Semaphore
from oneloop.green.queue import Channel, Empty, Full, Queue
from oneloop.green.server import StreamServer
from oneloop.green.threadpool import ThreadPool, ThreadPoolExecutor
from tests.green.patched import patched


def test_an_epoll_object_lets_others_run_and_can_be_waited_for() -> None:
    green.get_hub()
    reader, writer = os.pipe()
    with green_select.epoll() as inner, green_select.epoll() as outer:
        inner.register(reader, select.EPOLLIN)
        outer.register(inner.fileno(), select.EPOLLIN)
        waiting: list[Any] = [green.spawn(outer.poll), green.spawn(green_select.select, [inner], [], [])]
        green.sleep(0)
        assert not any(one.ready() for one in waiting)
        os.write(writer, b"x")
        assert waiting[0].get() == [(inner.fileno(), select.EPOLLIN)]
        assert waiting[1].get()[0] == [inner]
        assert inner.poll(0) == [(reader, select.EPOLLIN)]
        assert inner.poll(maxevents=1) == [(reader, select.EPOLLIN)]
        inner.modify(reader, 0)
        assert inner.poll(0.001) == []
        inner.unregister(reader)
    assert inner.closed
    with pytest.raises(ValueError, match="closed"):
        inner.poll(0)
    with green_select.epoll() as made, green_select.epoll.fromfd(os.dup(made.fileno())) as same:
        assert same.poll(0) == []
    os.close(reader)
    os.close(writer)


def test_an_epoll_object_of_edges_keeps_an_edge() -> None:
    green.get_hub()
    reader, writer = os.pipe()
    with green_select.epoll() as polled:
        polled.register(reader, select.EPOLLIN | select.EPOLLET | select.EPOLLONESHOT)
        waiting = green.spawn(polled.poll)
        green.sleep(0)
        os.write(writer, b"x")
        assert waiting.get() == [(reader, select.EPOLLIN)]
        assert polled.poll(0.001) == []
    os.close(reader)
    os.close(writer)


def test_many_green_threads_poll_in_a_patched_program() -> None:
    out = patched(
        """
        import os, select, threading
        pipes = [os.pipe() for _ in range(20)]
        got = []
        def poll(fd):
            with select.epoll() as polled:
                polled.register(fd, select.EPOLLIN)
                got.append(polled.poll()[0][0] == fd)
        threads = [threading.Thread(target=poll, args=(reader,)) for reader, _ in pipes]
        for thread in threads: thread.start()
        for _, writer in reversed(pipes): os.write(writer, b"x")
        for thread in threads: thread.join()
        print(got == [True] * 20)
        """
    )
    assert out == "True\n"


def test_a_channel_hands_over_before_its_put_returns() -> None:
    channel: Channel[int] = Channel()
    seen: list[object] = []

    def get() -> None:
        seen.append(channel.get())

    greenlet = green.spawn(get)
    green.sleep(0)
    assert (channel.balance, channel.empty(), channel.full(), len(channel)) == (-1, True, True, 0)
    channel.put(1)
    seen.append("put")
    greenlet.join()
    assert seen == [1, "put"]
    with pytest.raises(Full):
        channel.put(2, timeout=0.001)


def test_queues_run_the_hooks_of_subclasses() -> None:
    class Counting(Queue[int]):
        def _init(self, maxsize: Any, items: Any = ()) -> None:
            super()._init(maxsize, items)
            self.calls: list[str] = []

        def _put(self, item: int) -> None:
            self.calls.append("put")
            super()._put(item)

        def _get(self) -> int:
            self.calls.append("get")
            return super()._get()

    counting = Counting()
    waiting = green.spawn(counting.get)
    green.sleep(0)
    counting.put(1)
    assert (waiting.get(), counting.calls) == (1, ["put", "get"])
    copy: Queue[Any] = Queue(3, [1, 2]).copy()
    assert (copy.maxsize, list(copy.queue)) == (3, [1, 2])
    copy.queue = deque(["assigned"])
    assert copy.get() == "assigned"


def test_a_callback_may_put_and_get_without_waiting(own_hub: None) -> None:
    items: Queue[int] = Queue(1)
    seen: list[object] = []

    def use() -> None:
        items.put(1)
        calls: list[Callable[[], object]] = [partial(items.put, 2), items.get, items.get]
        for call in calls:
            try:
                seen.append(call())
            except (Full, Empty) as error:
                seen.append(type(error))

    green.get_hub().loop.run_callback(use)
    green.sleep(0.001)
    assert seen == [Full, 1, Empty]


def test_numbers_as_truth() -> None:
    items: Queue[int] = Queue(1)
    items.put(1, 1)  # type: ignore[arg-type]
    assert items.get(0) == 1  # type: ignore[arg-type]
    assert Semaphore(0).acquire(0) is False  # type: ignore[arg-type]
    assert RLock().acquire(1) is True  # type: ignore[arg-type]


def test_what_is_killed_with_no_exception_has_failed() -> None:
    for wait in (0, 1):
        greenlet = green.spawn(green.sleep, 10)
        if wait:
            green.sleep(0)
        greenlet.kill(42)
        assert greenlet.exception is not None
        assert greenlet.exception.args == (42,)


def test_a_link_runs_before_the_next_one() -> None:
    greenlet = green.spawn(int)
    seen: list[object] = []

    def first(_: object) -> None:
        greenlet.unlink(second)
        green.sleep(0)
        seen.append("first")

    def second(_: object) -> None:
        seen.append("second")

    greenlet.link(first)
    greenlet.link(second)
    green.sleep(0.01)
    assert seen == ["first"]


def test_tracebacks_do_not_grow() -> None:
    def depth(error: BaseException) -> int:
        count, trace = 0, error.__traceback__
        while trace is not None:
            count, trace = count + 1, trace.tb_next
        return count

    result: AsyncResult[int] = AsyncResult()
    result.set_exception(LookupError())
    greenlet = green.spawn(list[int]().pop)
    green.get_hub().exception_stream = None
    depths = []
    for one in (result, greenlet):
        for _ in range(3):
            with pytest.raises(LookupError) as raised:
                one.get()
            depths.append(depth(raised.value))
    del green.get_hub().exception_stream
    assert depths[0] == depths[1] == depths[2]
    assert depths[3] == depths[4] == depths[5]
    assert AsyncResult().exc_info == ()
    assert green.spawn(int).exc_info is None


def test_a_thread_without_a_hub_blocks_for_a_semaphore() -> None:
    semaphore = Semaphore(0)
    has_hub: list[bool] = []
    taken: list[bool] = []

    def work() -> None:
        taken.append(semaphore.acquire(timeout=0.001))
        taken.append(semaphore.acquire())
        from oneloop.green.hub import has_hub as known

        has_hub.append(known())

    thread = threading.Thread(target=work)
    thread.start()
    while not taken:
        green.sleep(0.001)
    semaphore.release()
    thread.join()
    assert (taken, has_hub, semaphore.counter) == ([False, True], [False], 0)


def test_an_event_that_notifies_lets_its_waiters_go_first() -> None:
    event = Event()
    seen: list[int] = []

    def wait(number: int) -> None:
        event.wait()
        seen.append(number)

    greenlets = [green.spawn(wait, 1), green.spawn(wait, 2)]
    green.sleep(0)
    event.set()
    wait(3)
    assert seen == [1, 2, 3]
    green.joinall(greenlets)


def test_a_server_pauses_and_closes_the_socket_that_it_was_given() -> None:
    listener = green_socket()
    with StreamServer(listener, lambda sock, _: sock.sendall(b"x")) as server:
        server.start()
        assert "handle=<function" in repr(server)
        server.stop_accepting()
        with stock_socket.create_connection(server.address) as client:
            green.sleep(0.01)
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)
            server.start_accepting()
            while not select.select([client], [], [], 0)[0]:
                green.sleep(0.001)
            assert client.recv(1) == b"x"
        assert server.started
    assert listener.fileno() == -1


def green_socket() -> Any:
    from oneloop.green import socket

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


def test_a_child_can_be_waited_for_with_others() -> None:
    process = green_subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(3)"])
    assert green.wait([process]) == [process]
    assert process.poll() == 3


def test_a_pipe_of_a_child_blocks_there() -> None:
    reader, writer = os.pipe()
    with FileObject(reader, "rb") as file:
        source = "import sys; print(len(sys.stdin.buffer.read(3)))"
        child = green_subprocess.Popen([sys.executable, "-S", "-c", source], stdin=file, stdout=subprocess.PIPE)
        green.sleep(0.05)
        os.write(writer, b"abc")
        assert child.communicate()[0] == b"3\n"
    os.close(writer)


def test_a_files_name_stays() -> None:
    reader, writer = os.pipe()
    with FileObject(reader, "r") as file:
        assert not hasattr(file, "read1")
        assert file.fileio.fileno() == reader
    assert file.name == reader
    os.close(writer)


def test_the_end_of_a_pool_while_calls_are_made() -> None:
    import time

    for size in (1, 2, 5):
        pool = ThreadPool(size)
        result = pool.map_async(time.sleep, [0.005] * size * 3)
        green.sleep(0.005)
        pool.kill()
        result.join()
        pool.kill()
    for _ in range(50):
        pool = ThreadPool(2)
        pool.size = 1
        pool.size = 2
        pool.kill()


def test_a_future_can_be_waited_for_with_others() -> None:
    executor = ThreadPoolExecutor(1)
    future = executor.submit(int)
    assert green.wait([future]) == [future]
    executor.kill()


def test_a_handler_of_children_may_wait() -> None:
    out = patched(
        """
        import os, signal, time
        done = []
        def handle(*_):
            time.sleep(0.001)
            done.append(1)
        signal.signal(signal.SIGCHLD, handle)
        print(signal.getsignal(signal.SIGCHLD) is handle)
        pid = os.posix_spawn("/bin/true", ["true"], os.environ)
        while not done: time.sleep(0.001)
        print(os.waitpid(pid, 0)[0] == pid)
        """
    )
    assert out == "True\nTrue\n"


def test_an_exception_of_a_signal_handler_reaches_the_main_greenlet(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise LookupError

    handler = green.signal_handler(signal.SIGUSR1, fail)
    assert handler.ref is False
    green.spawn_later(0.001, os.kill, os.getpid(), signal.SIGUSR1)
    with pytest.raises(LookupError):
        green.sleep(5)
    handler.cancel()
    assert "LookupError" in capsys.readouterr().err


def test_join_in_another_thread_returns() -> None:
    joined: list[object] = []

    def work() -> None:
        green.spawn(int).join()
        joined.append(green.get_hub().join())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert joined == [True]


def test_a_broken_error_handler_ends_nothing(own_hub: None, capsys: pytest.CaptureFixture[str]) -> None:
    hub: Any = green.get_hub()

    def fail(*_: object) -> None:
        raise AttributeError

    hub.handle_error = fail
    with pytest.raises(IndexError):
        green.spawn([].pop).get()
    del hub.handle_error
    assert "AttributeError" in capsys.readouterr().err


def test_a_greenlet_that_is_killed_before_it_has_begun_has_ended_when_its_error_is_reported(own_hub: None) -> None:
    hub: Any = green.get_hub()
    seen: list[object] = []
    hub.handle_error = lambda context, *_: seen.append((context is killed, killed.ready(), killed.exception))
    killed: green.Greenlet = green.spawn(int)
    error = LookupError()
    killed.kill(error)
    del hub.handle_error
    assert seen == [(True, True, error)]


def test_a_switch_that_does_not_end_a_wait_raises() -> None:
    event = Event()
    waits: list[Callable[[], object]] = [event.wait, partial(green.sleep, 60), Queue().get, Semaphore(0).acquire]
    for wait in waits:
        greenlet = green.spawn(wait)
        green.sleep(0)
        green.get_hub().loop.run_callback(greenlet.switch, None)
        with pytest.raises(InvalidSwitchError, match="Invalid switch"):
            greenlet.get()
    # Nobody is left in the line.
    assert event.linkcount() == 0


def test_what_is_ready_comes_first_and_at_once() -> None:
    ended = green.spawn(int)
    ended.join()
    ran: list[int] = []
    started = green.spawn(ran.append, 1)
    free, taken = Semaphore(1), Semaphore(0)
    with green.iwait([started, taken, ended, free, ended]) as ready:
        assert [next(ready) for _ in range(3)] == [ended, free, ended]
        assert ran == []
        assert taken.linkcount() == 1
        assert next(ready) is started
        taken.release()
        assert next(ready) is taken
        assert list(ready) == []
    assert taken.linkcount() == free.linkcount() == 0


def test_a_check_watcher_waits_for_what_is_ready() -> None:
    order: list[str] = []
    event = Event()

    def wait() -> None:
        event.wait()
        order.append("woken")

    waiting = green.spawn(wait)
    green.sleep(0)
    check = green.get_hub().loop.check()
    check.start(order.append, "check")
    event.set()
    waiting.join()
    while len(order) < 2:
        green.sleep(0)
    check.close()
    assert order[:2] == ["woken", "check"]


def test_the_parent_of_a_greenlet_that_has_not_begun_is_the_hub() -> None:
    hub = green.get_hub()
    greenlet = Greenlet(green.sleep)
    assert greenlet.parent is hub
    greenlet.parent = hub
    assert greenlet.parent.minimal_ident == 0
    greenlet.start()
    greenlet.join()
    assert greenlet.parent is not hub


def test_threading_may_have_this_event() -> None:
    """Programs assign it. Before Python 3.13, threading calls its private method after a fork, in any order."""
    patched("""
        import os, threading
        from oneloop.green.event import Event
        threading.Event = Event
        waiting = [threading.Thread(target=Event().wait, daemon=True) for _ in range(5)]
        for thread in waiting: thread.start()
        def work():
            if pid := os.fork(): assert os.waitpid(pid, 0)[1] == 0
            else:
                thread = threading.Thread(target=int); thread.start(); thread.join()
                os._exit(0)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """)
    event = Event()
    event.set()
    event._at_fork_reinit()
    assert event.wait(0)


def test_a_selector_refuses_a_closed_descriptor() -> None:
    with stock_socket.socket() as sock:
        number = os.dup(sock.fileno())
    os.close(number)
    with selectors.GeventSelector() as selector, pytest.raises(ValueError, match="Invalid file"):
        selector.register(number, selectors.EVENT_READ)
    with selectors.GeventSelector() as selector, pytest.raises(ValueError, match="Invalid file"):
        selector.register(selector.fileno(), selectors.EVENT_READ)


def test_patched_names_are_those_of_our_modules() -> None:
    patched("""
        import _thread, socket, threading
        from oneloop.green import monkey, socket as ours, thread
        assert socket.create_connection is ours.create_connection
        assert _thread.start_new_thread is thread.start_new_thread
        if hasattr(threading, "_start_joinable_thread"):
            assert threading._start_joinable_thread is thread.start_joinable_thread
        assert monkey.is_object_patched("threading", "Event")
        real = monkey.get_original("threading", "Event")
        assert real is not threading.Event
        assert type(real()._cond._lock) is type(monkey.get_original("_thread", "allocate_lock")())
    """)


def test_settings_of_classes() -> None:
    assert green.config.loop is core.loop
    assert green.config.threadpool is ThreadPool
    assert green.config.fileobject is FileObject
    assert green.config.track_greenlet_tree is True
    green.config.track_greenlet_tree = "no"
    try:
        assert Greenlet(int).spawning_greenlet is None
    finally:
        green.config.track_greenlet_tree = True
    with pytest.raises(ImportError, match="cannot import 'nowhere'"):
        green.config.fileobject = "nowhere"
    assert events.IEventLoopBlocked.implementedBy(events.EventLoopBlocked)
