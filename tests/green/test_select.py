"""`select` and `poll` of green threads, compared with the standard library's."""

from __future__ import annotations

import asyncio
import errno
import os
import select as stock
import socket as stock_socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import os as green_os
from oneloop.green import select, socket
from oneloop.green.event import Event
from oneloop.green.exceptions import BlockingSwitchOutError, LoopExit
from oneloop.green.hub import has_hub
from tests.descriptors import room_for


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        try:
            os.close(fd)
        except OSError:
            continue


@pytest.fixture(autouse=True)
def with_a_hub() -> None:
    """Without a hub, the thread would block as usual."""
    green.get_hub()


CLOSED = 50
"""A descriptor number that is not open, but valid."""


def later(function: Callable[..., Any], *args: Any) -> Any:
    return green.spawn_later(0.01, function, *args)


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error), getattr(error, "errno", None)


def test_what_is_ready_already(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    assert select.select([reader], [writer], []) == ([], [writer], [])
    os.write(writer, b"x")
    assert select.select([reader], [writer], [reader]) == ([reader], [writer], [])


def test_waiting_lets_the_others_go_on(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    later(os.write, writer, b"x")
    assert select.select([reader, reader], [], []) == ([reader, reader], [], [])
    assert os.read(reader, 1) == b"x"
    later(os.close, writer)
    assert select.select([reader], [], [], 10) == ([reader], [], [])


def test_timeouts(pipe: tuple[int, int]) -> None:
    reader, _ = pipe
    other = green.spawn(lambda: "ran")
    assert select.select([reader], [], [], 0) == ([], [], [])
    assert not other.ready()
    assert select.select([reader], [], [], 0.01) == ([], [], [])
    assert other.value == "ran"
    assert select.select([], [], [], 0.001) == ([], [], [])


def test_objects_with_a_descriptor() -> None:
    one, two = socket.socketpair()
    with one, two:
        later(two.sendall, b"x")
        assert select.select([one], iter([]), [one]) == ([one], [], [])


def test_urgent_data() -> None:
    with stock_socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as one, listener.accept()[0] as two:
            later(two.send, b"!", stock_socket.MSG_OOB)
            assert select.select([], [], [one], 10) == ([], [], [one])


@pytest.mark.parametrize(
    "call",
    [
        lambda module: module.select(1, [], []),
        lambda module: module.select([], [], [], "soon"),
        lambda module: module.select([], [], [], -1),
        lambda module: module.select([], [], [], float("nan")),
        lambda module: module.select([object()], [], []),
        lambda module: module.select([-1], [], []),
        lambda module: module.select([CLOSED], [], []),
        lambda module: module.poll().poll("soon"),
        lambda module: module.poll().poll(1 << 64),
        lambda module: module.poll().register(0, -1),
        lambda module: module.poll().register(0, 1 << 40),
        lambda module: module.poll().modify(0, 1),
        lambda module: module.poll().unregister(0),
        lambda module: module.poll().register(object()),
    ],
)
def test_mistakes(call: Any) -> None:
    assert outcome(lambda: call(select)) == outcome(lambda: call(stock))


def test_large_numbers(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    large = 1500
    with room_for(large + 1):
        os.dup2(reader, large)
    try:
        with pytest.raises(ValueError, match="out of range"):
            stock.select([large], [], [], 0)
        assert select.select([large], [], [], 0) == ([], [], [])
        later(os.write, writer, b"x")
        assert select.select([large, reader], [writer], [large]) == ([], [writer], [])
        assert select.select([large, reader], [], [large]) == ([large, reader], [], [])
    finally:
        os.close(large)
    assert outcome(lambda: select.select([large], [], [])) == outcome(lambda: stock.select([CLOSED], [], []))


def test_several_wait_for_the_same(pipe: tuple[int, int]) -> None:
    one, two = socket.socketpair()
    with one, two:
        waiting = [green.spawn(select.select, [one], [], []) for _ in range(3)]
        waiting.append(green.spawn(select.select, [one.fileno()], [], []))
        receiving = green.spawn(one.recv, 1, stock_socket.MSG_PEEK)
        plain = green.spawn(one.recv, 1)
        green.sleep(0)
        two.sendall(b"xy")
        assert set(green.joinall(waiting, timeout=10)) == set(waiting)
        assert [len(one.get()[0]) for one in waiting] == [1, 1, 1, 1]
        assert (receiving.get() in (b"x", b"y"), plain.get()) == (True, b"x")


def test_a_killed_waiter_leaves_nothing(pipe: tuple[int, int]) -> None:
    green.sleep(0)
    before = set(os.listdir("/proc/self/fd"))
    waiting = green.spawn(select.select, [pipe[0]], [], [])
    green.sleep(0)
    waiting.kill()
    assert set(os.listdir("/proc/self/fd")) == before


def test_afterwards_a_sleep_for_ever_is_noticed(pipe: tuple[int, int]) -> None:
    later(os.write, pipe[1], b"x")
    select.select([pipe[0]], [], [])
    with pytest.raises(LoopExit):
        Event().wait()
    with pytest.raises(LoopExit):
        select.select([], [], [])


def test_regular_files(pipe: tuple[int, int]) -> None:
    with tempfile.TemporaryFile() as file:
        assert select.select([file], [file], []) == ([file], [file], [])
        later(os.write, pipe[1], b"x")
        assert select.select([pipe[0]], [], [file]) == ([pipe[0]], [], [])
        polled = select.poll()
        polled.register(file)
        assert dict(polled.poll()) == {file.fileno(): select.POLLIN | select.POLLOUT}


def test_a_terminal() -> None:
    leader, follower = os.openpty()
    try:
        later(os.write, leader, b"line\n")
        assert select.select([follower], [], [], 10) == ([follower], [], [])
    finally:
        os.close(leader)
        os.close(follower)


def test_poll(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    polled = select.poll()
    polled.register(reader, select.POLLIN)
    assert polled.poll(0) == polled.poll(1) == polled.poll(0.5) == []
    later(os.write, writer, b"x")
    assert polled.poll(-1) == [(reader, select.POLLIN)]
    polled.register(writer)
    assert sorted(polled.poll()) == [(reader, select.POLLIN), (writer, select.POLLOUT)]
    polled.modify(writer, 0)
    polled.unregister(reader)
    later(os.close, reader)
    assert polled.poll() == [(writer, select.POLLERR)]
    os.close(writer)
    assert polled.poll() == [(writer, select.POLLNVAL)]


def test_one_poll_at_a_time(pipe: tuple[int, int]) -> None:
    polled = select.poll()
    polled.register(pipe[0], select.POLLIN)
    waiting = green.spawn(polled.poll)
    green.sleep(0)
    with pytest.raises(RuntimeError, match="concurrent"):
        polled.poll()
    waiting.kill()
    assert polled.poll(0) == []


def test_in_a_coroutine() -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        assert select.select([reader], [], [], 0) == ([], [], [])
        with pytest.raises(BlockingSwitchOutError, match=r"select\(\) would block"):
            select.select([reader], [], [])

        async def tick() -> None:
            await asyncio.sleep(0.001)
            os.write(writer, b"x")

        # Only other tasks that run meanwhile end the wait.
        ticking = asyncio.create_task(tick())
        loop: Any = asyncio.get_running_loop()
        assert await loop.run_green(select.select, [reader], [], []) == ([reader], [], [])
        await ticking
        os.close(reader)
        os.close(writer)

    oneloop.run(main())


def test_a_thread_without_a_hub(pipe: tuple[int, int]) -> None:
    found: list[Any] = []

    def wait() -> None:
        found.append(select.select([pipe[0]], [], [], 10))
        found.append(select.select([], [], [], 0.001))
        found.append(has_hub())

    thread = threading.Thread(target=wait)
    thread.start()
    os.write(pipe[1], b"x")
    thread.join()
    assert found == [([pipe[0]], [], []), ([], [], []), False]


def test_names_of_the_standard_library() -> None:
    assert set(dir(stock.epoll)) - set(dir(select.epoll)) == set()
    assert select.error is stock.error
    assert set(select.__implements__) < set(select.__all__)
    with pytest.raises(AttributeError):
        select.no_such_name  # noqa: B018


@pytest.mark.parametrize("kind", ["select", "poll"])
def test_what_another_has_read_meanwhile_ends_the_wait(kind: str, pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    told: list[Any] = []

    def drains() -> None:
        select.select([reading], [], [])
        os.read(reading, 10)

    def waits() -> None:
        if kind == "select":
            told.append(select.select([reading], [], [], 5)[0])
        else:
            polled = select.poll()
            polled.register(reading, stock.POLLIN)
            told.append(polled.poll(5000))

    # The first one is woken first, and empties the pipe before the second one continues.
    greenlets = [green.spawn(drains), green.spawn(waits)]
    green.sleep(0.001)
    os.write(writing, b".")
    began_ticks = green.get_hub().asyncio_loop.statistics().ticks
    green.joinall(greenlets, raise_error=True)
    assert told == [[reading]] if kind == "select" else told == [[(reading, stock.POLLIN)]]
    assert green.get_hub().asyncio_loop.statistics().ticks - began_ticks < 50


def _poll_for_reading(fd: int) -> object:
    polled = select.poll()
    polled.register(fd, stock.POLLIN)
    return polled.poll()


def _watch_reading(fd: int) -> None:
    hub = green.get_hub()
    hub.wait(hub.loop.io(fd, 1))


@pytest.mark.parametrize("how", ["close", "detach", "os.close"])
@pytest.mark.parametrize(
    "wait",
    [socket.wait_read, lambda fd: select.select([fd], [], []), _poll_for_reading, _watch_reading],
    ids=["wait_read", "select", "poll", "io"],
)
def test_a_wait_ends_when_another_green_thread_closes_the_descriptor(wait: Callable[[int], object], how: str) -> None:
    """As in gevent: the kernel forgets a closed descriptor, and tells nobody."""
    ours, theirs = socket.socketpair()
    fd = ours.fileno()

    def ended() -> int | None:
        try:
            wait(fd)
        except OSError as error:
            return error.errno
        return None

    waiting = green.spawn(ended)
    green.sleep(0.001)
    if how == "close":
        ours.close()
    elif how == "os.close":
        green_os.close(ours.detach())
    else:
        os.close(ours.detach())
    waiting.join(5)
    theirs.close()
    assert waiting.successful()
    assert waiting.value in (None, errno.EBADF)
